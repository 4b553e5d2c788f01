"""Every named statement of the package is valid on the migrated schema."""

from pathlib import Path

import asyncpg
import pytest

import rota
from rota.base.queries import read_queries

PACKAGE = Path(rota.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.sql") if path.parent.name != "schema")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
async def test_each_statement_can_be_prepared(path: Path, connection: asyncpg.Connection):
    for query in read_queries(path).values():
        statement = await connection.prepare(query.text)
        assert len(statement.get_parameters()) == query.n_args, query.name
