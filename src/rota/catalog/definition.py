"""A schedule as its owner wrote it: read from JSON with all faults at once, written back in one canonical form.

The form is the one the documentation of the API shows. Members that are left out or null have their defaults; members
that are not known are refused. Nothing here reads a clock or the database.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import orjson

from rota.base.errors import ValidationFailed
from rota.base.model import LaneKey, Policy, TenantId, format_tenant_id
from rota.calendar import Timing, TimingError
from rota.catalog.fields import MASK, Fields, canonical_json, format_instant, has_nul, unsafe_member
from rota.catalog.limits import Limit, read_limit
from rota.catalog.policy import POLICY_MEMBERS, policy_members, read_policy
from rota.catalog.target import TargetSpec, mask_target, parse_target, read_target

MAX_PAYLOAD_BYTES = 262_144
_MOST_LABELS = 64
_MOST_RUNS = 1_000_000_000
_DEEPEST_PAYLOAD = 100
_MEMBERS = frozenset({
    "name", "group", "description", "labels", "timing", "starts_at", "ends_at", "max_runs", "calendar", *POLICY_MEMBERS,
    "target", "payload", "limit",
})  # fmt: skip
# What a read answers beside the definition; sent back by a client that edits what it read, it changes nothing.
_READ_ONLY = frozenset({
    "id", "version", "state", "created_at", "updated_at", "next_fires", "paused_until", "pause_reason", "set_aside",
    "tenant_id", "shard", "description_of_timing",
})  # fmt: skip
_LABEL_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?", re.ASCII)
_HASHED = re.compile(rb'(?<![A-Za-z])H(?![A-Za-z])|"every"')
_TIMING_KINDS = ("cron", "every", "at")
_TARGET_KINDS = ("http", "handler", "nats")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One schedule's rule, policies, target and payload. Instants are aware UTC; the payload is JSON text.

    timing_document is the timing as written, with what a hash decided at first (anchor, hash_key) filled in, so that
    reading it again gives the same timing whatever the schedule is called by then.
    """

    name: str
    group: str = ""
    description: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    timing: Timing
    timing_document: Mapping[str, object]
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    calendar: str | None = None
    policy: Policy
    target: TargetSpec
    payload: str = "null"
    limit: Limit | None = None

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

        hash_key is what H and the default anchor are derived from (see default_hash_key). A secret that was read as a
        mask and comes back as one is taken from the stored definition.
        """
        fields = Fields()
        if document.keys() - _MEMBERS - _READ_ONLY:
            fields.members("", document, _MEMBERS)
        name = fields.text("name", document.get("name"), 255)
        read = _read_rule(fields, document, hash_key)
        policy = read_policy(fields, document)
        target = _read_target(fields, document.get("target"), stored)
        values: dict[str, object] = {"labels": _read_labels(fields, document.get("labels"))}
        values["payload"] = _read_payload(fields, document.get("payload"), max_payload_bytes)
        _read_optional(fields, document, values)
        if read is not None and read[0].kind == "at":
            _refuse_for_once(fields, values)
        fields.raise_if_any()
        if name is None or read is None or policy is None or target is None:
            raise ValidationFailed(tuple(fields.errors))
        timing, timing_document = read
        return cls(name=name, timing=timing, timing_document=timing_document, policy=policy, target=target, **values)  # type: ignore[arg-type]

    @property
    def is_once(self) -> bool:
        """Whether it is a one-shot, which has an instant of its own and no cadence."""
        return self.timing.kind == "at"

    def rule_document(self) -> dict[str, object]:
        """The canonical JSON without target and payload, as the version history keeps it."""
        document: dict[str, object] = {"name": self.name, "group": self.group, "labels": self.labels}
        if self.description:
            document["description"] = self.description
        document["timing"] = self.timing_document
        document["starts_at"] = None if self.starts_at is None else format_instant(self.starts_at)
        document["ends_at"] = None if self.ends_at is None else format_instant(self.ends_at)
        document["max_runs"] = self.max_runs
        document["calendar"] = self.calendar
        document |= policy_members(self.policy)
        document["limit"] = None if self.limit is None else self.limit.document()
        return document

    def document(self, *, masked: bool = True) -> dict[str, object]:
        """The canonical JSON. Masked unless it goes to the store or into a patch: see rota.catalog.secrets."""
        document = self.rule_document()
        target = self.target.document()
        document["target"] = mask_target(target) if masked else target
        document["payload"] = orjson.loads(self.payload)
        return document

    def lane_key(self, tenant_id: TenantId) -> LaneKey:
        """The lane its occurrences wait in when they are on time."""
        return LaneKey(
            tenant_id=tenant_id,
            queue=self.target.queue,
            priority=self.policy.priority,
            target_key=self.target.target_key,
            limit_key="" if self.limit is None else self.limit.key,
            overlap=self.policy.overlap,
        )

    def has_timing_of(self, other: "Definition") -> bool:
        """Whether the two fire at the same instants and end the same way."""
        mine = (self.timing.key(), self.starts_at, self.ends_at, self.max_runs, self.calendar)
        return mine == (other.timing.key(), other.starts_at, other.ends_at, other.max_runs, other.calendar)

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


def _read_rule(
    fields: Fields, document: Mapping[str, object], hash_key: str
) -> tuple[Timing, Mapping[str, object]] | None:
    value = document.get("timing")
    if not isinstance(value, Mapping):
        fields.add(
            "timing", "must be an object", value, hint='for example {"cron": "0 9 * * *", "time_zone": "Europe/Paris"}'
        )
        return None
    given = {name: member for name, member in value.items() if name != "hash_key"}
    chosen = value.get("hash_key")
    if chosen is not None:
        fields.text("timing.hash_key", chosen, 512)
    try:
        text = canonical_json(given)
    except TypeError:
        fields.add("timing", "holds what JSON does not have")
        return None
    if has_nul(text):
        fields.add("timing", "must not hold NUL (U+0000)")
        return None
    is_hashed = _HASHED.search(text) is not None
    key = (chosen if isinstance(chosen, str) else hash_key) if is_hashed else ""
    try:
        return _known_timing(text, key)
    except TimingError as reason:
        fields.add(reason.field or "timing", str(reason), given.get(reason.field.partition(".")[2]), hint=reason.hint)
    return None


@lru_cache(maxsize=65_536)
def _known_timing(text: bytes, hash_key: str) -> tuple[Timing, Mapping[str, object]]:
    # Schedules by the million share a few thousand timings: each is read once.
    given = orjson.loads(text)
    timing = Timing.parse(given, hash_key=hash_key)
    if timing.kind == "every" and given.get("anchor") is None:
        given["anchor"] = timing.to_json()["anchor"]
    elif hash_key and timing.kind == "cron":
        given["hash_key"] = hash_key
    return timing, given


def _read_target(fields: Fields, value: object, stored: Definition | None) -> TargetSpec | None:
    try:
        text = canonical_json(value)
    except TypeError:
        fields.add("target", "holds what JSON does not have")
        return None
    if MASK.encode() not in text and (known := _known_target(text)):
        return known
    return read_target(fields, value, None if stored is None else stored.target)


@lru_cache(maxsize=4096)
def _known_target(text: bytes) -> TargetSpec | None:
    try:
        return parse_target(orjson.loads(text))
    except ValidationFailed:
        return None


def _read_labels(fields: Fields, value: object) -> dict[str, str]:
    labels: dict[str, str] = {}
    if not value and (value is None or isinstance(value, Mapping)):
        return labels
    if not isinstance(value, Mapping) or len(value) > _MOST_LABELS:
        fields.add("labels", f"must be an object of at most {_MOST_LABELS} texts")
        return labels
    for key, label in value.items():
        path = f"labels.{key}"
        if not isinstance(key, str) or len(key) > 63 or not _LABEL_KEY.fullmatch(key):
            fields.add("labels", "has a key that is not 1 to 63 letters, digits and _ . / - between them", key)
        elif (text := fields.text(path, label, 255, least=0)) is not None:
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
            return "null"
        if not text:
            fields.add("payload", "holds a number or text that JSON cannot carry")
    return text.decode()


def _read_optional(fields: Fields, document: Mapping[str, object], values: dict[str, object]) -> None:
    if (group := document.get("group")) is not None and (text := fields.text("group", group, 255, least=0)):
        values["group"] = text
    if (said := document.get("description")) is not None and (text := fields.text("description", said, 2000, least=0)):
        values["description"] = text
    if (start := document.get("starts_at")) is not None:
        values["starts_at"] = fields.instant("starts_at", start)
    if (end := document.get("ends_at")) is not None:
        values["ends_at"] = fields.instant("ends_at", end)
    if (most := document.get("max_runs")) is not None:
        values["max_runs"] = fields.whole("max_runs", most, 1, _MOST_RUNS)
    if (calendar := document.get("calendar")) is not None:
        values["calendar"] = fields.text("calendar", calendar, 100)
    if (limit := document.get("limit")) is not None:
        values["limit"] = read_limit(fields, limit)
    starts_at, ends_at = values.get("starts_at"), values.get("ends_at")
    if isinstance(starts_at, datetime) and isinstance(ends_at, datetime) and ends_at < starts_at:
        fields.add("ends_at", "must not be before starts_at", document.get("ends_at"))


def _refuse_for_once(fields: Fields, values: Mapping[str, object]) -> None:
    if values.get("calendar") is not None:
        fields.add("calendar", "is of no use with timing.at", hint="choose another day in timing.at")
    if values.get("max_runs") not in {None, 1}:
        fields.add("max_runs", "must be 1 or null with timing.at", values["max_runs"])
