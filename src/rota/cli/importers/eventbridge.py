"""Amazon EventBridge Scheduler: the JSON of get-schedule, or a list of such objects."""

import json
from collections.abc import Iterator, Mapping

from rota.cli.importers.imported import Document, Imported, ImportOptions, ImportRefused, target

_UNITS = {"minute": "m", "minutes": "m", "hour": "h", "hours": "h", "day": "d", "days": "d"}


def read(text: str, options: ImportOptions) -> Imported:
    """Read schedules with their window, zone, dates and retry policy (field names as in the service's API
    reference)."""
    try:
        root = json.loads(text)
    except json.JSONDecodeError as error:
        raise ImportRefused(f"not JSON: {error}") from error
    found = Imported()
    for schedule in _schedules(root):
        name = str(schedule.get("Name", "schedule"))
        expression = schedule.get("ScheduleExpression")
        if not isinstance(expression, str):
            found.note(name, "left out: no ScheduleExpression (list-schedules omits it; use get-schedule)")
            continue
        found.add(_document(name, expression, schedule, options, found))
    return found


def _document(
    name: str, expression: str, schedule: Mapping[str, object], options: ImportOptions, found: Imported
) -> Document:
    goal = _mapping(schedule.get("Target"))
    arn = str(goal.get("Arn", ""))
    document: Document = {
        "name": name,
        "timing": _timing(name, expression, schedule, options, found),
        "target": target(options, handler=arn.rpartition(":")[2].rpartition("/")[2] or name),
    }
    if schedule.get("GroupName") not in (None, "default"):
        document["group"] = str(schedule["GroupName"])
    for ours, theirs in (("starts_at", "StartDate"), ("ends_at", "EndDate")):
        if schedule.get(theirs) is not None:
            document[ours] = str(schedule[theirs])
    window = _mapping(schedule.get("FlexibleTimeWindow"))
    if window.get("Mode") == "FLEXIBLE":
        document["window"] = f"{window.get('MaximumWindowInMinutes', 1)}m"
    retry = _mapping(goal.get("RetryPolicy"))
    if "MaximumRetryAttempts" in retry:
        document["retry"] = {"max_attempts": int(str(retry["MaximumRetryAttempts"])) + 1}
    if "MaximumEventAgeInSeconds" in retry:
        document["misfire"] = {"policy": "fire_once", "max_lateness": f"{retry['MaximumEventAgeInSeconds']}s"}
    if goal.get("Input") is not None:
        document["payload"] = _payload(str(goal["Input"]))
    if schedule.get("State") == "DISABLED":
        document["state"] = "paused"
        found.note(name, "it is disabled; it will be created paused")
    if arn:
        found.note(name, f"target {arn} cannot be called by rota itself; set a URL or register the handler")
    return document


def _timing(
    name: str, expression: str, schedule: Mapping[str, object], options: ImportOptions, found: Imported
) -> Document:
    time_zone = str(schedule.get("ScheduleExpressionTimezone") or options.time_zone)
    kind, _, rest = expression.partition("(")
    inner = rest.removesuffix(")")
    if kind == "at":
        return {"at": inner, "time_zone": time_zone}
    if kind == "rate":
        value, _, unit = inner.partition(" ")
        timing: Document = {"every": f"{value}{_UNITS.get(unit, unit)}"}
        anchor = schedule.get("StartDate") or schedule.get("CreationDate")
        if anchor is not None:
            timing["anchor"] = str(anchor)
        else:
            found.note(
                name, "neither StartDate nor CreationDate: the rate is counted from an anchor chosen at creation"
            )
        return timing
    return {"cron": expression, "time_zone": time_zone, "dst": "eventbridge", "dialect": "aws6"}


def _payload(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _schedules(root: object) -> Iterator[Mapping[str, object]]:
    if isinstance(root, list):
        for item in root:
            yield from _schedules(item)
    elif isinstance(root, dict):
        inner = root.get("Schedules")
        if isinstance(inner, list):
            yield from _schedules(inner)
        elif "Name" in root:
            yield root
        else:
            raise ImportRefused("expected the JSON of get-schedule, or a list of such objects")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
