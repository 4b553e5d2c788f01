"""The result of an import, and what all importers share: names, targets, notes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Document = dict[str, object]


class ImportRefused(ValueError):
    """The file as a whole cannot be read as what it was said to be; the text says where and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the imported schedules call: one URL for all, or a handler (default: named after the source's own)."""

    url: str | None = None
    handler: str | None = None
    time_zone: str = "UTC"
    has_user_column: bool = False


@dataclass(slots=True)
class Imported:
    """Schedule documents in file order, and notes for the person who imports."""

    documents: list[Document] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def add(self, document: Document) -> None:
        """Take one document; a name that was used before gets a number, with a note."""
        name = str(document["name"])
        unique, n = name, 1
        while unique in self._names:
            n += 1
            unique = f"{name}-{n}"
        if unique != name:
            self.note(name, f"the name is used twice; this one becomes {unique!r}")
        self._names.add(unique)
        self.documents.append({**document, "name": unique})

    def note(self, where: str, text: str) -> None:
        """Remember that something at `where` was changed or left out."""
        self.notes.append(f"{where}: {text}")


def slug(text: str, *, limit: int = 60) -> str:
    """A schedule name made of a free text: lower case, words joined by hyphens."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:limit].rstrip("-") or "schedule"


def target(options: ImportOptions, *, handler: str, queue: str = "default") -> Document:
    """The target of one imported schedule: the URL or handler asked for, else the source's own name as a handler."""
    if options.url is not None:
        return {"http": {"url": options.url, "method": "POST"}}
    return {"handler": {"name": options.handler or handler, "queue": queue}}


def text_of(mapping: Mapping[object, object], *names: str) -> str | None:
    """The first of the named members as text, whether the source writes `name`, `:name` or neither."""
    for name in names:
        for key in (name, f":{name}"):
            value = mapping.get(key)
            if value is not None:
                return str(value)
    return None
