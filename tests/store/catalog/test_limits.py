"""Limits by scope: set, told in the trail, lifted; of one tenant alone."""

import pytest

from rota.base.errors import NotFound
from rota.catalog import audit_trail, limits
from rota.catalog.limits import ScopeLimit, parse_rate

from .conftest import ACTOR

TARGET = ScopeLimit(scope="target:http:example.com:443", max_concurrency=5, rate=2.5, burst=3.0)


async def test_a_limit_is_set_told_and_lifted(db, tenant, stranger):
    await limits.put_limits(db, tenant.tenant_id, [TARGET], actor=ACTOR)
    assert await limits.list_limits(db, tenant.tenant_id) == [TARGET]
    assert await limits.list_limits(db, stranger.tenant_id) == []
    with pytest.raises(NotFound):
        await limits.delete_limit(db, stranger.tenant_id, TARGET.scope, actor=ACTOR)
    await limits.delete_limit(db, tenant.tenant_id, TARGET.scope, actor=ACTOR)
    assert await limits.list_limits(db, tenant.tenant_id) == []
    entries = await audit_trail.list_entries(db, tenant.tenant_id, object_id=TARGET.scope)
    assert [entry.action for entry in entries] == ["limit.lift", "limit.set"]
    assert entries[0].before == {"max_concurrency": 5, "rate": 2.5, "burst": 3.0}


async def test_a_changed_rate_starts_with_a_full_bucket(db, tenant, connection):
    await limits.put_limits(db, tenant.tenant_id, [TARGET])
    await connection.execute("UPDATE limits SET tokens = 0")
    await limits.put_limits(db, tenant.tenant_id, [TARGET])
    assert await connection.fetchval("SELECT tokens FROM limits") == 0
    faster = ScopeLimit(scope=TARGET.scope, max_concurrency=5, rate=20.0, burst=20.0)
    await limits.put_limits(db, tenant.tenant_id, [faster])
    assert await connection.fetchval("SELECT tokens FROM limits") == 20


@pytest.mark.parametrize(("text", "rate"), [("10/s", 10.0), ("90/m", 1.5), ("36/h", 0.01), ("0.5 / s", 0.5)])
def test_rates_are_read_a_second(text: str, rate: float):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "10", "0/s", "-1/s", "1/w", "1e9/s", "٣/s", "10/s/s", "nan/s"])
def test_what_is_no_rate_is_refused(text: str):
    with pytest.raises(ValueError, match="must be a rate"):
        parse_rate(text)
