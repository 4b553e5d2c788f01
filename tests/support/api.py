"""Calls of the HTTP API as a test makes them: plain requests, plain answers, nothing retried."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from multidict import CIMultiDictProxy

from rota.base.db import Database
from rota.base.model import Actor, TenantId
from rota.catalog import keys, tenants

SETUP = Actor(kind="cli", id="test-setup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem."""
        return str(self.json["code"])

    @property
    def fields(self) -> list[str]:
        """The wrong fields a problem names."""
        return [error["field"] for error in self.json.get("errors", [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A tenant with a key."""

    tenant_id: TenantId
    key: str
    key_id: str


class Api:
    """Calls with the key of `caller` unless another is given; `key=""` sends none."""

    def __init__(self, url: str, database: Database) -> None:
        self.url = url
        self.database = database
        self.caller = Caller(tenant_id=TenantId(0), key="", key_id="")
        self._session = aiohttp.ClientSession()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def sign_up(self, name: str, *, is_operator: bool = False, **quotas: object) -> Caller:
        """Make a tenant and a key that may do everything. The first one becomes the caller."""
        async with self.database.transaction() as tx:
            tenant = await tenants.create_tenant(tx, name, SETUP, quotas)
        made = await self.key_of(tenant.tenant_id, *keys.ALL_SCOPES, is_operator=is_operator)
        if not self.caller.key:
            self.caller = made
        return made

    async def key_of(self, tenant_id: TenantId, *scopes: str, is_operator: bool = False) -> Caller:
        """A key of a tenant with these scopes."""
        async with self.database.transaction() as tx:
            key, text = await keys.create_key(tx, tenant_id, SETUP, scopes=scopes, is_operator=is_operator)
        return Caller(tenant_id=tenant_id, key=text, key_id=key.key_id)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        key: str | None = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request. `body` is sent as JSON, `data` as it is."""
        sent = dict(headers or {})
        used = self.caller.key if key is None else key
        if used:
            sent.setdefault("Authorization", f"Bearer {used}")
        if body is not None:
            data = json.dumps(body).encode()
        if isinstance(data, bytes):
            data = io.BytesIO(data)
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        async with self._session.request(
            method, self.url + path, data=data, headers=sent, allow_redirects=False, skip_auto_headers=["Content-Type"]
        ) as response:
            return Answer(status=response.status, headers=response.headers, body=await response.read())

    async def get(self, path: str, **options: Any) -> Answer:
        """GET."""
        return await self.call("GET", path, **options)

    async def post(self, path: str, body: object = None, **options: Any) -> Answer:
        """POST."""
        return await self.call("POST", path, body, **options)

    async def make(self, **members: object) -> dict[str, Any]:
        """A new schedule, as the API answers it."""
        answer = await self.post("/v1/schedules", schedule(**members))
        assert answer.status == 201, answer.body
        document: dict[str, Any] = answer.json
        return document

    async def all_items(self, path: str, **options: Any) -> list[dict[str, Any]]:
        """All pages of a listing."""
        items: list[dict[str, Any]] = []
        mark = "&" if "?" in path else "?"
        cursor = ""
        while True:
            answer = await self.get(path + cursor, **options)
            assert answer.status == 200, answer.body
            items += answer.json["items"]
            if answer.json["next_cursor"] is None:
                return items
            cursor = f"{mark}cursor={answer.json['next_cursor']}"


def schedule(**members: object) -> dict[str, object]:
    """A schedule document that is right; members replace or, when None, remove."""
    document: dict[str, object] = {
        "name": "daily-usage",
        "timing": {"cron": "0 9 * * *", "time_zone": "America/New_York"},
        "target": {"handler": {"name": "send_report"}},
        "payload": {"customer": 123},
        **members,
    }
    return {name: value for name, value in document.items() if value is not None}
