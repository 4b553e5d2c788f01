"""What an edit answers, and the first answer given again to a request that is repeated with its Idempotency-Key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rota.base.db import Transaction
from rota.base.errors import Conflict
from rota.base.model import TenantId
from rota.catalog import idempotency
from rota.catalog.idempotency import IdempotencyKey, StoredAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """What was made, as the answer to a request; is_replayed: made by an earlier request with the same key."""

    document: Mapping[str, object]
    is_replayed: bool = False


async def known_answer(tx: Transaction, tenant_id: TenantId, key: IdempotencyKey | None) -> Created | None:
    """The first answer, if the key has one; None makes this request the first, which must call keep_answer.

    Conflict if the key came with another request.
    """
    return None if key is None else (await known_answers(tx, tenant_id, [key])).get(key.key)


async def known_answers(tx: Transaction, tenant_id: TenantId, keys: Sequence[IdempotencyKey]) -> dict[str, Created]:
    """As known_answer, for many distinct keys: the first answers of those that have one."""
    if not keys:
        return {}
    answers: dict[str, Created] = {}
    for key, stored in (await idempotency.claim_many(tx, tenant_id, keys)).items():
        if isinstance(stored, Conflict):
            raise stored
        if not isinstance(stored.response, dict):
            raise Conflict(f"the Idempotency-Key {key} belongs to a request of another kind", hint="use a new key")
        answers[key] = Created(document=stored.response, is_replayed=True)
    return answers


async def keep_answer(
    tx: Transaction, tenant_id: TenantId, key: IdempotencyKey | None, status: int, document: Mapping[str, object]
) -> Created:
    """Answer, and keep the answer with its key in the transaction of the effect."""
    if key is not None:
        await idempotency.store_answer(tx, tenant_id, key.key, status, dict(document))
    return Created(document=document)


async def keep_answers(tx: Transaction, tenant_id: TenantId, created: Mapping[str, Created]) -> None:
    """Keep the answers of creates by their keys."""
    answers = {key: StoredAnswer(status=201, response=dict(one.document)) for key, one in created.items()}
    await idempotency.store_answers(tx, tenant_id, answers)
