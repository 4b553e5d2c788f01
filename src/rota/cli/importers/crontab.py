"""crontab(5) files: five fields or a macro, a command, and the assignments above it."""

import re

from rota.cli.importers.imported import Document, Imported, ImportOptions, slug, target

_ASSIGNMENT = re.compile(r"^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$")
_MACROS = {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}


def read(text: str, options: ImportOptions) -> Imported:
    """Read a crontab. CRON_TZ and TZ set the zone of the lines below them, as crontab(5) says."""
    found = Imported()
    time_zone = options.time_zone
    environment: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"line {number}"
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment:
            name, value = assignment[1], assignment[2].strip("\"'")
            if name in ("CRON_TZ", "TZ"):
                time_zone = value
            else:
                environment[name] = value
            continue
        document = _entry(stripped, where, time_zone, environment, options, found)
        if document is not None:
            found.add(document)
    return found


def _entry(
    line: str, where: str, time_zone: str, environment: dict[str, str], options: ImportOptions, found: Imported
) -> Document | None:
    n_fields = 1 if line.startswith("@") else 5
    parts = line.split(None, n_fields + (1 if options.has_user_column else 0))
    if len(parts) <= n_fields + (1 if options.has_user_column else 0):
        found.note(where, f"left out: no command after the time fields: {line[:80]!r}")
        return None
    expression = " ".join(parts[:n_fields])
    if n_fields == 1 and expression.lower() not in _MACROS:
        found.note(where, f"left out: {expression} has no instant (only {', '.join(sorted(_MACROS))} have)")
        return None
    command, stdin = _split_percent(parts[-1])
    payload: Document = {"command": command}
    if stdin is not None:
        payload["stdin"] = stdin
    if options.has_user_column:
        payload["user"] = parts[n_fields]
    if environment:
        payload["environment"] = dict(environment)
    return {
        "name": slug(command),
        "timing": {"cron": expression, "time_zone": time_zone, "dst": "cronie", "dialect": "unix5"},
        "misfire": {"policy": "skip"},
        "target": target(options, handler="run_command"),
        "payload": payload,
    }


def _split_percent(command: str) -> tuple[str, str | None]:
    """crontab(5): an unescaped % ends the command, what follows is its standard input, further ones are new lines."""
    parts = re.split(r"(?<!\\)%", command)
    lines = [part.replace("\\%", "%") for part in parts]
    return lines[0].rstrip(), "\n".join(lines[1:]) if len(lines) > 1 else None
