"""`rota import`: read another scheduler's definitions and print them as a file for `rota apply`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
import yaml

from rota.base.errors import ValidationFailed
from rota.catalog.definition import Definition
from rota.cli.importers import Imported, ImportOptions, ImportRefused, celery, crontab, eventbridge, kubernetes, sidekiq
from rota.cli.output import EXIT_NO, EXIT_USAGE, JSON_OPTION, fail, print_json, stderr

app = typer.Typer(no_args_is_help=True, help="Read crontab, Kubernetes, sidekiq, Celery or EventBridge definitions.")

File = Annotated[str, typer.Argument(help="The file, or - for standard input.")]
Url = Annotated[str | None, typer.Option(help="Every schedule calls this URL.")]
Handler = Annotated[str | None, typer.Option(help="Every schedule runs this handler (default: the source's own name).")]
Zone = Annotated[str, typer.Option(help="The zone where the source names none.")]
AppName = Annotated[str | None, typer.Option("--app", help="The app name of the printed file.")]
Json = Annotated[bool, JSON_OPTION]
Reader = Callable[[str, ImportOptions], Imported]


@app.command("crontab")
def crontab_(
    file: File,
    url: Url = None,
    handler: Handler = None,
    time_zone: Zone = "UTC",
    name: AppName = None,
    system: Annotated[bool, typer.Option(help="The lines have a user column, as in /etc/crontab.")] = False,
    as_json: Json = False,
) -> None:
    """A crontab(5) file."""
    options = ImportOptions(url=url, handler=handler, time_zone=time_zone, has_user_column=system)
    _run(crontab.read, file, options, name, as_json)


@app.command("kubernetes")
def kubernetes_(
    file: File,
    url: Url = None,
    handler: Handler = None,
    time_zone: Zone = "UTC",
    name: AppName = None,
    as_json: Json = False,
) -> None:
    """CronJob manifests."""
    _run(kubernetes.read, file, ImportOptions(url=url, handler=handler, time_zone=time_zone), name, as_json)


@app.command("sidekiq")
def sidekiq_(
    file: File,
    url: Url = None,
    handler: Handler = None,
    time_zone: Zone = "UTC",
    name: AppName = None,
    as_json: Json = False,
) -> None:
    """A sidekiq-cron or sidekiq-scheduler YAML file."""
    _run(sidekiq.read, file, ImportOptions(url=url, handler=handler, time_zone=time_zone), name, as_json)


@app.command("celery")
def celery_(
    file: File,
    url: Url = None,
    handler: Handler = None,
    time_zone: Zone = "UTC",
    name: AppName = None,
    as_json: Json = False,
) -> None:
    """A beat_schedule, in Python (read, not executed), JSON or YAML."""
    _run(celery.read, file, ImportOptions(url=url, handler=handler, time_zone=time_zone), name, as_json)


@app.command("eventbridge")
def eventbridge_(
    file: File,
    url: Url = None,
    handler: Handler = None,
    time_zone: Zone = "UTC",
    name: AppName = None,
    as_json: Json = False,
) -> None:
    """The JSON of EventBridge Scheduler's get-schedule, or a list of such."""
    _run(eventbridge.read, file, ImportOptions(url=url, handler=handler, time_zone=time_zone), name, as_json)


def _run(read: Reader, file: str, options: ImportOptions, name: str | None, as_json: bool) -> None:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        found = read(text, options)
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {file}: {error}", code=EXIT_USAGE)
    except ImportRefused as error:
        fail(f"{file}: {error}", code=EXIT_USAGE)
    refused = 0
    for document in found.documents:
        try:
            Definition.parse({key: value for key, value in document.items() if key != "state"})
        except ValidationFailed as error:
            refused += 1
            for fault in error.errors:
                found.note(str(document["name"]), f"would be refused: {fault.field}: {fault.message}")
    for note in found.notes:
        stderr.print(f"note: {note}", markup=False, highlight=False)
    written = {"app": name or (Path(file).stem if file != "-" else "imported"), "schedules": found.documents}
    if as_json:
        print_json(written)
    else:
        sys.stdout.write(yaml.safe_dump(written, sort_keys=False, allow_unicode=True))
    stderr.print(
        f"{len(found.documents)} schedules read, {refused} of them would be refused; next: rota apply -f FILE --dry-run"
    )
    if refused:
        raise typer.Exit(EXIT_NO)
