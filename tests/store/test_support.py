"""What the other tests stand on: databases of their own, scripted targets, processes that are surely gone."""

import aiohttp
import asyncpg
import pytest

from support.databases import Databases
from support.http_target import HttpTarget, Reply
from support.processes import Processes
from support.waiting import eventually


async def test_every_test_gets_a_database_of_its_own(databases: Databases, dsn: str, connection: asyncpg.Connection):
    await connection.execute("CREATE TABLE mine ()")
    with databases.fresh() as other_dsn:
        other = await asyncpg.connect(other_dsn)
        assert await other.fetchval("SELECT to_regclass('mine')") is None
    assert other_dsn != dsn
    with pytest.raises(asyncpg.InvalidCatalogNameError):  # dropped although `other` was still connected
        await asyncpg.connect(other_dsn)


async def test_an_empty_database_has_no_schema(empty_dsn: str):
    connection = await asyncpg.connect(empty_dsn)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    await connection.close()


async def test_a_target_answers_as_told_and_records_what_it_got(http_target: HttpTarget):
    url = http_target.tell(
        "/hook",
        Reply(status=503, headers={"Retry-After": "7"}),
        Reply(chunks=(b"a", b"b"), gap_s=0.001),
        Reply(drop=True),
        then=Reply(body=b"ever after"),
    )
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json={"n": 1}, headers={"Idempotency-Key": "k"}) as first:
            assert (first.status, first.headers["Retry-After"]) == (503, "7")
        async with session.get(url) as second:
            assert await second.read() == b"ab"
        with pytest.raises(aiohttp.ClientError):
            await session.post(url)  # the client itself repeats a GET whose connection is cut
        async with session.get(url + "?x=1") as fourth:
            assert await fourth.read() == b"ever after"
    received = await http_target.receives(4, "/hook")
    assert received[0].json == {"n": 1}
    assert received[0].key == "k"
    assert received[-1].query == {"x": "1"}


async def test_a_target_that_hangs_lets_go_when_the_test_ends(http_target: HttpTarget):
    http_target.tell("/slow", then=Reply(hang=True))
    async with aiohttp.ClientSession() as session:
        with pytest.raises(TimeoutError):
            await session.get(http_target.url + "/slow", timeout=aiohttp.ClientTimeout(total=0.2))
    assert http_target.n_open_most == 1


async def test_a_process_is_heard_and_its_exit_code_known(processes: Processes):
    process = await processes.python("import sys; print('hello'); sys.exit(3)")
    assert await process.says("hell") == "hello"
    assert await process.ends() == 3
    with pytest.raises(RuntimeError, match="ended"):
        await process.says("more")


async def test_a_process_that_never_says_it_fails_the_test(processes: Processes):
    process = await processes.python("import time; print('something else'); time.sleep(600)")
    with pytest.raises(AssertionError, match="something else"):
        await process.says("hello", within=0.5)
    await process.kill()
    assert await process.ends() == -9


async def test_a_condition_that_never_holds_fails_with_its_last_value():
    with pytest.raises(AssertionError, match="last value: 0"):
        await eventually(lambda: 0, within=0.05)
