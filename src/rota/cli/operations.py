"""`rota audit`, `rota capacity`, `rota bench`: proof, planning ahead, measuring."""

from datetime import datetime
from typing import Annotated, Any

import typer

from rota.base.db import Database
from rota.bench.capacity import Load, as_table, capacity, parse_count
from rota.bench.capacity import as_json as capacity_json
from rota.cli.output import (
    EXIT_NO,
    EXIT_USAGE,
    JSON_OPTION,
    fail,
    print_document,
    print_json,
    print_rows,
    stderr,
    stdout,
)
from rota.cli.progress import progress
from rota.sweep.report import Report

app = typer.Typer()
Json = Annotated[bool, JSON_OPTION]


@app.command("audit")
def audit(
    from_: Annotated[str, typer.Option("--from", help="RFC 3339: slots at or after.")],
    to: Annotated[str, typer.Option("--to", help="RFC 3339: slots before.")],
    tenant: Annotated[str | None, typer.Option(help="Only this tenant (name or id).")] = None,
    rate: Annotated[float, typer.Option(help="Run keys a second at the most; 0: as fast as it goes.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Recompute what must have happened and compare it with what did. Exit code 1 if anything is absent or extra."""
    from rota.base.clock import SystemClock
    from rota.cli.operators import find_tenant, on_database
    from rota.cli.serve import load_settings
    from rota.sweep.reconcile import audit_cell

    start, end = _instant("--from", from_), _instant("--to", to)
    if start >= end:
        fail("--from must be before --to", code=EXIT_USAGE)
    settings = load_settings()

    async def work(db: Database) -> Report:
        tenant_id = None if tenant is None else (await find_tenant(db, tenant)).tenant_id
        with progress("audit") as advance:
            done = 0

            def tell(report: Report) -> None:
                nonlocal done
                advance(report.n_keys - done)
                done = report.n_keys

            return await audit_cell(
                db,
                SystemClock(),
                from_at=start,
                until_at=end,
                retention_days=settings.retention_days,
                tenant_id=tenant_id,
                keys_per_s=rate,
                on_progress=tell,
            )

    try:
        report = on_database(work)
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    print_document(report.document(), as_json=as_json)
    if not report.is_complete:
        raise typer.Exit(EXIT_NO)


def _instant(name: str, text: str) -> datetime:
    from rota.calendar import TimingError, read_instant

    try:
        return read_instant(text, field=name)
    except TimingError as error:
        fail(f"{name}: {error}", hint=error.hint, code=EXIT_USAGE)


@app.command("capacity")
def capacity_(
    schedules: Annotated[str, typer.Option(help="How many, such as 20M.")] = "1M",
    per_day: Annotated[str, typer.Option(help="Occurrences a day, such as 200M.")] = "10M",
    peak: Annotated[str, typer.Option(help="Occurrences due at one instant, such as 500k.")] = "0",
    within: Annotated[str, typer.Option(help="In what time the peak must have started, such as 5s.")] = "5s",
    mean_seconds: Annotated[float, typer.Option(help="What an attempt takes on average.")] = 0.2,
    failure_share: Annotated[float, typer.Option(help="Of all attempts, between 0 and 1.")] = 0.01,
    payload_bytes: Annotated[str, typer.Option(help="Of one schedule, such as 1k.")] = "100",
    retention_days: Annotated[float, typer.Option(help="How long history is kept.")] = 30.0,
    slots: Annotated[float, typer.Option(help="Attempts at once in one worker.")] = 64.0,
    headroom: Annotated[float, typer.Option(help="A factor over the need.")] = 1.5,
    disk: Annotated[str | None, typer.Option(help="The disk there is, such as 2T.")] = None,
    as_json: Json = False,
) -> None:
    """What a load needs: workers, planners, storage, and which number breaks first (Little's law, measured rates)."""
    from rota.calendar import TimingError, parse_duration

    try:
        load = Load(
            schedules=parse_count(schedules),
            per_day=parse_count(per_day),
            peak=parse_count(peak),
            within_s=parse_duration(within, field="--within").total_seconds(),
            mean_s=mean_seconds,
            failure_share=failure_share,
            payload_bytes=parse_count(payload_bytes),
            retention_days=retention_days,
            slots_per_worker=slots,
            headroom=headroom,
            disk_bytes=None if disk is None else parse_count(disk),
        )
    except (ValueError, TimingError) as error:
        fail(str(error), code=EXIT_USAGE)
    plan = capacity(load)
    if as_json:
        print_json(capacity_json(plan))
        return
    rows = [{"what": what, "value": value, "why": why} for what, value, why in as_table(plan)]
    print_rows(rows, ("what", "value", "why"), as_json=False)
    stdout.print("Rates are those in docs/performance.md; measure your own machine with `rota bench`.")


@app.command("bench")
def bench(
    scenario: Annotated[str, typer.Argument(help="lifecycle, plan, growth, hour, bloat, api, start or time.")],
    count: Annotated[str | None, typer.Option(help="Occurrences, such as 200k.")] = None,
    schedules: Annotated[str | None, typer.Option(help="Schedules, such as 20M.")] = None,
    database_url: Annotated[str | None, typer.Option(help="An empty database; default: an embedded one.")] = None,
    as_json: Json = False,
) -> None:
    """Measure on this machine; the last line with --json is one JSON object. Exit code 1 if the target is missed."""
    from rota.bench import scenarios
    from rota.cli.serve import run

    options: dict[str, Any] = {"dsn": database_url} if database_url else {}
    try:
        options |= {"count": int(parse_count(count))} if count else {}
        options |= {"schedules": int(parse_count(schedules))} if schedules else {}
        result = run(scenarios.run(scenario, options, tell=_tell))
    except ValueError as error:
        fail(str(error), code=EXIT_USAGE)
    document = result.document()
    if as_json:
        print_json(document)
    else:
        print_rows(result.rows, tuple(result.rows[0]) if result.rows else (), as_json=False)
        head = {name: document[name] for name in ("scenario", "rate", "reference", "ratio", "target", "met")}
        print_document(head, as_json=False)
        print_document({**document["settings"], **document["machine"]}, as_json=False)
    if not result.met:
        raise typer.Exit(EXIT_NO)


def _tell(text: str) -> None:
    stderr.print(text, markup=False, highlight=False)
