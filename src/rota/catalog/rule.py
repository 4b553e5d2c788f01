"""What schedules share with each other: when, where and what if. All of a definition but its name, labels and payload.

Schedules by the thousand differ in name and payload alone. So a rule is read once for all that have the same text, and
the objects behind it are the same: whoever handles many definitions looks at each distinct rule once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import orjson

from rota.base.model import Policy
from rota.calendar import Timing, TimingError
from rota.catalog.fields import MASK, Fields, format_instant, has_nul, unsafe_member
from rota.catalog.limits import Limit, read_limit
from rota.catalog.policy import DEFAULT_POLICY, POLICY_MEMBERS, policy_members, read_policy
from rota.catalog.target import TargetSpec, read_target

RULE_MEMBERS = frozenset(
    {"group", "timing", "starts_at", "ends_at", "max_runs", "calendar", *POLICY_MEMBERS, "limit", "target"}
)
_MOST_RUNS = 1_000_000
# With a calendar, runs are counted by walking them.
_MOST_RUNS_WITH_CALENDAR = 10_000
_MOST_CACHED_BYTES = 8192
_MASK_BYTES = MASK.encode()
_HASHED = re.compile(r"(?<![A-Za-z])H(?![A-Za-z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When, where and what if. Instants are aware UTC.

    timing_document is the timing as written, with what a hash decided at first (anchor, hash_key) filled in, so that
    reading it again gives the same timing whatever the schedule is called by then. text is the canonical JSON of all
    members that are not at their default, less the target; target_text is that of the target.
    """

    group: str = ""
    timing: Timing
    timing_document: Mapping[str, object]
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    max_runs: int | None = None
    calendar: str | None = None
    policy: Policy
    limit: Limit | None = None
    target: TargetSpec
    text: str = field(compare=False, repr=False)
    target_text: str = field(compare=False, repr=False)


def read_rule(fields: Fields, document: Mapping[str, object], hash_key: str, stored: TargetSpec | None) -> Rule | None:
    """The rule in a definition's document; None if faults were added to fields.

    A mask in the target stands for the secret of the stored target.
    """
    given = {name: value for name, value in document.items() if name in RULE_MEMBERS and value is not None}
    try:
        text = orjson.dumps(given)
    except (TypeError, RecursionError):
        for name, value in given.items():
            if found := unsafe_member(value, name, 20):
                fields.add(*found)
        if not fields.errors:
            fields.add("", "holds what JSON does not have")
        return None
    key = hash_key if _is_hashed(given.get("timing")) else ""
    if len(text) <= _MOST_CACHED_BYTES and _MASK_BYTES not in text and (known := _known_rule(text, key)):
        return known
    return _read(fields, orjson.loads(text), key, stored)


@lru_cache(maxsize=4096)
def _known_rule(text: bytes, hash_key: str) -> Rule | None:
    return _read(Fields(), orjson.loads(text), hash_key, None)


def _read(fields: Fields, given: Mapping[str, object], hash_key: str, stored: TargetSpec | None) -> Rule | None:
    before = len(fields.errors)
    timing = _read_timing(fields, given.get("timing"), hash_key)
    policy = read_policy(fields, given)
    target = read_target(fields, given.get("target"), stored)
    group = fields.text("group", given.get("group", ""), 255, least=0)
    calendar, limit, most = given.get("calendar"), given.get("limit"), given.get("max_runs")
    name = None if calendar is None else fields.text("calendar", calendar, 100)
    n_most = None if most is None else fields.whole("max_runs", most, 1, _MOST_RUNS)
    found_limit = None if limit is None else read_limit(fields, limit)
    starts_at = None if "starts_at" not in given else fields.instant("starts_at", given["starts_at"])
    ends_at = None if "ends_at" not in given else fields.instant("ends_at", given["ends_at"])
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        fields.add("ends_at", "must not be before starts_at", given["ends_at"])
    if name is not None and n_most is not None and n_most > _MOST_RUNS_WITH_CALENDAR:
        fields.add("max_runs", f"must be at most {_MOST_RUNS_WITH_CALENDAR} with a calendar", n_most)
    if timing is not None and timing[0].kind == "at":
        _refuse_for_once(fields, name, n_most)
    if len(fields.errors) > before or timing is None or policy is None or target is None or group is None:
        return None
    members: dict[str, object] = {"group": group} if group else {}
    members["timing"] = timing[1]
    more = {
        "starts_at": None if starts_at is None else format_instant(starts_at),
        "ends_at": None if ends_at is None else format_instant(ends_at),
        "max_runs": n_most,
        "calendar": name,
        "limit": None if found_limit is None else found_limit.document(),
    }
    members |= {member: value for member, value in more.items() if value is not None}
    if policy != DEFAULT_POLICY:
        usual = policy_members(DEFAULT_POLICY)
        members |= {member: value for member, value in policy_members(policy).items() if value != usual[member]}
    return Rule(
        group=group,
        timing=timing[0],
        timing_document=timing[1],
        starts_at=starts_at,
        ends_at=ends_at,
        max_runs=n_most,
        calendar=name,
        policy=policy,
        limit=found_limit,
        target=target,
        text=orjson.dumps(members).decode(),
        target_text=orjson.dumps(target.document()).decode(),
    )


def _refuse_for_once(fields: Fields, calendar: str | None, n_most: int | None) -> None:
    if calendar is not None:
        fields.add("calendar", "is of no use with timing.at", hint="choose another day in timing.at")
    if n_most not in {None, 1}:
        fields.add("max_runs", "must be 1 or null with timing.at", n_most)


def _read_timing(fields: Fields, value: object, hash_key: str) -> tuple[Timing, Mapping[str, object]] | None:
    if not isinstance(value, Mapping):
        hint = 'for example {"cron": "0 9 * * *", "time_zone": "Europe/Paris"}'
        fields.add("timing", "must be an object", value, hint=hint)
        return None
    given = {name: member for name, member in value.items() if name != "hash_key"}
    chosen = value.get("hash_key")
    if chosen is not None:
        fields.text("timing.hash_key", chosen, 512)
    text = orjson.dumps(given)
    if has_nul(text):
        fields.add("timing", "must not hold NUL (U+0000)")
        return None
    key = (chosen if isinstance(chosen, str) else hash_key) if _is_hashed(given) else ""
    try:
        return _known_timing(text, key)
    except TimingError as reason:
        member = given.get(reason.field.partition(".")[2])
        fields.add(reason.field or "timing", str(reason), member, hint=reason.hint)
    return None


def _is_hashed(timing: object) -> bool:
    if not isinstance(timing, Mapping):
        return False
    cron, every = timing.get("cron"), timing.get("every")
    if isinstance(cron, str):
        return timing.get("dialect") == "jenkinsH" or ("H" in cron and _HASHED.search(cron) is not None)
    return isinstance(every, str | int | float) and timing.get("anchor") is None


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
