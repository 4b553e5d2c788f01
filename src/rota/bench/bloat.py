"""`rota bench bloat`: lifecycles while somebody holds a transaction open, against the same without it.

An open snapshot keeps every dead row visible to somebody, so nothing can be cleaned up: what a claim has to step over
grows with all that was ever claimed, unless it remembers where it stopped.
"""

from rota.base.db import Query
from rota.bench.ground import SEED, Result, Tell, ground, seed_schedules
from rota.bench.lifecycle import run_worker

_HOLD = Query("hold", "SELECT count(*) FROM tenants", ())


async def bloat(*, count: int = 1_000_000, tenants: int = 250, dsn: str | None = None, tell: Tell) -> Result:
    """Run it. `ratio` is the rate with the transaction held over the rate without."""
    async with ground(dsn) as db:
        await seed_schedules(db, count, timings=[{"cron": "0 0 1 1 *"}], tenants=tenants, tell=tell)
        await db.execute(SEED["bench_occurrences"], count, -1.0)
        tell("without")
        free_s, _ = await run_worker(db, count)
        await db.execute(SEED["bench_clear_occurrences"])
        await db.execute(SEED["bench_occurrences"], count, -1.0)
        async with db.transaction(isolation="repeatable_read") as tx:
            await tx.fetch_value(_HOLD)
            tell("with a transaction held open")
            held_s, _ = await run_worker(db, count)
            await tx.fetch_value(_HOLD)
        finished = await db.fetch_value(SEED["bench_count_finished"])
        rate, reference = count / held_s, count / free_s
        return Result(
            scenario="bloat",
            rate=rate,
            reference=reference,
            ratio=rate / reference,
            target=">= 0.5 x the rate without the open transaction",
            met=rate >= 0.5 * reference and finished == count,
            rows=[{"what": "seconds without", "value": free_s}, {"what": "seconds with", "value": held_s}],
            settings={"count": count, "tenants": tenants},
        )
