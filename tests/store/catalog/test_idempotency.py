"""One Idempotency-Key, one effect: the first answer is given again, whoever asks how often at once."""

import asyncio

import pytest

from rota.base.errors import Conflict, ValidationFailed
from rota.catalog import audit_trail, idempotency
from rota.catalog.audit_trail import Change
from rota.catalog.idempotency import IdempotencyKey, StoredAnswer

from .conftest import ACTOR

KEY = IdempotencyKey.of("k-1", "POST", "/v1/schedules", b'{"name":"x"}')


async def effect(db, tenant, key: IdempotencyKey, body: object) -> StoredAnswer:
    async with db.transaction() as tx:
        if answer := await idempotency.claim(tx, tenant.tenant_id, key):
            return answer
        change = Change(tenant_id=tenant.tenant_id, action="test", object_kind="x", object_id="x")
        await audit_trail.record(tx, ACTOR, change)
        await idempotency.store_answer(tx, tenant.tenant_id, key.key, 201, body)
        return StoredAnswer(status=201, response=body)


async def n_effects(db, tenant) -> int:
    return len(await audit_trail.list_entries(db, tenant.tenant_id, action="test"))


async def test_ten_requests_with_one_key_at_once_have_one_effect_and_one_answer(db, tenant):
    answers = await asyncio.gather(*(effect(db, tenant, KEY, {"number": number}) for number in range(10)))
    assert len({answer.response["number"] for answer in answers}) == 1
    assert {answer.status for answer in answers} == {201}
    assert await n_effects(db, tenant) == 1


async def test_the_same_key_with_another_request_is_a_conflict(db, tenant):
    await effect(db, tenant, KEY, {})
    for method, path, body in (
        ("POST", "/v1/schedules", b'{"name":"y"}'),
        ("POST", "/v1/other", b'{"name":"x"}'),
        ("PUT", "/v1/schedules", b'{"name":"x"}'),
    ):
        with pytest.raises(Conflict):
            await effect(db, tenant, IdempotencyKey.of("k-1", method, path, body), {})
    assert await n_effects(db, tenant) == 1


async def test_the_same_key_of_another_tenant_is_another_key(db, tenant, stranger):
    await effect(db, tenant, KEY, {"of": "tenant"})
    assert (await effect(db, stranger, KEY, {"of": "stranger"})).response == {"of": "stranger"}


async def test_a_request_that_was_rolled_back_leaves_its_key_free(db, tenant):
    async def fail() -> None:
        async with db.transaction() as tx:
            assert await idempotency.claim(tx, tenant.tenant_id, KEY) is None
            raise RuntimeError("died")

    with pytest.raises(RuntimeError, match="died"):
        await fail()
    assert (await effect(db, tenant, KEY, {"second": True})).response == {"second": True}
    assert await n_effects(db, tenant) == 1


async def test_many_keys_are_claimed_together_each_with_its_own_answer(db, tenant):
    keys = [IdempotencyKey.of(f"k-{number}", "POST", "/p", b"") for number in range(4)]
    await effect(db, tenant, keys[1], {"n": 1})
    changed = IdempotencyKey.of("k-1", "POST", "/p", b"other")
    async with db.transaction() as tx:
        assert await idempotency.claim_many(tx, tenant.tenant_id, keys) == {
            "k-1": StoredAnswer(status=201, response={"n": 1})
        }
        await idempotency.store_answers(
            tx, tenant.tenant_id, {f"k-{number}": StoredAnswer(status=200, response=number) for number in (0, 2, 3)}
        )
    async with db.transaction() as tx:
        answers = await idempotency.claim_many(tx, tenant.tenant_id, [keys[0], changed])
    assert answers["k-0"] == StoredAnswer(status=200, response=0)
    assert isinstance(answers["k-1"], Conflict)


async def test_old_keys_are_forgotten_in_portions(db, tenant, connection):
    for number in range(5):
        await effect(db, tenant, IdempotencyKey.of(f"k-{number}", "POST", "/p", b""), {})
    now = await connection.fetchval("SELECT now()")
    assert await idempotency.retire_keys(db, now, limit=3) == 3
    assert await idempotency.retire_keys(db, now, limit=3) == 2


@pytest.mark.parametrize("key", ["", "a b", "a\n", "é", "x" * 256, "\0"])
def test_keys_that_cannot_be_header_values_are_refused(key: str):
    with pytest.raises(ValidationFailed):
        IdempotencyKey.of(key, "POST", "/", b"")
