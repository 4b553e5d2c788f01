"""The command line: every verb, each in a module of its own under `cli/`, loaded when it is asked for."""

import sys

import typer

from rota import __version__
from rota.base.errors import RotaError
from rota.cli import apply, import_, occurrences, operations, operators, preview, schedules, serve
from rota.cli.output import EXIT_USAGE, fail_with

app = typer.Typer(
    name="rota",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A multi-tenant, distributed job scheduler on PostgreSQL.",
)
for part in (serve.app, preview.app, apply.app, operations.app):
    app.registered_commands += part.registered_commands
app.add_typer(schedules.app, name="schedule")
app.add_typer(occurrences.app, name="occurrences")
app.add_typer(import_.app, name="import")
app.add_typer(operators.tenant_app, name="tenant")
app.add_typer(operators.key_app, name="key")
app.add_typer(operators.region_app, name="region")


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"rota {__version__}\n")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """A multi-tenant, distributed job scheduler on PostgreSQL."""


def main() -> None:
    """Run one command. Exit codes: 0 done, 1 the answer is no, 2 the request was wrong."""
    try:
        app(prog_name="rota")
    except RotaError as error:
        try:
            fail_with(error)
        except typer.Exit as leave:
            raise SystemExit(leave.exit_code) from None
    except BrokenPipeError:
        raise SystemExit(0) from None


__all__ = ["EXIT_USAGE", "app", "main"]
