"""Hold the size limits: files of 400 lines, functions and SQL blocks of 60.

Long things hide a second subject; the cure is to split by subject. Looks at everything under src/, tests/ and scripts/.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES = 400
BLOCK_LINES = 60
FOLDERS = ("src", "tests", "scripts", "examples")


def long_functions(path: Path, text: str) -> Iterator[str]:
    """Functions over the limit, decorators not counted, docstring counted."""
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > BLOCK_LINES:
                yield f"{path}:{node.lineno}: function {node.name} has {lines} lines (limit {BLOCK_LINES})"


def long_blocks(path: Path, text: str) -> Iterator[str]:
    """Named SQL blocks over the limit; a migration, which has no named blocks, is held to the file limit alone."""
    name, start, last = "", 0, 0
    for number, line in enumerate([*text.splitlines(), "-- name: end"], start=1):
        if line.startswith("-- name:"):
            if name and last - start + 1 > BLOCK_LINES:
                yield f"{path}:{start}: SQL block {name} has {last - start + 1} lines (limit {BLOCK_LINES})"
            name, start, last = line.removeprefix("-- name:").split("(")[0].strip(), number, number
        elif line.strip():
            last = number


def problems(path: Path) -> Iterator[str]:
    """Everything that is too long in one file."""
    text = path.read_text(encoding="utf-8")
    shown = path.relative_to(ROOT)
    if (lines := len(text.splitlines())) > FILE_LINES:
        yield f"{shown}:1: file has {lines} lines (limit {FILE_LINES})"
    yield from long_functions(shown, text) if path.suffix == ".py" else long_blocks(shown, text)


def main() -> None:
    """Print each finding; exit 1 when there is any."""
    files = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in {".py", ".sql"})
    found = [problem for path in files for problem in problems(path)]
    print("\n".join(found) or f"sizes: {len(files)} files within limits")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
