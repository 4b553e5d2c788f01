"""SQL as source code: named blocks in .sql files beside the module that owns them.

    -- name: window_plan (shards, generation, through)
    -- Why this statement is as it is.
    INSERT ...

The names in brackets stand for $1, $2, ... in order; loading fails when they do not match the text.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HEADER = re.compile(r"^-- name: *([a-z][a-z0-9_]*) *(?:\(([^)]*)\))? *$")
_PLACEHOLDER = re.compile(r"\$([0-9]+)")
_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One named statement with the names of its arguments."""

    name: str
    text: str
    arguments: tuple[str, ...]

    @property
    def n_args(self) -> int:
        """How many arguments it takes."""
        return len(self.arguments)


class Queries(Mapping[str, Query]):
    """The statements of one file by name. KeyError tells the file."""

    def __init__(self, path: Path, blocks: Mapping[str, Query]) -> None:
        self.path = path
        self._blocks = dict(blocks)

    def __getitem__(self, name: str) -> Query:
        try:
            return self._blocks[name]
        except KeyError:
            raise KeyError(f"{self.path.name} has no statement named {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __len__(self) -> int:
        return len(self._blocks)


def load_queries(module_file: str, name: str) -> Queries:
    """The statements of the file `name` beside a module: `load_queries(__file__, "planner.sql")`."""
    return read_queries(Path(module_file).resolve().with_name(name))


@cache
def read_queries(path: Path) -> Queries:
    """Parse one .sql file. Raises ValueError with file and line when a block is not of the form."""
    blocks: dict[str, Query] = {}
    header: tuple[str, tuple[str, ...]] | None = None
    lines: list[str] = []

    def close() -> None:
        if header is not None:
            blocks[header[0]] = _block(path, header[0], header[1], "\n".join(lines))

    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.startswith("-- name:"):
            lines.append(line)
            continue
        found = _HEADER.match(line)
        if found is None:
            raise ValueError(f"{path.name}, line {number}: expected `-- name: noun_verb (argument, ...)`: {line!r}")
        close()
        if found[1] in blocks:
            raise ValueError(f"{path.name}, line {number}: the name {found[1]!r} is used twice")
        arguments = tuple(part.strip() for part in (found[2] or "").split(",") if part.strip())
        header, lines = (found[1], arguments), []
    close()
    return Queries(path, blocks)


def _block(path: Path, name: str, arguments: tuple[str, ...], text: str) -> Query:
    used = {int(n) for n in _PLACEHOLDER.findall(_COMMENT_OR_TEXT.sub("", text))}
    if used != set(range(1, len(arguments) + 1)):
        raise ValueError(f"{path.name}: {name} names {len(arguments)} arguments, its text uses ${sorted(used)}")
    return Query(name, text.strip().rstrip(";"), arguments)
