"""`rota occurrences`: list, show, replay, cancel."""

import uuid
from typing import Annotated

import typer

from rota.cli.output import EXIT_USAGE, JSON_OPTION, fail, print_document, print_rows
from rota.cli.schedules import door, pages

app = typer.Typer(no_args_is_help=True, help="Look at occurrences and replay dead ones.")

Json = Annotated[bool, JSON_OPTION]
RunKeyArgument = Annotated[str, typer.Argument(help="The run key of the occurrence.")]
COLUMNS = ("id", "state", "scheduled_for", "attempt", "reason", "finished_at")


@app.command("list")
def list_(
    schedule: Annotated[str | None, typer.Option(help="The id of a schedule.")] = None,
    state: Annotated[
        str | None, typer.Option(help="scheduled, enqueued, running, retry_wait, succeeded, dead, ...")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="RFC 3339: scheduled at or after.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="RFC 3339: scheduled before.")] = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    as_json: Json = False,
) -> None:
    """List occurrences, newest first."""
    filters = {"schedule_id": schedule, "state": state, "from": from_, "to": to}
    with door() as client:
        print_rows(pages(client, "/v1/occurrences", filters, limit), COLUMNS, as_json=as_json)


@app.command("show")
def show(run_key: RunKeyArgument, as_json: Json = False) -> None:
    """Show one occurrence with its attempts."""
    with door() as client:
        print_document(client.request("GET", f"/v1/occurrences/{run_key}"), as_json=as_json)


@app.command("replay")
def replay(
    run_key: Annotated[str | None, typer.Argument(help="One dead occurrence; or choose many with the options.")] = None,
    schedule: Annotated[str | None, typer.Option(help="All dead ones of this schedule.")] = None,
    from_: Annotated[str | None, typer.Option("--from", help="RFC 3339: scheduled at or after.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="RFC 3339: scheduled before.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead ones of the tenant.")] = False,
    rate: Annotated[float | None, typer.Option(help="Starts per second at the most.")] = None,
    reason: Annotated[str | None, typer.Option()] = None,
    as_json: Json = False,
) -> None:
    """Put dead occurrences back into the queue, with the same run key."""
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    chosen = {"schedule_id": schedule, "from": from_, "to": to}
    body = {name: value for name, value in {**chosen, "rate": rate, "reason": reason}.items() if value is not None}
    if run_key is None and not everything and not any(chosen.values()):
        fail("give a run key, or choose with --schedule, --from, --to or --all", code=EXIT_USAGE)
    path = f"/v1/occurrences/{run_key}/replay" if run_key else "/v1/occurrences/replay"
    with door() as client:
        print_document(client.request("POST", path, body=body, headers=headers), as_json=as_json)


@app.command("cancel")
def cancel(
    run_key: RunKeyArgument, reason: Annotated[str | None, typer.Option()] = None, as_json: Json = False
) -> None:
    """Cancel one occurrence; a running one is asked to stop."""
    with door() as client:
        body = {"reason": reason} if reason else {}
        print_document(client.request("POST", f"/v1/occurrences/{run_key}/cancel", body=body), as_json=as_json)
