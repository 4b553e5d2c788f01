"""The continuous audit and the duty it is: one keeper at a time, every window once, faults shown for a day."""

from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
import pytest

from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.model import RunKey
from rota.base.telemetry import AuditFinished, audit_absent, audit_extra, recorded
from rota.sweep import audit as audit_module
from rota.sweep.audit import Audit, AuditFoundFaults
from rota.sweep.duties import Duty
from support.keeping import DAY, HOUR, Seed

MINUTE = timedelta(minutes=1)
EVERY_MINUTE = {"every": "1m", "anchor": "2026-01-01T00:00:00Z"}


@pytest.fixture
async def seed(connection: asyncpg.Connection) -> Seed:
    made = Seed(connection)
    await made.basics()
    return made


def audit(database: Database, owner: str = "k1") -> Audit:
    return Audit(database, SystemClock(), owner=owner, tick_s=60.0, keys_per_s=0.0)


async def minutely(seed: Seed) -> tuple[UUID, list[datetime]]:
    """A schedule at each minute for the last ten, all of them run and planned ahead."""
    now: datetime = await seed.connection.fetchval("SELECT now()")
    await seed.planned_through(now + HOUR)
    cadence_id = await seed.cadence(EVERY_MINUTE)
    schedule_id = await seed.schedule(active_from=now - DAY, cadence_id=cadence_id)
    last = now.replace(second=0, microsecond=0)
    minutes = [last - n * MINUTE for n in range(15)]
    for minute in minutes:
        await seed.finished(schedule_id, minute)
    return schedule_id, minutes


async def one_pass(service: Audit) -> AuditFinished:
    """Tick until a pass is through."""
    with recorded() as events:
        while not any(isinstance(event, AuditFinished) for event in events):
            await service.tick()
    return next(event for event in events if isinstance(event, AuditFinished))


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small cell is audited whole, a large one by what is due."""
    if request.param == "large":
        monkeypatch.setattr(audit_module, "SMALL_VERSIONS", -1)
        monkeypatch.setattr(audit_module, "PAGE", 1)
    return request.param


async def test_a_pass_over_the_recent_past_finds_all_that_is_due(database: Database, seed: Seed, size: str):
    await minutely(seed)
    told = await one_pass(audit(database))
    assert (told.n_absent, told.n_extra) == (0, 0)
    assert told.n_expected in (9, 10, 11)
    assert audit_absent._value.get() == 0


async def test_faults_are_named_and_shown_by_every_keeper(database: Database, seed: Seed, size: str):
    schedule_id, minutes = await minutely(seed)
    await seed.connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for = $1", minutes[3])
    await seed.finished(schedule_id, minutes[5] + timedelta(seconds=7))
    with recorded() as events:
        await one_pass(audit(database))
    fault = next(event for event in events if isinstance(event, AuditFoundFaults))
    assert fault.absent == (str(RunKey(schedule_id, 1, minutes[3])),)
    assert fault.extra == (str(RunKey(schedule_id, 1, minutes[5] + timedelta(seconds=7))),)
    audit_absent.set(0)
    audit_extra.set(0)
    assert await audit(database, "k2").tick() == 60.0
    assert (audit_absent._value.get(), audit_extra._value.get()) == (1, 1)


async def test_the_next_window_begins_where_the_last_one_ended(database: Database, seed: Seed):
    await minutely(seed)
    service = audit(database)
    await one_pass(service)
    first = (await Duty(database, "audit", "k1", lease_s=60).read())["audited_until"]
    await seed.connection.execute("TRUNCATE finished_occurrences")
    told = await one_pass(service)
    assert told.n_expected <= 1
    assert (await Duty(database, "audit", "k1", lease_s=60).read())["audited_until"] > first  # type: ignore[operator]


async def test_a_window_that_is_not_planned_yet_waits(database: Database, seed: Seed):
    now: datetime = await seed.connection.fetchval("SELECT now()")
    service = audit(database)
    await one_pass(service)
    await seed.planned_through(now - HOUR)
    with recorded() as events:
        assert await service.tick() == 60.0
    assert events == []


async def test_after_a_long_absence_it_catches_up_in_windows_of_bounded_length(database: Database, seed: Seed):
    _, minutes = await minutely(seed)
    holder = Duty(database, "audit", "k1", lease_s=60)
    await holder.take()
    await holder.write({"audited_until": (minutes[0] - HOUR).isoformat()})
    service = audit(database)
    told = [await one_pass(service) for _ in range(7)]
    assert [event.n_absent for event in told[:5]] == [10, 20, 30, 40, 46]


async def test_a_pass_that_breaks_is_begun_anew_and_never_counted_as_done(
    database: Database, seed: Seed, monkeypatch: pytest.MonkeyPatch
):
    await minutely(seed)
    service = audit(database)
    await seed.connection.execute("ALTER TABLE missed_ranges RENAME TO missed_ranges_away")
    with pytest.raises(asyncpg.UndefinedTableError):
        await service.tick()
    assert "audited_until" not in await Duty(database, "audit", "k1", lease_s=60).read()
    await seed.connection.execute("ALTER TABLE missed_ranges_away RENAME TO missed_ranges")
    assert (await one_pass(service)).n_expected >= 9


async def test_a_duty_is_held_by_one_until_its_lease_ends_or_it_is_left(database: Database, seed: Seed):
    first, second = (Duty(database, "audit", owner, lease_s=60) for owner in ("k1", "k2"))
    assert await first.take() == {}
    assert await second.take() is None
    assert await first.write({"n": 1}, is_done=True)
    assert await first.take() == {"n": 1}
    await first.leave()
    assert await second.take() == {"n": 1}
    assert not await first.write({"n": 2})


async def test_a_holder_that_was_frozen_past_its_lease_writes_nothing(database: Database, seed: Seed):
    frozen, next_one = (Duty(database, "audit", owner, lease_s=60) for owner in ("k1", "k2"))
    await frozen.take()
    await seed.connection.execute("UPDATE duties SET lease_until = now() - interval '1 s'")
    assert not await frozen.write({"n": 1})
    assert await next_one.take() == {}
