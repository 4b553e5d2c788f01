"""The types a user of the embedded server sees; checked by mypy alone, never run."""

from pathlib import Path
from typing import assert_type

from rota.embedded import EmbeddedPostgres, running_dsn


async def start_and_stop(data_dir: Path) -> None:
    """Both ways of use."""
    async with EmbeddedPostgres(data_dir, settings={"work_mem": "8MB"}) as server:
        assert_type(server, EmbeddedPostgres)
        assert_type(server.dsn, str)
        assert_type(server.log, Path)
    assert_type(await EmbeddedPostgres(data_dir, durable=False).start(), str)
    assert_type(running_dsn(data_dir), str | None)
