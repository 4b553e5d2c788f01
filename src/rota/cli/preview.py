"""`rota preview`: the next instants of a timing, by the very function that plans them."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from rota.calendar import Timing, TimingError, read_instant, run_batch
from rota.cli.output import EXIT_USAGE, fail, print_json, stdout

app = typer.Typer()


@app.command("preview")
def preview(
    cron: Annotated[str | None, typer.Argument(help="A schedule expression, quoted.")] = None,
    time_zone: Annotated[str, typer.Option(help="IANA name, e.g. America/New_York.")] = "UTC",
    after: Annotated[
        str | None, typer.Option(help="RFC 3339 instant; answers are strictly later. Default: now.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="How many instants.")] = 10,
    dst: Annotated[str | None, typer.Option(help="rota, eventbridge, kubernetes or cronie.")] = None,
    dialect: Annotated[str | None, typer.Option(help="unix5, seconds6, quartz7, aws6 or jenkinsH.")] = None,
    every: Annotated[str | None, typer.Option(help="An interval such as 15m, instead of an expression.")] = None,
    anchor: Annotated[str | None, typer.Option(help="The instant that an interval is counted from.")] = None,
    at: Annotated[str | None, typer.Option(help="A single wall time or instant, instead of an expression.")] = None,
    hash_key: Annotated[str | None, typer.Option(help="The name that H is hashed from.")] = None,
    batch: Annotated[str | None, typer.Option(help="NDJSON file, or - for standard input.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of UTC instants.")] = False,
) -> None:
    """Show when a timing fires next, before anyone saves it.

    Exits with 2 and the reason on stderr if the expression, the zone or the instant is refused.
    """
    if batch is not None:
        _print_batch(batch)
        return
    chosen = {name: value for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None}
    if len(chosen) != 1:
        fail(
            "give exactly one of: an expression, --every, --at",
            hint="for example: rota preview '0 9 * * 1-5'",
            code=EXIT_USAGE,
        )
    request: dict[str, object] = {**chosen, "time_zone": time_zone, "count": count}
    request["after"] = after or datetime.now(UTC).isoformat().replace("+00:00", "Z")
    options = {"dst": dst, "dialect": dialect, "anchor": anchor, "hash_key": hash_key}
    request.update({name: value for name, value in options.items() if value is not None})
    answer = json.loads(next(iter(run_batch([json.dumps(request)]))))
    if "error" in answer:
        fail(answer["error"], code=EXIT_USAGE)
    if as_json:
        print_json(answer["fires"])
        return
    _print_table(request, count)


def _print_batch(source: str) -> None:
    if source == "-":
        lines = sys.stdin
    else:
        try:
            lines = Path(source).open(encoding="utf-8", errors="replace")  # noqa: SIM115
        except OSError as error:
            fail(f"cannot read {source}: {error.strerror}", code=EXIT_USAGE)
    with lines:
        for answer in run_batch(lines):
            sys.stdout.write(answer + "\n")


def _print_table(request: dict[str, object], count: int) -> None:
    members = ("cron", "every", "at", "time_zone", "dst", "dialect", "anchor")
    timing_json = {name: request[name] for name in members if name in request}
    if "every" in timing_json:
        timing_json.pop("time_zone", None)
    try:
        timing = Timing.parse(timing_json, hash_key=str(request.get("hash_key", "")))
    except TimingError as error:
        fail(str(error), code=EXIT_USAGE)
    after = read_instant(request["after"], field="after")
    stdout.print(timing.describe(), markup=False, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("UTC", "wall time", "marks"):
        table.add_column(column)
    for fire in timing.preview(after, count):
        table.add_row(
            fire.at.isoformat().replace("+00:00", "Z") if fire.fires else "-", fire.wall, ", ".join(fire.marks)
        )
    stdout.print(table, markup=False, highlight=False)
