"""One row a distinct timing, shared by all schedules that have it; rows never change what they mean."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from rota.base.db import Executor, load_queries
from rota.base.json import dump_json, load_json
from rota.base.model import CadenceId
from rota.calendar import Timing, TimingError, tzdata_version

_QUERIES = load_queries(__file__, "cadences.sql")
# next_fire_at is a lower bound: a fire of this very moment may still be wanted by who asked for the row.
_SLACK = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """A stored timing. next_fire_at is a lower bound of its fires that are not planned; None: it never fires again."""

    cadence_id: CadenceId
    timing: Timing
    time_zone: str | None
    tzdata_version: str
    next_fire_at: datetime | None
    set_aside: str | None


def cadence_digest(timing: Timing) -> bytes:
    """What identifies a timing in the store: SHA-256 of its key."""
    return hashlib.sha256(timing.key().encode()).digest()


async def ensure_cadences(db: Executor, timings: Iterable[Timing]) -> dict[str, CadenceId]:
    """The cadence of each timing, by Timing.key(); those that are missing are added.

    Safe outside the transaction that uses them, and better there: rows are shared and harmless when unused, and a
    short transaction makes nobody wait.
    """
    by_key = {timing.key(): timing for timing in {id(timing): timing for timing in timings}.values()}
    by_digest = {cadence_digest(timing): timing for timing in by_key.values()}
    found = await _find(db, list(by_digest))
    missing = sorted(by_digest.keys() - found.keys())
    if missing:
        await _insert(db, [(digest, by_digest[digest]) for digest in missing])
        found |= await _find(db, missing)
    return {timing.key(): found[digest] for digest, timing in by_digest.items()}


async def get_cadences(db: Executor, cadence_ids: Iterable[CadenceId]) -> dict[CadenceId, Cadence]:
    """The cadences with these ids, parsed; those that are unknown or cannot be parsed (any more) are left out."""
    found: dict[CadenceId, Cadence] = {}
    for row in await db.fetch(_QUERIES["cadence_get"], list(cadence_ids)):
        try:
            timing = Timing.from_json(_mapping(row["timing"]))
        except (TimingError, TypeError):
            # The planner sets such a cadence aside with the reason; for a reader it has no fires.
            continue
        found[row["cadence_id"]] = Cadence(**{**row, "timing": timing})
    return found


async def _find(db: Executor, digests: list[bytes]) -> dict[bytes, CadenceId]:
    return {row["digest"]: row["cadence_id"] for row in await db.fetch(_QUERIES["cadence_find"], digests)}


async def _insert(db: Executor, missing: list[tuple[bytes, Timing]]) -> None:
    now: datetime = await db.fetch_value(_QUERIES["cadence_now"])
    documents = [timing.to_json() for _, timing in missing]
    zones = [document.get("time_zone") for document in documents]
    await db.execute(
        _QUERIES["cadence_insert"],
        [digest for digest, _ in missing],
        [dump_json(document) for document in documents],
        [zone if isinstance(zone, str) else None for zone in zones],
        tzdata_version(),
        [timing.next_after(now - _SLACK) for _, timing in missing],
    )


def _mapping(text: str) -> dict[str, object]:
    document = load_json(text)
    if not isinstance(document, dict):
        raise TypeError(f"a stored timing is not an object: {text[:100]}")
    return document
