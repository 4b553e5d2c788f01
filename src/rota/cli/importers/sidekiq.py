"""sidekiq-cron and sidekiq-scheduler YAML: a mapping of name to {cron | every | at, class, args, queue}."""

import re
from collections.abc import Mapping

import yaml

from rota.cli.importers.imported import Document, Imported, ImportOptions, ImportRefused, target, text_of


def read(text: str, options: ImportOptions) -> Imported:
    """Read the schedule mapping, whether it stands alone or under `:schedule:` / `:scheduler:`."""
    if "<%" in text:
        raise ImportRefused("the file holds ERB (<% ... %>); render it first, for example with `erb FILE`")
    try:
        root = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ImportRefused(f"not YAML: {error}") from error
    found = Imported()
    for name, entry in _entries(root).items():
        if not isinstance(entry, dict):
            found.note(str(name), "left out: not a mapping")
            continue
        document = _entry(str(name), entry, options, found)
        if document is not None:
            found.add(document)
    return found


def _entries(root: object) -> Mapping[object, object]:
    if not isinstance(root, dict):
        raise ImportRefused("expected a mapping of schedule names at the top of the file")
    found: Mapping[object, object] = root
    for key in (":scheduler", "scheduler", ":schedule", "schedule"):
        inner = found.get(key)
        if isinstance(inner, dict):
            found = inner
    return found


def _entry(name: str, entry: Mapping[object, object], options: ImportOptions, found: Imported) -> Document | None:
    klass = text_of(entry, "class", "klass") or name
    timing = _timing(name, entry, options, found)
    if timing is None:
        return None
    document: Document = {
        "name": name,
        "timing": timing,
        "target": target(options, handler=klass, queue=text_of(entry, "queue") or "default"),
    }
    arguments = entry.get("args", entry.get(":args"))
    if arguments is not None:
        document["payload"] = {"args": arguments if isinstance(arguments, list) else [arguments]}
    if text_of(entry, "status") == "disabled" or text_of(entry, "enabled") == "False":
        document["state"] = "paused"
        found.note(name, "it is disabled; it will be created paused")
    if text_of(entry, "description"):
        found.note(name, f"description not carried over: {text_of(entry, 'description')!r}")
    return document


def _timing(name: str, entry: Mapping[object, object], options: ImportOptions, found: Imported) -> Document | None:
    cron = text_of(entry, "cron")
    if cron is not None:
        return _cron(cron, options)
    every = entry.get("every", entry.get(":every", entry.get("interval")))
    if every is not None:
        if isinstance(every, list):
            if len(every) > 1:
                found.note(name, f"options of `every` not carried over: {every[1:]!r}")
            every = every[0]
        return {"every": str(every)}
    at = text_of(entry, "at")
    if at is not None:
        return {"at": at.replace("/", "-").replace(" ", "T", 1), "time_zone": options.time_zone}
    found.note(name, "left out: it has neither cron, every nor at")
    return None


def _cron(expression: str, options: ImportOptions) -> Document:
    """The last word of the expression may be a zone; six time fields mean that seconds come first."""
    words = expression.split()
    time_zone = options.time_zone
    if len(words) > 1 and re.fullmatch(r"[A-Za-z_]+/[A-Za-z_/+-]+|UTC|GMT|Z", words[-1]):
        time_zone = "UTC" if words[-1] == "Z" else words[-1]
        words = words[:-1]
    dialect = "seconds6" if len(words) == 6 else "unix5"
    return {"cron": " ".join(words), "time_zone": time_zone, "dialect": dialect}
