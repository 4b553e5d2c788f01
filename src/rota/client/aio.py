"""The client for asyncio."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from typing import Self

import aiohttp
import orjson

from rota.client.calls import (
    MAX_TRIES,
    USER_AGENT,
    Call,
    Document,
    asked_pause_s,
    error_of,
    is_again,
    outcome,
    pause_s,
    unreachable,
)
from rota.client.methods import Methods


class AsyncClient(Methods[Awaitable[Document]]):
    """The API for asyncio. `async with AsyncClient(url, key) as client: await client.me()`."""

    def __init__(self, url: str, key: str, *, timeout_s: float = 30.0, max_tries: int = MAX_TRIES) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": USER_AGENT}
        self._timeout_s = timeout_s
        self._max_tries = max_tries
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def create_schedules(self, definitions: Iterable[Mapping[str, object]]) -> AsyncIterator[Document]:
        """Create many in one call; yields one result a definition, in order (see `line` and `error` of each)."""
        body = b"".join(orjson.dumps(definition) + b"\n" for definition in definitions)
        headers = {"Content-Type": "application/x-ndjson"}
        no_limit = aiohttp.ClientTimeout(total=None)
        url = self._url + "/v1/schedules/bulk"
        async with self._open().post(url, data=io.BytesIO(body), headers=headers, timeout=no_limit) as response:
            if response.status != 200:
                raise error_of(response.status, await response.read())
            async for line in response.content:
                if line.strip():
                    yield orjson.loads(line)

    async def all_schedules(self, **filters: object) -> AsyncIterator[Document]:
        """All pages of `list_schedules`, item by item."""
        async for item in self._all("/v1/schedules", filters):
            yield item

    async def all_occurrences(self, **filters: object) -> AsyncIterator[Document]:
        """All pages of `list_occurrences`, item by item."""
        async for item in self._all("/v1/occurrences", filters):
            yield item

    async def _all(self, path: str, filters: Mapping[str, object]) -> AsyncIterator[Document]:
        query = dict(filters)
        while True:
            page = await self.request("GET", path, query=query)
            for item in page["items"]:
                yield item
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._timeout_s)
            self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout)
        return self._session

    async def _send(self, call: Call) -> Document:
        for number in range(1, self._max_tries + 1):
            pause = pause_s(number)
            try:
                async with self._open().request(
                    call.method, self._url + call.path, data=call.body, headers=call.headers, allow_redirects=False
                ) as response:
                    status, body = response.status, await response.read()
                    if number == self._max_tries or not is_again(call, status):
                        return outcome(status, body)
                    pause = asked_pause_s(response.headers.get("Retry-After"), pause)
            except aiohttp.ClientConnectorError as error:
                if number == self._max_tries:
                    raise unreachable(self._url, error) from error
            except (aiohttp.ClientError, TimeoutError) as error:
                if number == self._max_tries or not call.is_repeatable:
                    raise unreachable(self._url, error) from error
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")
