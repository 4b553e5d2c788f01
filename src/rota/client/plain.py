"""The client for plain code: one connection of the standard library, used in turns."""

import http.client
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Self
from urllib.parse import urlsplit

import orjson

from rota.base import errors
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

MAX_IDLE_S = 2.0


class Client(Methods[Document]):
    """The API for plain code; safe to share between threads, which then take turns."""

    def __init__(self, url: str, key: str, *, timeout_s: float = 30.0, max_tries: int = MAX_TRIES) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise errors.ConfigError(
                f"not an http or https URL: {url!r}", code="bad_url", hint="for example http://127.0.0.1:8080"
            )
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout_s)
        self._url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": USER_AGENT}
        self._max_tries = max_tries
        self._turn = threading.Lock()
        self._used_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def create_schedules(self, definitions: Iterable[Mapping[str, object]]) -> Iterator[Document]:
        """Create many in one call; yields one result a definition, in order (see `line` and `error` of each)."""
        body = b"".join(orjson.dumps(definition) + b"\n" for definition in definitions)
        headers = {"Content-Type": "application/x-ndjson"}
        with self._turn:
            status, _, answer = self._exchange(
                Call(method="POST", path="/v1/schedules/bulk", body=body, headers=headers)
            )
        if status != 200:
            raise error_of(status, answer)
        yield from (orjson.loads(line) for line in answer.splitlines() if line.strip())

    def all_schedules(self, **filters: object) -> Iterator[Document]:
        """All pages of `list_schedules`, item by item."""
        return self._all("/v1/schedules", filters)

    def all_occurrences(self, **filters: object) -> Iterator[Document]:
        """All pages of `list_occurrences`, item by item."""
        return self._all("/v1/occurrences", filters)

    def _all(self, path: str, filters: Mapping[str, object]) -> Iterator[Document]:
        query = dict(filters)
        while True:
            page = self.request("GET", path, query=query)
            yield from page["items"]
            if page["next_cursor"] is None:
                return
            query["cursor"] = page["next_cursor"]

    def _exchange(self, call: Call) -> tuple[int, str | None, bytes]:
        if time.monotonic() - self._used_at > MAX_IDLE_S:
            self._connection.close()  # opened anew by the next line: the server may have closed it meanwhile
        try:
            self._connection.request(
                call.method, self._prefix + call.path, call.body, {**self._headers, **call.headers}
            )
            response = self._connection.getresponse()
            body = response.read()
            self._used_at = time.monotonic()
            return response.status, response.getheader("Retry-After"), body
        except BaseException:
            self._connection.close()
            raise

    def _send(self, call: Call) -> Document:
        for number in range(1, self._max_tries + 1):
            pause = pause_s(number)
            try:
                with self._turn:
                    status, asked, body = self._exchange(call)
                if number == self._max_tries or not is_again(call, status):
                    return outcome(status, body)
                pause = asked_pause_s(asked, pause)
            except ConnectionRefusedError as error:
                if number == self._max_tries:
                    raise unreachable(self._url, error) from error
            except (OSError, http.client.HTTPException) as error:
                if number == self._max_tries or not call.is_repeatable:
                    raise unreachable(self._url, error) from error
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")
