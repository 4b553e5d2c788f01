"""What holds lanes back: pauses, suspended tenants, open breakers, quotas and limits by key. Reads and counts, no
choice."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.base.db import Executor, Transaction, load_queries
from rota.base.model import Overlap

_QUERIES = load_queries(__file__, "lanes.sql")
UNLIMITED: Final = 1_000_000
_RECOVERY: Final = 3

Scope = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A stored lane; immutable."""

    lane_id: int
    tenant_id: int
    queue: str
    priority: int
    target_key: str
    limit_key: str
    overlap: Overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A lane that holds rows: seconds until its first one is due (negative: for how long it has been)."""

    lane_id: int
    due_in_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What holds a tenant's lanes back or shapes their share."""

    weight: int
    max_in_flight: int | None
    trigger_rate: float | None
    catch_up_rate: float | None
    is_suspended: bool
    pauses: frozenset[str]
    limits: frozenset[str]
    open: frozenset[str]
    half_open: frozenset[str]

    def most(self, lane: Lane) -> int:
        """How much of the lane may be taken, limits apart: nothing, one probe, or as much as there is."""
        if self.is_suspended or lane.target_key in self.open:
            return 0
        if {"tenant:", f"queue:{lane.queue}", f"target:{lane.target_key}"} & self.pauses:
            return 0
        return 1 if lane.target_key in self.half_open else UNLIMITED

    def scopes(self, lane: Lane) -> list[str]:
        """The limits that count for a lane."""
        scopes = [scope for scope in (f"target:{lane.target_key}", f"key:{lane.limit_key}") if scope in self.limits]
        if self.max_in_flight is not None or self.trigger_rate is not None:
            scopes.append("tenant")
        if self.catch_up_rate is not None and lane.priority == _RECOVERY:
            scopes.append("catch_up")
        return scopes


async def read_heads(db: Executor, after: int, n: int, tenant_id: int | None = None) -> list[Head]:
    """Up to `n` lanes behind `after` that hold rows, by lane id; of one tenant or of all."""
    if tenant_id is None:
        rows = await db.fetch(_QUERIES["lane_heads"], after, n)
    else:
        rows = await db.fetch(_QUERIES["lane_heads_of_tenant"], tenant_id, after, n)
    return [Head(lane_id=row["lane_id"], due_in_s=row["due_in_s"]) for row in rows]


async def read_lanes(db: Executor, lane_ids: Collection[int]) -> dict[int, Lane]:
    """Lanes by id."""
    rows = await db.fetch(_QUERIES["lane_read"], list(lane_ids))
    return {row["lane_id"]: Lane(**{**row, "overlap": Overlap(row["overlap"])}) for row in rows}


async def read_holds(db: Executor, tenant_ids: Collection[int]) -> dict[int, Hold]:
    """What holds each tenant back."""
    holds: dict[int, Hold] = {}
    for row in await db.fetch(_QUERIES["hold_read"], list(tenant_ids)):
        values = dict(row)
        tenant_id = values.pop("tenant_id")
        for name in ("pauses", "limits", "open", "half_open"):
            values[name] = frozenset(values[name] or ())
        holds[tenant_id] = Hold(**values)
    return holds


class Budget:
    """The limits of one claim: locked, counted, and spent in its transaction."""

    def __init__(
        self, rows: Mapping[Scope, tuple[int | None, float | None, float]], running: Mapping[Scope, int]
    ) -> None:
        self._rows = rows
        self._running = running
        self.spent: dict[Scope, int] = {}

    def most(self, tenant_id: int, scopes: Iterable[str]) -> int:
        """How many more may start under all of the scopes; none under one that somebody else counts on."""
        most = UNLIMITED
        for scope in scopes:
            row = self._rows.get((tenant_id, scope))
            if row is None:
                return 0
            max_concurrency, rate, tokens = row
            if max_concurrency is not None:
                most = min(most, max_concurrency - self._running.get((tenant_id, scope), 0))
            if rate is not None:
                most = min(most, int(tokens + 1e-9))
        return max(most, 0)

    def spend(self, tenant_id: int, scopes: Iterable[str], n: int) -> None:
        """Count `n` starts."""
        for scope in scopes:
            key = (tenant_id, scope)
            self.spent[key] = self.spent.get(key, 0) + n

    async def save(self, tx: Transaction) -> None:
        """Write the tokens that are left."""
        used = [key for key, n in self.spent.items() if n and self._rows[key][1] is not None]
        if used:
            tokens = [self._rows[key][2] - self.spent[key] for key in used]
            await tx.execute(_QUERIES["limit_spend"], [key[0] for key in used], [key[1] for key in used], tokens)


async def open_budget(
    tx: Transaction, limited: Sequence[tuple[Lane, Hold, Sequence[str]]], lanes: Mapping[int, Lane]
) -> Budget:
    """Lock the limits of these lanes, then count what runs under them: in this order, so that the count is fresh."""
    await _ensure(tx, limited)
    scopes = sorted({(lane.tenant_id, scope) for lane, _, names in limited for scope in names})
    rows = await tx.fetch(_QUERIES["limit_lock"], [scope[0] for scope in scopes], [scope[1] for scope in scopes])
    in_flight = {lane.tenant_id: hold.max_in_flight for lane, hold, _ in limited}
    known = {
        (row["tenant_id"], row["scope"]): (
            in_flight.get(row["tenant_id"]) if row["scope"] == "tenant" else row["max_concurrency"],
            row["rate"],
            row["tokens"],
        )
        for row in rows
    }
    counts = {row["lane_id"]: row["n"] for row in await tx.fetch(_QUERIES["running_count"])}
    running: dict[Scope, int] = {}
    unknown = [lane_id for lane_id in counts if lane_id not in lanes]
    every = {**lanes, **(await read_lanes(tx, unknown) if unknown else {})}
    for lane_id, n in counts.items():
        lane = every.get(lane_id)
        if lane is None:
            continue
        for scope in ("tenant", f"target:{lane.target_key}", f"key:{lane.limit_key}"):
            key = (lane.tenant_id, scope)
            running[key] = running.get(key, 0) + n
    return Budget(known, running)


async def _ensure(tx: Transaction, limited: Sequence[tuple[Lane, Hold, Sequence[str]]]) -> None:
    """Quotas that a tenant carries itself get their bucket."""
    wanted: dict[Scope, float | None] = {}
    for lane, hold, scopes in limited:
        if "tenant" in scopes:
            wanted[(lane.tenant_id, "tenant")] = hold.trigger_rate
        if "catch_up" in scopes:
            wanted[(lane.tenant_id, "catch_up")] = hold.catch_up_rate
    if wanted:
        keys = sorted(wanted)
        await tx.execute(
            _QUERIES["limit_ensure"], [key[0] for key in keys], [key[1] for key in keys], [wanted[key] for key in keys]
        )
