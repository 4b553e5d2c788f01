"""`rota apply`: make the schedules of one file true, and nothing else.

Schedules made by a file carry the label `rota.apply` with the file's app name. Only those are ever changed or pruned,
so two files, and schedules made by hand, never touch each other. A prune that would take away more than half is refused
unless forced, because an empty or foreign file is the more likely explanation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
import yaml

from rota.base.errors import ValidationFailed
from rota.catalog.definition import Definition
from rota.cli.output import EXIT_USAGE, JSON_OPTION, fail, print_json, stderr, stdout
from rota.cli.progress import progress
from rota.cli.schedules import door, pages
from rota.client import Client

APPLY_LABEL = "rota.apply"
PRUNE_SHARE = 0.5
_ALL = 10_000_000

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One line of the difference: create, update or cancel the schedule of that name."""

    action: str
    name: str
    schedule_id: str | None = None
    version: int | None = None
    document: dict[str, Any] | None = None
    fields: tuple[str, ...] = ()
    pause: bool = False

    def line(self) -> str:
        """The line a person reads."""
        sign = {"create": "+", "update": "~", "cancel": "-"}[self.action]
        return f"{sign} {self.name}" + (f"  ({', '.join(self.fields)})" if self.fields else "")


@app.command("apply")
def apply(
    file: Annotated[str, typer.Option("--file", "-f", help="YAML or JSON: a list of schedules, or {app, schedules}.")],
    prune: Annotated[bool, typer.Option(help="Cancel schedules of this app that the file no longer has.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only show what would change.")] = False,
    force: Annotated[bool, typer.Option(help="Prune even if most schedules would go.")] = False,
    name: Annotated[
        str | None,
        typer.Option("--app", help="The app the file speaks for; default: `app` in the file, else its name."),
    ] = None,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Create, update and (with --prune) cancel until the schedules match the file. Exit code 2 if the file is wrong."""
    app_name, documents = read_file(file, name)
    wanted = _check(file, app_name, documents)
    with door() as client:
        current = _current(client, app_name)
        changes = list(difference(wanted, current, prune=prune))
        _guard_prune(app_name, changes, current, force=force)
        if not as_json:
            for change in changes:
                stdout.print(change.line(), markup=False, highlight=False)
        if not dry_run:
            with progress("apply", len(changes)) as advance:
                for change in changes:
                    _carry_out(client, change)
                    advance()
        if as_json:
            print_json({"app": app_name, "dry_run": dry_run, "changes": [_as_json(change) for change in changes]})
            return
        done = "would change" if dry_run else "changed"
        stderr.print(f"{app_name}: {len(changes)} {done}, {len(wanted)} in the file", markup=False, highlight=False)


def read_file(file: str, app_name: str | None) -> tuple[str, list[Any]]:
    """The app name and the schedule documents of a file. Leaves with 2 when it cannot be read or is not of the form."""
    try:
        roots = list(yaml.safe_load_all(Path(file).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {file}: {error}", code=EXIT_USAGE)
    except yaml.YAMLError as error:
        fail(f"{file}: not YAML or JSON: {error}", code=EXIT_USAGE)
    documents: list[Any] = []
    for root in roots:
        if isinstance(root, dict) and "schedules" in root:
            unknown = set(root) - {"app", "schedules"}
            if unknown or not isinstance(root["schedules"], list):
                fail(f"{file}: expected {{app, schedules: [...]}}, found {sorted(map(str, root))}", code=EXIT_USAGE)
            app_name = app_name or (str(root["app"]) if root.get("app") else None)
            documents += root["schedules"]
        elif isinstance(root, list):
            documents += root
        elif isinstance(root, dict):
            documents.append(root)
        else:
            fail(
                f"{file}: empty: expected schedules; an app without any is written {{app: NAME, schedules: []}}",
                code=EXIT_USAGE,
            )
    return app_name or Path(file).stem, documents


def _check(file: str, app_name: str, documents: list[Any]) -> dict[str, dict[str, Any]]:
    """The documents by name, labelled; every fault of the whole file is told at once."""
    wanted: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    for number, document in enumerate(documents):
        where = f"{file}: schedules[{number}]"
        if not isinstance(document, dict) or not isinstance(document.get("name"), str):
            faults.append(f"{where}: expected a mapping with a name")
            continue
        name = document["name"]
        if name in wanted:
            faults.append(f"{where}: the name {name!r} is used twice")
        labels = document.get("labels") or {}
        wanted[name] = {**document, "labels": {**labels, APPLY_LABEL: app_name}}
        try:
            Definition.parse({key: value for key, value in wanted[name].items() if key != "state"})
        except ValidationFailed as error:
            faults += [f"{where} ({name}): {fault.field}: {fault.message}" for fault in error.errors]
    if faults:
        fail("\n      ".join(faults), code=EXIT_USAGE)
    return wanted


def _current(client: Client, app_name: str) -> dict[str, dict[str, Any]]:
    label = f"{APPLY_LABEL}={app_name}"
    found = pages(client, "/v1/schedules", {"label": label}, _ALL)
    return {item["name"]: item for item in found if item["state"] not in ("cancelled", "finished")}


def difference(
    wanted: Mapping[str, dict[str, Any]], current: Mapping[str, dict[str, Any]], *, prune: bool
) -> Iterator[Change]:
    """What has to change so that `current` becomes `wanted`, in the order of the file, cancellations last."""
    for name, written in wanted.items():
        pause = written.get("state") == "paused"
        document = {key: value for key, value in written.items() if key != "state"}
        existing = current.get(name)
        if existing is None:
            yield Change(action="create", name=name, document=document, pause=pause)
            continue
        fields = changed_fields(document, existing)
        if fields:
            yield Change(
                action="update",
                name=name,
                document=document,
                fields=fields,
                schedule_id=existing["id"],
                version=existing["version"],
            )
    if prune:
        for name in sorted(set(current) - set(wanted)):
            yield Change(action="cancel", name=name, schedule_id=current[name]["id"])


def changed_fields(document: Mapping[str, Any], existing: Mapping[str, Any]) -> tuple[str, ...]:
    """The members that differ once both are in canonical form, defaults filled in."""
    ours = Definition.parse(document).document()
    known = {key: value for key, value in existing.items() if key in ours or key in document}
    theirs = Definition.parse(known).document()
    return tuple(sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)))


def _guard_prune(app_name: str, changes: list[Change], current: Mapping[str, Any], *, force: bool) -> None:
    leaving = sum(change.action == "cancel" for change in changes)
    if leaving and not force and leaving > PRUNE_SHARE * len(current):
        fail(
            f"refused: --prune would cancel {leaving} of the {len(current)} schedules of app {app_name!r}",
            hint="look with --dry-run; if that is what you want, add --force",
        )


def _carry_out(client: Client, change: Change) -> None:
    match change.action:
        case "create":
            made = client.request("POST", "/v1/schedules", body=change.document)
            if change.pause:
                client.request(
                    "POST", f"/v1/schedules/{made['id']}/pause", body={"reason": "paused in the applied file"}
                )
        case "update":
            headers = {"If-Match": f'"{change.version}"'}
            client.request("PUT", f"/v1/schedules/{change.schedule_id}", body=change.document, headers=headers)
        case _:
            client.request("DELETE", f"/v1/schedules/{quote(str(change.schedule_id))}")


def _as_json(change: Change) -> dict[str, object]:
    return {"action": change.action, "name": change.name, "id": change.schedule_id, "fields": list(change.fields)}
