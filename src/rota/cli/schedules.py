"""`rota schedule`: create, list, show, pause, resume, cancel, run, backfill."""

import json
import sys
import uuid
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.base.errors import RotaError
from rota.cli.connect import api
from rota.cli.output import EXIT_USAGE, JSON_OPTION, fail, fail_with, print_document, print_rows
from rota.client import Client

app = typer.Typer(no_args_is_help=True, help="Create, look at and change schedules.")

Json = Annotated[bool, JSON_OPTION]
Id = Annotated[str, typer.Argument(help="The id of the schedule, or its exact name.")]
Reason = Annotated[str | None, typer.Option(help="Why; kept in the audit trail.")]
COLUMNS = ("id", "name", "group", "state", "version", "timing", "next_fires")


@app.command("create")
def create(
    name: Annotated[str | None, typer.Argument(help="Its name.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", help="A JSON document, or - for standard input.")] = None,
    cron: Annotated[str | None, typer.Option(help="A schedule expression, quoted.")] = None,
    every: Annotated[str | None, typer.Option(help="An interval such as 15m.")] = None,
    at: Annotated[str | None, typer.Option(help="A single wall time or instant.")] = None,
    time_zone: Annotated[str | None, typer.Option(help="IANA name.")] = None,
    dst: Annotated[str | None, typer.Option(help="rota, eventbridge, kubernetes or cronie.")] = None,
    url: Annotated[str | None, typer.Option(help="The URL to call.")] = None,
    handler: Annotated[str | None, typer.Option(help="The registered handler to run.")] = None,
    queue: Annotated[str, typer.Option(help="The queue of the handler.")] = "default",
    payload: Annotated[str | None, typer.Option(help="JSON.")] = None,
    group: Annotated[str | None, typer.Option()] = None,
    label: Annotated[list[str] | None, typer.Option(help="key=value; may be repeated.")] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(help="Repeating the command with it creates nothing new.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a schedule from a JSON document or from options."""
    if file is not None:
        document = _read_document(file)
    else:
        target: dict[str, object] = {"http": {"url": url}} if url else {"handler": {"name": handler, "queue": queue}}
        document = {"timing": _timing(cron=cron, every=every, at=at, time_zone=time_zone, dst=dst), "target": target}
        if url is None and handler is None:
            fail("give what to call: --url URL or --handler NAME", code=EXIT_USAGE)
        if payload is not None:
            document["payload"] = _parse_json("--payload", payload)
    for member, value in (("name", name), ("group", group)):
        if value is not None:
            document[member] = value
    if label:
        document["labels"] = dict(_label(text) for text in label)
    with _door() as client:
        made = client.request(
            "POST", "/v1/schedules", body=document, headers={"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        )
        print_document(made, as_json=as_json)


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Option()] = None,
    state: Annotated[str | None, typer.Option(help="active, paused, finished or cancelled.")] = None,
    group: Annotated[str | None, typer.Option()] = None,
    label: Annotated[str | None, typer.Option(help="key=value")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
    as_json: Json = False,
) -> None:
    """List schedules, filtered."""
    filters = {"name": name, "state": state, "group": group, "label": label}
    with _door() as client:
        print_rows(pages(client, "/v1/schedules", filters, limit), COLUMNS, as_json=as_json)


@app.command("show")
def show(schedule: Id, as_json: Json = False) -> None:
    """Show one schedule whole."""
    with _door() as client:
        print_document(client.request("GET", f"/v1/schedules/{_find(client, schedule)}"), as_json=as_json)


@app.command("pause")
def pause(
    schedule: Id,
    reason: Reason = None,
    until: Annotated[str | None, typer.Option(help="RFC 3339; resumes by itself then.")] = None,
    as_json: Json = False,
) -> None:
    """Pause it: nothing that has not started will start."""
    _act(schedule, "pause", {"reason": reason, "until": until}, as_json)


@app.command("resume")
def resume(
    schedule: Id,
    reason: Reason = None,
    missed: Annotated[
        str, typer.Option(help="What was due meanwhile: skip, or misfire (its misfire policy decides).")
    ] = "skip",
    as_json: Json = False,
) -> None:
    """Resume it."""
    _act(schedule, "resume", {"reason": reason, "missed": missed}, as_json)


@app.command("cancel")
def cancel(schedule: Id, as_json: Json = False) -> None:
    """Cancel it for good; its history stays."""
    with _door() as client:
        print_document(client.request("DELETE", f"/v1/schedules/{_find(client, schedule)}") or {}, as_json=as_json)


@app.command("run")
def run(
    schedule: Id,
    reason: Reason = None,
    idempotency_key: Annotated[str | None, typer.Option()] = None,
    as_json: Json = False,
) -> None:
    """Run it once now; its rhythm is not disturbed."""
    _act(schedule, "run", {"reason": reason}, as_json, key=idempotency_key or str(uuid.uuid4()))


@app.command("backfill")
def backfill(
    schedule: Id,
    from_: Annotated[datetime, typer.Option("--from", formats=["%Y-%m-%dT%H:%M:%S%z"], help="RFC 3339.")],
    to: Annotated[datetime, typer.Option("--to", formats=["%Y-%m-%dT%H:%M:%S%z"], help="RFC 3339.")],
    rate: Annotated[float | None, typer.Option(help="Occurrences per second at the most.")] = None,
    as_json: Json = False,
) -> None:
    """Plan what a past range would have fired."""
    body: dict[str, object] = {"from": from_.isoformat(), "to": to.isoformat(), "rate": rate}
    _act(schedule, "backfill", body, as_json, key=str(uuid.uuid4()))


def pages(client: Client, path: str, filters: dict[str, str | None], limit: int) -> list[dict[str, Any]]:
    """Up to `limit` items of a listing, page by page."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(items) < limit:
        query = {**filters, "limit": str(min(limit - len(items), 500)), "cursor": cursor}
        page = client.request("GET", path, query={name: value for name, value in query.items() if value is not None})
        items += page["items"]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    return items


class _door:  # noqa: N801 - reads as a block: `with _door() as client`
    """An open client whose errors end the command with their message and exit code."""

    def __enter__(self) -> Client:
        self._client = api()
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._client.close()
        if isinstance(error, RotaError):
            fail_with(error)


door = _door


def _act(schedule: str, verb: str, body: dict[str, object], as_json: bool, *, key: str | None = None) -> None:
    given = {name: value for name, value in body.items() if value is not None}
    with _door() as client:
        path = f"/v1/schedules/{_find(client, schedule)}/{verb}"
        headers = {"Idempotency-Key": key} if key else {}
        print_document(client.request("POST", path, body=given, headers=headers), as_json=as_json)


def _find(client: Client, schedule: str) -> str:
    """An id stands for itself; a name must belong to exactly one schedule that is not cancelled."""
    try:
        return str(uuid.UUID(schedule))
    except ValueError:
        pass
    found = [item for item in pages(client, "/v1/schedules", {"name": schedule}, 50) if item["state"] != "cancelled"]
    if not found:
        fail(f"no schedule is named {schedule!r}", hint="`rota schedule list` shows names and ids")
    if len(found) > 1:
        fail(
            f"{len(found)} schedules are named {schedule!r}: " + ", ".join(str(item["id"]) for item in found),
            code=EXIT_USAGE,
        )
    return str(found[0]["id"])


def _timing(**members: str | None) -> dict[str, object]:
    timing: dict[str, object] = {name: value for name, value in members.items() if value is not None}
    if sum(name in timing for name in ("cron", "every", "at")) != 1:
        fail("give exactly one of --cron, --every, --at (or a document with --file)", code=EXIT_USAGE)
    return timing


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        fail(f"--label {text!r}: expected key=value", code=EXIT_USAGE)
    return name, value


def _read_document(source: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"cannot read {source}: {error.strerror}", code=EXIT_USAGE)
    document = _parse_json(source, text)
    if not isinstance(document, dict):
        fail(f"{source}: expected a JSON object", code=EXIT_USAGE)
    return document


def _parse_json(source: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        fail(f"{source}: not JSON: line {error.lineno}, column {error.colno}: {error.msg}", code=EXIT_USAGE)
