"""Our own clients, sync and async, against the real server."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rota.base.errors import (
    Conflict,
    DatabaseUnavailable,
    Forbidden,
    NotFound,
    Unauthenticated,
    ValidationFailed,
    VersionMismatch,
)
from rota.client import AsyncClient, Client
from support.api import Api, schedule
from support.waiting import free_port


@pytest.fixture
async def client(api: Api) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(api.url, api.caller.key) as made:
        yield made


async def test_a_schedule_lives_through_its_life(client: AsyncClient):
    made = await client.create_schedule(schedule())
    assert (await client.get_schedule(made["id"]))["name"] == "daily-usage"
    changed = await client.patch_schedule(made["id"], {"group": "g"}, version=1)
    replaced = await client.replace_schedule(made["id"], changed, version=2)
    assert replaced["version"] == 3
    assert (await client.pause_schedule(made["id"], reason="x", until="2099-01-01T00:00:00Z"))["state"] == "paused"
    assert (await client.resume_schedule(made["id"], missed="skip"))["state"] == "active"
    started = await client.run_schedule(made["id"], reason="now")
    (lease,) = (await client.claim("w", handlers=["send_report"]))["leases"]
    assert lease["run_key"] == started["id"]
    await client.heartbeat(lease["token"])
    await client.complete(lease["token"], {"ok": True})
    assert (await client.get_occurrence(started["id"]))["state"] == "succeeded"
    assert [item["id"] async for item in client.all_occurrences(schedule_id=made["id"], state="succeeded")] == [
        started["id"]
    ]
    assert (await client.cancel_schedule(made["id"]))["state"] == "cancelled"


async def test_pages_follow_each_other_by_themselves(client: AsyncClient):
    results = [result async for result in client.create_schedules(schedule(name=f"n{n}") for n in range(25))]
    assert [result["line"] for result in results] == list(range(1, 26))
    assert len([item async for item in client.all_schedules(limit=10)]) == 25


async def test_refusals_are_raised_as_errors_that_tell_what_to_do(client: AsyncClient, api: Api):
    with pytest.raises(ValidationFailed) as refused:
        await client.create_schedule(schedule(timing={"cron": "nonsense"}))
    assert [field.field for field in refused.value.errors] == ["timing.cron"]
    with pytest.raises(NotFound):
        await client.get_schedule("01890000-0000-7000-8000-000000000000")
    made = await client.create_schedule(schedule(), idempotency_key="k")
    with pytest.raises(VersionMismatch):
        await client.patch_schedule(made["id"], {"group": "g"}, version=9)
    with pytest.raises(ValidationFailed, match="version"):
        await client.replace_schedule(made["id"], schedule(), version=None)
    with pytest.raises(Conflict):
        await client.create_schedule(schedule(name="x"), idempotency_key="k")
    async with AsyncClient(api.url, "rota_nobody_key") as stranger:
        with pytest.raises(Unauthenticated):
            await stranger.me()
    reader = await api.key_of(api.caller.tenant_id, "read")
    async with AsyncClient(api.url, reader.key) as limited:
        with pytest.raises(Forbidden):
            await limited.create_schedule(schedule())


async def test_the_plain_client_does_the_same_from_threads(api: Api):
    def use() -> int:
        with Client(api.url, api.caller.key) as client:
            made = client.create_schedule(schedule())
            assert client.get_schedule(made["id"])["version"] == 1
            assert client.me()["tenant"] == "acme"
            with pytest.raises(NotFound):
                client.get_schedule("01890000-0000-7000-8000-000000000000")
            assert [result["line"] for result in client.create_schedules([schedule(name="a"), schedule(name="b")])] == [
                1,
                2,
            ]
            assert client.request("GET", "/v1/schedules", query={"name": "a", "cursor": None})["items"]
            return len(list(client.all_schedules(limit=1)))

    assert sorted(await asyncio.gather(*(asyncio.to_thread(use) for _ in range(3))))[-1] == 9


async def test_an_answer_that_was_lost_is_asked_for_again_with_the_same_key(api: Api):
    """The first connection breaks after the request was passed on: the second try finds the first one's effect."""
    upstream = int(api.url.rpartition(":")[2])
    n_connections = 0

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal n_connections
        n_connections += 1
        is_cut = n_connections == 1
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", upstream)

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                sink.write(data)

        asking = asyncio.ensure_future(copy(reader, up_writer))
        if is_cut:
            await up_reader.readuntil(b"201 Created")
            writer.transport.abort()
        else:
            await copy(up_reader, writer)
        asking.cancel()
        up_writer.close()
        writer.close()

    proxy = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    async with AsyncClient(f"http://127.0.0.1:{port}", api.caller.key) as client:
        made = await client.create_schedule(schedule())
    assert n_connections >= 2
    assert [item["id"] for item in await api.all_items("/v1/schedules")] == [made["id"]]
    proxy.close()


async def test_a_server_that_is_not_there_is_told_with_a_hint():
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, "k", max_tries=1) as client, pytest.raises(DatabaseUnavailable, match="no answer") as missed:
        client.me()
    assert "rota serve" in missed.value.hint
    async with AsyncClient(url, "k", max_tries=1) as client:
        with pytest.raises(DatabaseUnavailable, match="no answer from"):
            await client.me()
