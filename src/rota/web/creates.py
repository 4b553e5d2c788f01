"""Creates that come one by one, written together: what arrives while the database is busy shares its next transaction.

A lone create waits for nobody. Under load each transaction takes up to `MAX_BATCH` creates of one tenant, so that the
cost of a commit is shared; each has its own answer, its own Idempotency-Key and its own refusal.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rota.base.db import Database
from rota.base.errors import Conflict, QuotaExceeded, RotaError, ValidationFailed
from rota.base.model import Actor, ScheduleId, TenantId
from rota.catalog.definition import Definition
from rota.catalog.idempotency import IdempotencyKey
from rota.plan import edits
from rota.plan.edits import Created

MAX_BATCH = 500
MAX_AT_ONCE = 2

# Refusals that are one create's own and say nothing about the others in its transaction.
_OWN_REFUSALS = (ValidationFailed, Conflict, QuotaExceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One create that was asked for. `schedule_id` is given where a repetition must find the same schedule."""

    definition: Definition
    actor: Actor
    idempotency: IdempotencyKey | None = None
    schedule_id: ScheduleId | None = None


async def write(
    db: Database, tenant_id: TenantId, wishes: Sequence[Wish], *, is_brief: bool = False
) -> list[Created | RotaError]:
    """Carry out the wishes of a tenant, together where that works, and answer each in order.

    A wish that is refused for its own sake is found by halving: the others are written all the same. `is_brief`: what
    is new is answered with its id and version alone.
    """
    try:
        made = await edits.create_schedules(
            db,
            tenant_id,
            [wish.definition for wish in wishes],
            [wish.actor for wish in wishes],
            idempotency=[wish.idempotency for wish in wishes],
            schedule_ids=[wish.schedule_id for wish in wishes],
            is_brief=is_brief,
        )
        return list(made)
    except _OWN_REFUSALS as error:
        if len(wishes) == 1:
            return [error]
        half = len(wishes) // 2
        first = await write(db, tenant_id, wishes[:half], is_brief=is_brief)
        return [*first, *await write(db, tenant_id, wishes[half:], is_brief=is_brief)]


class _Group:
    """The creates of one tenant that wait."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Wish, asyncio.Future[Created]]] = deque()
        self.n_writers = 0

    def take(self) -> list[tuple[Wish, asyncio.Future[Created]]]:
        """The next batch, in order. No Idempotency-Key is in it twice: the second waits for the answer of the first."""
        taken: list[tuple[Wish, asyncio.Future[Created]]] = []
        keys: set[str] = set()
        while self.waiting and len(taken) < MAX_BATCH:
            key = self.waiting[0][0].idempotency
            if key is not None and key.key in keys:
                break
            if key is not None:
                keys.add(key.key)
            taken.append(self.waiting.popleft())
        return taken


class Creates:
    """Collects creates and writes them in batches, at most `MAX_AT_ONCE` of a tenant at a time."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._groups: dict[TenantId, _Group] = {}
        self._writers: set[asyncio.Task[None]] = set()

    async def create(self, tenant_id: TenantId, wish: Wish) -> Created:
        """Create one schedule. Raises what refuses it."""
        answer: asyncio.Future[Created] = asyncio.get_running_loop().create_future()
        group = self._groups.setdefault(tenant_id, _Group())
        group.waiting.append((wish, answer))
        if group.n_writers < MAX_AT_ONCE:
            group.n_writers += 1
            writer = asyncio.create_task(self._write_all(tenant_id, group), name="write-creates")
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        return await answer

    async def _write_all(self, tenant_id: TenantId, group: _Group) -> None:
        try:
            while batch := group.take():
                await self._write(tenant_id, batch)
        finally:
            group.n_writers -= 1
            if not group.n_writers and not group.waiting:
                self._groups.pop(tenant_id, None)

    async def _write(self, tenant_id: TenantId, batch: list[tuple[Wish, asyncio.Future[Created]]]) -> None:
        try:
            results = await write(self._db, tenant_id, [wish for wish, _ in batch])
        except Exception as error:  # noqa: BLE001 - told to each who waits, none may wait for ever
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        for (_, answer), result in zip(batch, results, strict=True):
            if answer.done():
                continue
            if isinstance(result, RotaError):
                answer.set_exception(result)
            else:
                answer.set_result(result)
