"""What commands print: JSON for programs, tables for people, errors with an exit code.

Exit codes: 0 done, 1 the answer is "no" (something absent, refused or failed), 2 the request itself was wrong.
Results go to stdout, everything said to the person goes to stderr, so that output can be piped.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

import typer
from rich.console import Console
from rich.table import Table

from rota.base.errors import RotaError, ValidationFailed

EXIT_NO = 1
EXIT_USAGE = 2

stdout = Console(soft_wrap=True)
stderr = Console(stderr=True, soft_wrap=True)

JSON_OPTION = typer.Option("--json", help="Print JSON instead of a table.")


def fail(message: str, *, hint: str = "", code: int = EXIT_NO) -> NoReturn:
    """Say what was wrong and what to do, on stderr, and leave with `code`."""
    stderr.print(f"rota: {message}", markup=False, highlight=False)
    if hint:
        stderr.print(f"      {hint}", markup=False, highlight=False)
    raise typer.Exit(code)


def fail_with(error: Exception) -> NoReturn:
    """Leave as the error tells: a wrong request is exit code 2, everything else 1."""
    if isinstance(error, ValidationFailed):
        lines = "; ".join(f"{field.field}: {field.message}" for field in error.errors)
        hints = "; ".join(field.hint for field in error.errors if field.hint)
        fail(lines or str(error), hint=hints, code=EXIT_USAGE)
    if isinstance(error, RotaError):
        fail(str(error), hint=error.hint)
    fail(f"{type(error).__name__}: {error}")


def print_json(value: object) -> None:
    """One JSON document on one line, UTF-8."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def print_rows(
    rows: Iterable[Mapping[str, object]],
    columns: Sequence[str],
    *,
    as_json: bool,
    shown: Callable[[str, object], str] | None = None,
) -> None:
    """A listing: a JSON array with every member, or a table of the named columns."""
    if as_json:
        print_json(list(rows))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(column, row.get(column), shown) for column in columns))
    stdout.print(table, markup=False, highlight=False)


def _cell(column: str, value: object, shown: Callable[[str, object], str] | None) -> str:
    if shown is not None:
        return shown(column, value)
    if value is None:
        return "-"
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def print_document(value: Mapping[str, object], *, as_json: bool) -> None:
    """One object: JSON on one line, or one member a line."""
    if as_json:
        print_json(value)
        return
    width = max((len(name) for name in value), default=0)
    for name, member in value.items():
        stdout.print(f"{name:<{width}}  {_cell(name, member, None)}", markup=False, highlight=False)
