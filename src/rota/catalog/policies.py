"""One row a distinct set of policies, shared by all schedules that have it; rows never change."""

import hashlib
from collections.abc import Iterable

from rota.base.db import Executor, load_queries
from rota.base.json import dump_json, load_json
from rota.base.model import Policy, PolicyId, milliseconds

_QUERIES = load_queries(__file__, "policies.sql")


def policy_digest(policy: Policy) -> bytes:
    """What identifies a policy in the store: SHA-256 of its canonical JSON."""
    return hashlib.sha256(dump_json(policy.to_json(), sort_keys=True).encode()).digest()


async def ensure_policies(db: Executor, policies: Iterable[Policy]) -> dict[Policy, PolicyId]:
    """The row of each policy; those that are missing are added. See ensure_cadences on when."""
    by_digest = {policy_digest(policy): policy for policy in set(policies)}
    found = await _find(db, list(by_digest))
    missing = sorted(by_digest.keys() - found.keys())
    if missing:
        new = [by_digest[digest] for digest in missing]
        lateness = [policy.misfire.max_lateness for policy in new]
        await db.execute(
            _QUERIES["policy_insert"],
            missing,
            [dump_json(policy.to_json()) for policy in new],
            [milliseconds(policy.window) for policy in new],
            [str(policy.misfire.policy) for policy in new],
            [None if longest is None else milliseconds(longest) for longest in lateness],
            [policy.misfire.max_catch_up for policy in new],
        )
        found |= await _find(db, missing)
    return {by_digest[digest]: policy_id for digest, policy_id in found.items()}


async def get_policies(db: Executor, policy_ids: Iterable[PolicyId]) -> dict[PolicyId, Policy]:
    """The policies with these ids."""
    rows = await db.fetch(_QUERIES["policy_get"], list(policy_ids))
    return {row["policy_id"]: Policy.from_json(load_json(row["document"])) for row in rows}


async def _find(db: Executor, digests: list[bytes]) -> dict[bytes, PolicyId]:
    return {row["digest"]: row["policy_id"] for row in await db.fetch(_QUERIES["policy_find"], digests)}
