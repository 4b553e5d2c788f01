"""Tenants and their keys: who a key belongs to, what may be set, and that every change leaves its entry."""

import pytest

from rota.base.errors import Conflict, NotFound, ValidationFailed
from rota.base.model import Actor, format_tenant_id
from rota.catalog import audit_trail, keys
from rota.catalog.keys import Scope
from rota.catalog.tenants import create_tenant, get_tenant, get_tenant_named, list_tenants, set_tenant

ACTOR = Actor(kind="cli", id="root", request_id="req-1", reason="set up", node="node-1")


async def test_a_key_tells_whose_it_is_and_what_it_may(db, tenant):
    key, text = await keys.create_key(db, tenant.tenant_id, ACTOR, name="ci", scopes=["read", "worker"])
    assert text.startswith(f"rota_{key.key_id}_")
    principal = await keys.authenticate(db, text)
    assert principal is not None
    assert (principal.tenant_id, principal.key_id, principal.is_operator) == (tenant.tenant_id, key.key_id, False)
    assert principal.may(Scope.READ)
    assert principal.may(Scope.WORKER)
    assert not principal.may(Scope.WRITE)
    assert not principal.may(Scope.ADMIN)


async def test_a_key_that_is_not_exactly_right_is_nobodys(db, tenant, stranger):
    _, text = await keys.create_key(db, tenant.tenant_id, ACTOR)
    _, other = await keys.create_key(db, stranger.tenant_id, ACTOR)
    head, _, secret = text.rpartition("_")
    for wrong in ("", "rota_", text[:-1], text + "x", text.upper(), head + "_" + other.rpartition("_")[2], secret,
                  "rota_\0_x", "\ud800", "x" * 100_000):  # fmt: skip
        assert await keys.authenticate(db, wrong) is None


async def test_a_revoked_key_is_nobodys_and_stays_revoked_when_revoked_again(db, tenant, stranger):
    key, text = await keys.create_key(db, tenant.tenant_id, ACTOR)
    with pytest.raises(NotFound):
        await keys.revoke_key(db, stranger.tenant_id, key.key_id, ACTOR)
    assert await keys.authenticate(db, text) is not None
    first = await keys.revoke_key(db, tenant.tenant_id, key.key_id, ACTOR)
    assert await keys.authenticate(db, text) is None
    assert (await keys.revoke_key(db, tenant.tenant_id, key.key_id, ACTOR)).revoked_at == first.revoked_at
    assert [one.key_id for one in await keys.list_keys(db, tenant.tenant_id)] == [key.key_id]


async def test_a_fixed_key_may_have_any_form_and_may_be_made_again(db, tenant, stranger):
    for text in ("my-dev-key", "rota_abcdef123456_" + "a" * 32):
        first, shown = await keys.create_key(db, tenant.tenant_id, ACTOR, text=text, is_operator=True)
        again, _ = await keys.create_key(db, tenant.tenant_id, ACTOR, text=text, is_operator=True)
        assert (shown, again.key_id) == (text, first.key_id)
        principal = await keys.authenticate(db, text)
        assert principal is not None
        assert principal.is_operator
        with pytest.raises(NotFound):
            await keys.create_key(db, stranger.tenant_id, ACTOR, text=text)


async def test_no_secret_of_a_key_is_in_the_database(db, tenant, connection):
    _, text = await keys.create_key(db, tenant.tenant_id, ACTOR)
    for table in ("api_keys", "audit_trail"):
        rows = await connection.fetch(f"SELECT t::text AS shown FROM {table} AS t")
        assert rows
        assert all(text.rpartition("_")[2] not in row["shown"] for row in rows)


@pytest.mark.parametrize("asked", [{"scopes": []}, {"scopes": ["everything"]}, {"text": "short"}, {"name": "a\0"}])
async def test_keys_that_make_no_sense_are_refused(db, tenant, asked):
    with pytest.raises(ValidationFailed):
        await keys.create_key(db, tenant.tenant_id, ACTOR, **asked)


async def test_a_tenant_has_the_members_it_was_given_and_says_nothing_by_its_id(db):
    made = await create_tenant(db, "acme", ACTOR, {"weight": 3, "max_schedules": 10, "trigger_rate": 5})
    assert await get_tenant(db, made.tenant_id) == made
    assert await get_tenant_named(db, "acme") == made
    assert (made.weight, made.max_schedules, made.trigger_rate, made.max_in_flight) == (3, 10, 5.0, None)
    second = await create_tenant(db, "zeta", ACTOR)
    assert abs(second.tenant_id - made.tenant_id) > 1
    assert [tenant.name for tenant in await list_tenants(db)] == ["acme", "zeta"]
    assert [tenant.name for tenant in await list_tenants(db, after_name="acme")] == ["zeta"]


async def test_a_tenants_name_is_taken_once(db, tenant, stranger):
    with pytest.raises(Conflict):
        await create_tenant(db, "acme", ACTOR)
    with pytest.raises(Conflict):
        await set_tenant(db, stranger.tenant_id, {"name": "acme"}, ACTOR)


async def test_settings_out_of_bounds_are_refused_all_at_once(db, tenant):
    wrong = {
        "weight": 0,
        "max_schedules": -1,
        "trigger_rate": float("nan"),
        "name": None,
        "is_suspended": 1,
        "colour": 1,
    }
    with pytest.raises(ValidationFailed) as refused:
        await set_tenant(db, tenant.tenant_id, wrong, ACTOR)
    assert {error.field for error in refused.value.errors} == set(wrong)


async def test_a_change_of_a_quota_tells_who_when_what_and_why(db, tenant, connection):
    await set_tenant(db, tenant.tenant_id, {"max_schedules": 7, "weight": 1}, ACTOR)
    [entry] = await audit_trail.list_entries(db, tenant.tenant_id, action="tenant.set")
    assert (entry.actor_kind, entry.actor_id, entry.request_id, entry.node) == ("cli", "root", "req-1", "node-1")
    assert (entry.reason, entry.object_id) == ("set up", format_tenant_id(tenant.tenant_id))
    assert (entry.before, entry.after) == ({"max_schedules": None}, {"max_schedules": 7})


async def test_a_suspended_tenants_key_says_so(db, tenant):
    _, text = await keys.create_key(db, tenant.tenant_id, ACTOR)
    await set_tenant(db, tenant.tenant_id, {"is_suspended": True}, ACTOR)
    principal = await keys.authenticate(db, text)
    assert principal is not None
    assert principal.is_suspended
