"""Progress of long work: a bar on a terminal, nothing in a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rota.cli.output import stderr


class Advance(Protocol):
    """Called with how many items were done since the last call."""

    def __call__(self, n: int = 1) -> None: ...


@contextmanager
def progress(title: str, total: int | None = None) -> Iterator[Advance]:
    """Show how far `title` has come; `total` is None when it is not known."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        line = bar.add_task(title, total=total)

        def advance(n: int = 1) -> None:
            bar.advance(line, n)

        yield advance
