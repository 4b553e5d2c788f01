"""Celery beat schedules: the `beat_schedule` mapping of a Python settings file (read, never executed) or as
JSON/YAML."""

import ast
from collections.abc import Mapping

import yaml

from rota.cli.importers.imported import Document, Imported, ImportOptions, ImportRefused, slug, target

_NAMES = {"beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE"}
_CRONTAB_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1, "weeks": 604_800}


def read(text: str, options: ImportOptions) -> Imported:
    """Read every entry of the mapping; calls other than crontab(), schedule() and timedelta() are noted, not run."""
    found = Imported()
    for name, entry in _entries(text).items():
        document = _entry(str(name), entry, options, found) if isinstance(entry, dict) else None
        if document is None:
            found.note(str(name), "left out: its schedule is not a number, crontab(), timedelta() or schedule()")
        else:
            found.add(document)
    return found


def _entry(name: str, entry: Mapping[str, object], options: ImportOptions, found: Imported) -> Document | None:
    timing = _timing(entry.get("schedule"), options)
    if timing is None:
        return None
    settings = entry.get("options")
    queue = str(settings.get("queue", "default")) if isinstance(settings, dict) else "default"
    if isinstance(settings, dict) and set(settings) - {"queue"}:
        found.note(name, f"options not carried over: {sorted(set(settings) - {'queue'})}")
    task = str(entry.get("task", name))
    return {
        "name": slug(name),
        "timing": timing,
        "target": target(options, handler=task, queue=queue),
        "payload": {"args": entry.get("args", []), "kwargs": entry.get("kwargs", {})},
    }


def _timing(schedule: object, options: ImportOptions) -> Document | None:
    match schedule:
        case bool():
            return None
        case int() | float():
            return {"every": f"{schedule:g}s"}
        case {"crontab": {**fields}}:
            unknown = set(fields) - set(_CRONTAB_FIELDS)
            if unknown:
                return None
            expression = " ".join(str(fields.get(field, "*")).replace(" ", "") for field in _CRONTAB_FIELDS)
            return {"cron": expression, "time_zone": options.time_zone, "dialect": "unix5"}
        case {"every": int() | float() as seconds}:
            return {"every": f"{seconds:g}s"}
        case str():
            return _timing(_value(ast.parse(schedule, mode="eval").body), options)
        case _:
            return None


def _entries(text: str) -> Mapping[str, object]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        tree = None
    if tree is not None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(_is_schedule(goal) for goal in node.targets):
                value = _value(node.value)
                if isinstance(value, dict):
                    return value
    try:
        root = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ImportRefused(f"neither Python with a beat_schedule nor JSON/YAML: {error}") from error
    if isinstance(root, dict):
        inner = next((root[name] for name in _NAMES if name in root), root)
        if isinstance(inner, dict):
            return inner
    raise ImportRefused("found no mapping named beat_schedule (or CELERY_BEAT_SCHEDULE)")


def _is_schedule(goal: ast.expr) -> bool:
    return (isinstance(goal, ast.Name) and goal.id in _NAMES) or (
        isinstance(goal, ast.Attribute) and goal.attr in _NAMES
    )


def _value(node: ast.expr) -> object:
    """A literal, or a call of one of the three schedule types, as plain data; anything else as None."""
    match node:
        case ast.Dict():
            return {
                _value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None
            }
        case ast.List() | ast.Tuple() | ast.Set():
            return [_value(item) for item in node.elts]
        case ast.Call():
            return _call(node)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            factors = (_value(left), _value(right))
            numbers = [factor for factor in factors if isinstance(factor, (int, float))]
            return numbers[0] * numbers[1] if len(numbers) == 2 else None
        case _:
            try:
                literal: object = ast.literal_eval(node)
            except ValueError:
                return None
            return literal


def _call(node: ast.Call) -> object:
    name = (
        node.func.id
        if isinstance(node.func, ast.Name)
        else node.func.attr
        if isinstance(node.func, ast.Attribute)
        else ""
    )
    keywords = {word.arg: _value(word.value) for word in node.keywords if word.arg is not None}
    positional = [_value(argument) for argument in node.args]
    if name == "crontab":
        return {"crontab": {**dict(zip(_CRONTAB_FIELDS, positional, strict=False)), **keywords}}
    if name == "timedelta":
        if positional:
            keywords = {**dict(zip(("days", "seconds"), positional, strict=False)), **keywords}
        parts = [
            value * _SECONDS[unit]
            for unit, value in keywords.items()
            if unit in _SECONDS and isinstance(value, (int, float))
        ]
        return sum(parts) if len(parts) == len(keywords) else None
    if name == "schedule":
        return keywords.get("run_every", positional[0] if positional else None)
    return None
