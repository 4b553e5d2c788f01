"""A schedule as its owner wrote it: read from JSON with all faults at once, written back in one canonical form.

The form is the one the documentation of the API shows. Members that are left out or null have their defaults; members
that are not known are refused. Nothing here reads a clock or the database.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import orjson

from rota.base.errors import ValidationFailed
from rota.base.model import LaneKey, Policy, TenantId, format_tenant_id
from rota.calendar import Timing
from rota.catalog.fields import Fields, has_nul, unsafe_member
from rota.catalog.limits import Limit
from rota.catalog.policy import DEFAULT_POLICY, policy_members
from rota.catalog.rule import RULE_MEMBERS, Rule, read_rule
from rota.catalog.target import TargetSpec, mask_target

MAX_PAYLOAD_BYTES = 262_144
_MOST_LABELS = 64
_DEEPEST_PAYLOAD = 100
_MEMBERS = RULE_MEMBERS | {"name", "description", "labels", "payload"}
# What a read answers beside the definition; sent back by a client that edits what it read, it changes nothing.
_READ_ONLY = frozenset({
    "id", "version", "state", "created_at", "updated_at", "next_fires", "paused_until", "pause_reason", "set_aside",
    "tenant_id", "shard", "timing_description",
})  # fmt: skip
_KNOWN = _MEMBERS | _READ_ONLY
_LABEL_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?", re.ASCII)
_TIMING_KINDS = ("cron", "every", "at")
_TARGET_KINDS = ("http", "handler", "nats")
# All members in the order they are shown, with their defaults. The defaults are part of the stored form: a release that
# changes one has to write the old value into the definitions that left it out.
_DEFAULTS = orjson.dumps({
    "name": "", "group": "", "labels": {}, "timing": None, "starts_at": None, "ends_at": None, "max_runs": None,
    "calendar": None, **policy_members(DEFAULT_POLICY), "limit": None,
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One schedule: its rule, and what is its own. The payload is JSON text. Shown without what may be secret."""

    name: str
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    payload: str = field(default="null", repr=False)
    rule: Rule

    @classmethod
    def parse(
        cls,
        document: Mapping[str, object],
        *,
        hash_key: str = "",
        stored: "Definition | None" = None,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> "Definition":
        """Read a definition; raise ValidationFailed with every fault and its path.

        hash_key is what H and the default anchor are derived from (see default_hash_key); without one, the name. A
        secret that was read as a mask and comes back as one is taken from the stored definition.
        """
        fields = Fields()
        if not document.keys() <= _KNOWN:
            unknown = {name: value for name, value in document.items() if name not in _READ_ONLY}
            fields.members("", unknown, _MEMBERS)
        name = fields.text("name", document.get("name"), 255)
        said = document.get("description")
        description = "" if said is None else fields.text("description", said, 2000, least=0)
        labels = _read_labels(fields, document.get("labels"))
        payload = _read_payload(fields, document.get("payload"), max_payload_bytes)
        rule = read_rule(fields, document, hash_key or name or "", None if stored is None else stored.target)
        if fields.errors or name is None or description is None or rule is None:
            raise ValidationFailed(fields.errors)
        return cls(name=name, description=description, labels=labels, payload=payload, rule=rule)

    @property
    def group(self) -> str:
        """The group it belongs to, or nothing."""
        return self.rule.group

    @property
    def timing(self) -> Timing:
        """When it fires, before the days of its calendar are left out."""
        return self.rule.timing

    @property
    def starts_at(self) -> datetime | None:
        """The first instant it may fire at."""
        return self.rule.starts_at

    @property
    def ends_at(self) -> datetime | None:
        """The last instant it may fire at."""
        return self.rule.ends_at

    @property
    def max_runs(self) -> int | None:
        """How often it fires at most."""
        return self.rule.max_runs

    @property
    def calendar(self) -> str | None:
        """The name of the day list that is left out."""
        return self.rule.calendar

    @property
    def policy(self) -> Policy:
        """What if: window, misfire, overlap, priority, retry."""
        return self.rule.policy

    @property
    def target(self) -> TargetSpec:
        """What its occurrences do."""
        return self.rule.target

    @property
    def limit(self) -> Limit | None:
        """The limit it shares with others."""
        return self.rule.limit

    @property
    def is_once(self) -> bool:
        """Whether it is a one-shot, which has an instant of its own and no cadence."""
        return self.rule.timing.kind == "at"

    def stored_text(self) -> str:
        """The canonical JSON that the version history keeps: members that are not at their default, less the target."""
        own: dict[str, object] = {"name": self.name}
        if self.description:
            own["description"] = self.description
        if self.labels:
            own["labels"] = self.labels
        return f"{orjson.dumps(own).decode()[:-1]},{self.rule.text[1:]}"

    def document(self, *, masked: bool = True) -> dict[str, object]:
        """The whole canonical JSON. Masked unless it goes into a patch: see rota.catalog.secrets."""
        return shown_document(self.stored_text(), self.rule.target_text, self.payload, masked=masked)

    def lane_key(self, tenant_id: TenantId) -> LaneKey:
        """The lane its occurrences wait in when they are on time."""
        rule = self.rule
        return LaneKey(
            tenant_id=tenant_id,
            queue=rule.target.queue,
            priority=rule.policy.priority,
            target_key=rule.target.target_key,
            limit_key="" if rule.limit is None else rule.limit.key,
            overlap=rule.policy.overlap,
        )

    def has_timing_of(self, other: "Definition") -> bool:
        """Whether the two fire at the same instants and end the same way."""
        return _fires(self.rule) == _fires(other.rule)

    def patched(
        self, patch: Mapping[str, object], *, hash_key: str = "", max_payload_bytes: int = MAX_PAYLOAD_BYTES
    ) -> "Definition":
        """This definition with a merge patch (RFC 7396) applied; raise ValidationFailed as parse does.

        null takes a member back to its default. A payload is replaced as a whole; so is a timing or target of another
        kind than the one it replaces.
        """
        merged = merge_definition(self.document(masked=False), patch)
        return Definition.parse(merged, hash_key=hash_key, stored=self, max_payload_bytes=max_payload_bytes)


def default_hash_key(tenant_id: TenantId, name: str) -> str:
    """What H and the default anchor of a schedule are derived from when it is first written: its tenant and name."""
    return f"{format_tenant_id(tenant_id)}/{name}"


def shown_document(rule: str, target: str, payload: str | None, *, masked: bool = True) -> dict[str, object]:
    """All members of a stored definition, defaults filled in and secrets masked, whether or not they are understood."""
    document: dict[str, object] = orjson.loads(_DEFAULTS) | orjson.loads(rule)
    written = orjson.loads(target)
    document["target"] = mask_target(written) if masked else written
    document["payload"] = None if payload is None else orjson.loads(payload)
    return document


def merge_definition(document: Mapping[str, object], patch: Mapping[str, object]) -> dict[str, object]:
    """The document with the patch applied, as Definition.patched describes."""
    merged = dict(document)
    for name, value in patch.items():
        if value is None and name != "payload":
            merged.pop(name, None)
        elif name == "payload" or not isinstance(value, Mapping):
            merged[name] = value
        elif name == "timing":
            merged[name] = _merge_kind(merged.get(name), value, _TIMING_KINDS)
        elif name == "target":
            merged[name] = _merge_kind(merged.get(name), value, _TARGET_KINDS)
        else:
            merged[name] = _merge(merged.get(name), value)
    return merged


def _merge(old: object, patch: Mapping[str, object]) -> dict[str, object]:
    merged = dict(old) if isinstance(old, Mapping) else {}
    for name, value in patch.items():
        # A lateness of null is a value of its own: never too late.
        if value is None and name != "max_lateness":
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), value) if isinstance(value, Mapping) else value
    return merged


def _merge_kind(old: object, patch: Mapping[str, object], kinds: tuple[str, ...]) -> dict[str, object]:
    changes_kind = isinstance(old, Mapping) and any(kind in patch and kind not in old for kind in kinds)
    return _merge({} if changes_kind else old, patch)


def _fires(rule: Rule) -> tuple[object, ...]:
    return rule.timing.key(), rule.starts_at, rule.ends_at, rule.max_runs, rule.calendar


def _read_labels(fields: Fields, value: object) -> dict[str, str]:
    labels: dict[str, str] = {}
    if value is None:
        return labels
    if not isinstance(value, Mapping) or len(value) > _MOST_LABELS:
        fields.add("labels", f"must be an object of at most {_MOST_LABELS} texts")
        return labels
    for key, label in value.items():
        if not isinstance(key, str) or len(key) > 63 or not _LABEL_KEY.fullmatch(key):
            fields.add("labels", "has a key that is not 1 to 63 letters, digits and _ . / - between them", key)
        elif (text := fields.text(f"labels.{key}", label, 255, least=0)) is not None:
            labels[key] = text
    return labels


def _read_payload(fields: Fields, value: object, most: int) -> str:
    if value is None:
        return "null"
    try:
        text = orjson.dumps(value)
    except (TypeError, RecursionError):
        text = b""
    if len(text) > most:
        fields.add(
            "payload", f"has {len(text)} bytes of JSON, of at most {most}", hint="send a reference to it instead"
        )
        return "null"
    # A number that is not finite is written as null, and so shows as one that was not there before.
    if not text or b"null" in text or has_nul(text) or text.count(b"[") + text.count(b"{") > _DEEPEST_PAYLOAD:
        if found := unsafe_member(value, "payload", _DEEPEST_PAYLOAD):
            fields.add(*found)
        elif not text:
            fields.add("payload", "holds what JSON does not have")
    return text.decode()
