"""`rota bench api`: creates one by one and in bulk over HTTP, and list pages, against the cheapest request there is."""

import asyncio
import statistics
import time
from typing import Any

import aiohttp
import orjson

from rota.base.clock import SystemClock
from rota.base.model import Actor
from rota.base.settings import Settings
from rota.bench.ground import Result, Tell, ground
from rota.catalog.keys import create_key
from rota.catalog.tenants import create_tenant
from rota.web.app import create_app
from rota.web.server import Server

_ACTOR = Actor(kind="cli", id="rota bench")
_AT_ONCE = 32


async def api(*, count: int = 5_000, bulk: int = 100_000, dsn: str | None = None, tell: Tell) -> Result:
    """Run it: one server in this process, one client beside it on the same two cores."""
    async with ground(dsn) as db:
        async with db.transaction() as tx:
            tenant = await create_tenant(tx, "bench-api", _ACTOR)
            _, key = await create_key(tx, tenant.tenant_id, _ACTOR)
        server = Server(await create_app(db, Settings(), clock=SystemClock()), host="127.0.0.1", port=0)
        await server.start()
        try:
            headers = {"Authorization": f"Bearer {key}"}
            async with aiohttp.ClientSession(server.url, headers=headers) as session:
                bare = await _bare(session, count)
                tell("creating one by one")
                single = await _singles(session, count)
                tell("creating in bulk")
                many = await _bulk(session, bulk)
                pages = await _pages(session)
        finally:
            await server.stop()
        return Result(
            scenario="api",
            rate=single,
            reference=bare,
            ratio=single / bare,
            target=">= 1,000 creates/s one by one, >= 30,000/s in bulk, any list page < 100 ms",
            met=single >= 1000 and many >= 30_000 and pages["p100_ms"] < 100,
            rows=[
                {"what": "creates/s one by one", "value": round(single)},
                {"what": "creates/s in bulk", "value": round(many)},
                {"what": "list page", "value": pages},
                {"what": "bare requests/s of the same server", "value": round(bare)},
            ],
            settings={"count": count, "bulk": bulk, "connections": _AT_ONCE},
        )


def _document(number: int) -> dict[str, Any]:
    return {
        "name": f"bench-{number}",
        "timing": {"cron": f"{number % 60} {number % 24} * * *", "time_zone": "America/New_York"},
        "target": {"handler": {"name": "noop"}},
        "payload": {"customer": number},
    }


async def _each(count: int, call: Any) -> float:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await call(number)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
    return count / (time.perf_counter() - started)


async def _bare(session: aiohttp.ClientSession, count: int) -> float:
    async def call(_: int) -> None:
        async with session.get("/v1/me") as answer:
            answer.raise_for_status()
            await answer.read()

    return await _each(count, call)


async def _singles(session: aiohttp.ClientSession, count: int) -> float:
    async def call(number: int) -> None:
        async with session.post("/v1/schedules", json=_document(number)) as answer:
            answer.raise_for_status()
            await answer.read()

    return await _each(count, call)


async def _bulk(session: aiohttp.ClientSession, count: int) -> float:
    body = b"".join(orjson.dumps(_document(number)) + b"\n" for number in range(count))
    started = time.perf_counter()
    n = 0
    headers = {"Content-Type": "application/x-ndjson"}
    async with session.post("/v1/schedules/bulk", data=body, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            n += orjson.loads(line)["status"] == 201
    if n != count:
        raise RuntimeError(f"{n} of {count} were created")
    return count / (time.perf_counter() - started)


async def _pages(session: aiohttp.ClientSession) -> dict[str, float]:
    found: list[float] = []
    queries: tuple[dict[str, str], ...] = (
        {},
        {"name": "bench-17"},
        {"state": "paused"},
        {"state": "active", "limit": "500"},
    )
    for query in queries * 10:
        started = time.perf_counter()
        async with session.get("/v1/schedules", params=query) as answer:
            answer.raise_for_status()
            await answer.read()
        found.append((time.perf_counter() - started) * 1000)
    return {"p50_ms": round(statistics.median(found), 2), "p100_ms": round(max(found), 2)}
