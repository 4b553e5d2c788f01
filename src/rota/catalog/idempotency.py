"""The first answer to a request with an Idempotency-Key, kept in the transaction of its effect and given again.

A second request with the same key waits for the first one. If that ended well it gets the same answer and has no effect
of its own; if it was rolled back, or its process died, the second takes its place.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rota.base.db import Executor, load_queries
from rota.base.errors import Conflict, FieldError, ValidationFailed
from rota.base.json import dump_json, load_json
from rota.base.model import TenantId

_QUERIES = load_queries(__file__, "idempotency.sql")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """A key that a request carries, and the fingerprint of that request: method, path and body."""

    key: str
    fingerprint: bytes

    @classmethod
    def of(cls, key: str, method: str, path: str, body: bytes) -> "IdempotencyKey":
        """Check the key and take the fingerprint; ValidationFailed if it is not 1 to 255 visible ASCII characters."""
        if not _KEY.fullmatch(key):
            fault = FieldError(
                field="Idempotency-Key", message="must be 1 to 255 visible ASCII characters", hint="a UUID is fine"
            )
            raise ValidationFailed((fault,))
        head = f"{method.upper()} {path}\n".encode()
        return cls(key=key, fingerprint=hashlib.sha256(head + body).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What was answered the first time."""

    status: int
    response: object


async def claim(tx: Executor, tenant_id: TenantId, key: IdempotencyKey) -> StoredAnswer | None:
    """None if this request is the first and must now have its effect and store_answer; else the first answer.

    Conflict if the key came with another request before. Call it first in the transaction.
    """
    answers = await claim_many(tx, tenant_id, [key])
    answer = answers.get(key.key)
    if isinstance(answer, Conflict):
        raise answer
    return answer


async def claim_many(
    tx: Executor, tenant_id: TenantId, keys: Sequence[IdempotencyKey]
) -> dict[str, StoredAnswer | Conflict]:
    """As claim, for many distinct keys: answers and conflicts by key; a key that is not among them is a first one."""
    names = [key.key for key in keys]
    rows = await tx.fetch(_QUERIES["idempotency_claim"], tenant_id, names, [key.fingerprint for key in keys])
    first = {row["key"] for row in rows}
    asked = {key.key: key.fingerprint for key in keys if key.key not in first}
    if not asked:
        return {}
    stored = await tx.fetch(_QUERIES["idempotency_read"], tenant_id, list(asked))
    answers: dict[str, StoredAnswer | Conflict] = {}
    for row in stored:
        if bytes(row["fingerprint"]) == asked[row["key"]]:
            answers[row["key"]] = StoredAnswer(status=row["status"], response=load_json(row["response"]))
        else:
            answers[row["key"]] = _conflict(row["key"])
    return answers


async def store_answer(tx: Executor, tenant_id: TenantId, key: str, status: int, response: object) -> None:
    """Keep the answer of a first request, in the transaction of its effect."""
    await store_answers(tx, tenant_id, {key: StoredAnswer(status=status, response=response)})


async def store_answers(tx: Executor, tenant_id: TenantId, answers: Mapping[str, StoredAnswer]) -> None:
    """As store_answer, for many keys."""
    if answers:
        await tx.execute(
            _QUERIES["idempotency_store"],
            tenant_id,
            list(answers),
            [answer.status for answer in answers.values()],
            [dump_json(answer.response) for answer in answers.values()],
        )


async def retire_keys(db: Executor, older_than: datetime, limit: int = 1000) -> int:
    """Forget at most limit keys that were first used before an instant; how many were forgotten."""
    return await db.execute(_QUERIES["idempotency_retire"], older_than, limit)


def _conflict(key: str) -> Conflict:
    return Conflict(
        f"the Idempotency-Key {key} was used with another request", hint="use a new key, or send the very same request"
    )
