"""Attempts on a real database: what succeeds, fails, lies, hangs, and what the fence refuses."""

import asyncio
import time
from datetime import timedelta

import pytest

from rota.base.errors import LeaseLost
from rota.base.model import AttemptOutcome, TenantId
from rota.base.telemetry import StaleWrite, recorded
from rota.run import leases
from rota.run.app import Attempt, Reject, RetryLater, Rota
from rota.run.lease import Outcome
from rota.run.outcomes import heartbeat, key_of, write_outcomes
from support.running import Running

BAD_TEXTS = ["a\x00b", "\ud800 alone", "x" * 5_000_000, b"\xff\xfe".decode("latin-1"), "\\u0000"]


async def test_a_handler_gets_its_attempt_and_what_it_returns_is_kept(running: Running) -> None:
    app, seen = Rota(), []

    @app.handler("work")
    async def work(attempt: Attempt) -> dict[str, object]:
        seen.append((attempt.number, attempt.payload, attempt.schedule_name, attempt.cancelled))
        return {"rows": 3, "odd": float("nan"), "set": {1}}

    ids = await running.create(payload={"customer": 7})
    await running.due(ids)
    await running.worker(app)
    await running.becomes(succeeded=1)
    assert seen == [(1, {"customer": 7}, "s0", False)]
    row = await running.connection.fetchrow("SELECT attempt, failures, worker, result FROM finished_occurrences")
    assert (row["attempt"], row["failures"], row["worker"]) == (1, 0, "w1")
    assert '"rows":3' in row["result"]


async def test_a_plain_function_runs_in_a_thread_and_blocks_nobody(running: Running) -> None:
    app = Rota()

    @app.handler("work")
    def work(attempt: Attempt) -> None:
        time.sleep(0.2)

    ids = await running.create(4)
    await running.due(ids)
    await running.worker(app)
    await running.becomes(succeeded=4)


async def test_failures_are_retried_and_end_as_a_dead_letter_with_every_attempt(running: Running) -> None:
    app = Rota()

    @app.handler("work")
    async def work(attempt: Attempt) -> None:
        raise ValueError(f"try {attempt.number}")

    await running.due(await running.create())
    await running.worker(app)
    await running.becomes(dead=1)
    letter = await running.connection.fetchrow("SELECT * FROM dead_letters")
    assert (letter["reason"], letter["failures"], letter["attempt"]) == ("attempts_exhausted", 3, 3)
    assert "try 3" in letter["last_error"]
    numbers = await running.connection.fetch("SELECT number, outcome::text AS outcome FROM attempts ORDER BY number")
    assert [(row["number"], row["outcome"]) for row in numbers] == [(1, "failed"), (2, "failed"), (3, "failed")]


async def test_reject_goes_to_the_dead_letters_at_once_and_retry_later_waits(running: Running) -> None:
    app = Rota()

    @app.handler("work")
    async def work(attempt: Attempt) -> None:
        if attempt.schedule_name == "s0":
            raise Reject("no such customer")
        raise RetryLater(3000, "closed")

    await running.due(await running.create(2))
    await running.worker(app)
    await running.becomes(dead=1, pending=1)
    assert await running.connection.fetchval("SELECT reason FROM dead_letters") == "rejected"
    wait = await running.connection.fetchval("SELECT available_at - now() FROM occurrences")
    assert timedelta(seconds=2900) < wait <= timedelta(seconds=3000)


async def test_errors_that_postgres_cannot_store_harm_neither_themselves_nor_their_batch(running: Running) -> None:
    app = Rota()

    @app.handler("work")
    async def work(attempt: Attempt) -> str:
        number = int(attempt.schedule_name[1:])
        if number < len(BAD_TEXTS):
            raise Reject(BAD_TEXTS[number])
        return BAD_TEXTS[number % len(BAD_TEXTS)][:100]

    await running.due(await running.create(60))
    await running.worker(app)
    await running.becomes(dead=len(BAD_TEXTS), succeeded=60 - len(BAD_TEXTS))
    errors = await running.connection.fetch("SELECT last_error FROM dead_letters")
    assert all(0 < len(row["last_error"]) <= 8000 for row in errors)


async def test_a_stale_report_changes_nothing_and_is_counted(running: Running) -> None:
    await running.due(await running.create())
    first = await _claim_one(running, "w1")
    await running.connection.execute("UPDATE occurrences SET lease_until = now() - interval '1 s'")
    await running.connection.execute("UPDATE occurrences SET lease_until = NULL")
    second = await _claim_one(running, "w2")
    success = Outcome(outcome=AttemptOutcome.SUCCEEDED)
    with recorded() as events:
        stale = await write_outcomes(running.db, [(first, success)], worker="w1", max_losses=3)
    assert stale.accepted == set()
    assert [event.action for event in events if isinstance(event, StaleWrite)] == ["succeeded"]
    assert await running.states() == {"running": 1}
    assert await heartbeat(running.db, [first], 30.0) == []
    done = await write_outcomes(running.db, [(second, success)], worker="w2", max_losses=3)
    assert done.accepted == {key_of(second)}
    again = await write_outcomes(running.db, [(second, success)], worker="w2", max_losses=3)
    assert again.accepted == set()
    assert await running.states() == {"succeeded": 1}


async def test_an_expired_lease_cannot_finish_although_nobody_took_it(running: Running) -> None:
    await running.due(await running.create())
    lease = await _claim_one(running, "w1")
    await running.connection.execute("UPDATE occurrences SET lease_until = now() - interval '1 ms'")
    for outcome in (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.REJECTED, AttemptOutcome.CANCELLED):
        written = await write_outcomes(running.db, [(lease, Outcome(outcome=outcome))], worker="w1", max_losses=3)
        assert written.accepted == set()
    assert await running.states() == {"running": 1}


async def test_long_attempts_keep_their_lease_while_the_event_loop_is_blocked(running: Running) -> None:
    app = Rota()

    @app.handler("work")
    async def work(attempt: Attempt) -> None:
        time.sleep(4.5)  # longer than the lease, and nothing else of this loop can run

    await running.due(await running.create())
    await running.worker(app)
    await running.becomes(succeeded=1)
    assert await running.connection.fetchval("SELECT attempt FROM finished_occurrences") == 1


async def test_a_timeout_ends_an_attempt_even_if_its_code_ignores_it(running: Running) -> None:
    app, released = Rota(), asyncio.Event()

    @app.handler("work", timeout=0.3)
    async def work(attempt: Attempt) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    await running.due(await running.create(retry={"max_attempts": 1}))
    worker = await running.worker(app)
    await running.becomes(dead=1)
    assert await running.connection.fetchval("SELECT outcome::text FROM attempts") == "timed_out"
    assert worker.n_stuck == 1
    released.set()


async def test_draining_gives_back_what_has_not_started_and_interrupts_what_runs(running: Running) -> None:
    app, started = Rota(), asyncio.Event()

    @app.handler("work")
    async def work(attempt: Attempt) -> None:
        started.set()
        await asyncio.sleep(3600)

    await running.due(await running.create(20))
    worker = await running.worker(app)
    await started.wait()
    await running.end(worker)
    rows = await running.connection.fetch("SELECT attempt, failures, losses, lease_until FROM occurrences")
    assert len(rows) == 20
    assert all(row["lease_until"] is None and row["failures"] == 0 for row in rows)
    assert sum(row["losses"] for row in rows) == 4  # as many as there are slots
    assert sum(row["attempt"] for row in rows) == 4


async def test_a_cancelled_attempt_sees_it_and_is_recorded_as_cancelled(running: Running) -> None:
    app = Rota()

    @app.handler("work")
    async def work(attempt: Attempt) -> None:
        while not attempt.cancelled:
            await asyncio.sleep(0.02)
        raise RuntimeError("stopped half-way")

    await running.due(await running.create())
    await running.worker(app)
    await running.becomes(running=1)
    await running.connection.execute("UPDATE occurrences SET cancel_requested_at = now()")
    await running.becomes(cancelled=1)


async def test_occurrences_that_expired_before_their_start_are_missed_with_a_reason(running: Running) -> None:
    app, calls = Rota(), []

    @app.handler("work")
    async def work(attempt: Attempt) -> None:
        calls.append(attempt.key)

    ids = await running.create()
    await running.due(ids)
    await running.connection.execute("UPDATE occurrences SET expires_at = now() - interval '1 s'")
    await running.worker(app)
    await running.becomes(missed=1)
    row = await running.connection.fetchrow("SELECT reason, attempt, started_at FROM finished_occurrences")
    assert (row["reason"], row["attempt"], row["started_at"]) == ("too_late", 0, None)
    assert calls == []


async def test_workers_in_other_languages_lease_report_and_are_fenced(running: Running) -> None:
    ids = await running.create(2)
    await running.due(ids)
    tenant, stranger = TenantId(1), TenantId(2)
    assert await leases.claim_for_tenant(running.db, stranger) == []
    found = await leases.claim_for_tenant(running.db, tenant, handlers=["work"], limit=5, worker="go-1")
    assert len(found) == 2
    first, second = (lease.document()["token"] for lease in found)
    assert (await leases.heartbeat(running.db, tenant, first))["state"] == "running"
    with pytest.raises(LeaseLost):
        await leases.heartbeat(running.db, stranger, first)
    assert (await leases.complete(running.db, tenant, first, {"ok": True}))["state"] == "succeeded"
    with pytest.raises(LeaseLost):
        await leases.complete(running.db, tenant, first)
    answer = await leases.fail(running.db, tenant, second, "no\x00t now")
    assert answer["state"] == "retry_wait"
    again = await leases.claim_for_tenant(running.db, tenant)
    assert [lease.document()["attempt"] for lease in again] == [2]
    dead = await leases.fail(running.db, tenant, again[0].document()["token"], "never", retry=False)
    assert dead["state"] == "dead"
    assert await running.states() == {"succeeded": 1, "dead": 1}


async def _claim_one(running: Running, worker: str) -> object:
    from rota.base.json import load_json
    from rota.base.model import Policy
    from rota.run.worker import lease_of

    (row,) = (await running.claimer(worker).claim(1)).rows
    text = await running.connection.fetchval("SELECT document FROM policies WHERE policy_id = $1", row["policy_id"])
    return lease_of(row, Policy.from_json(load_json(text)))
