"""The what-if members of a definition (window, misfire, overlap, priority, retry), read with all faults at once."""

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache

import orjson

from rota.base.model import Misfire, MisfirePolicy, Overlap, Policy, Priority, RetryPolicy
from rota.calendar import format_duration
from rota.catalog.fields import Fields, canonical_json

POLICY_MEMBERS = ("window", "misfire", "overlap", "priority", "retry")
DEFAULT_POLICY = Policy()
_NOTHING = timedelta(0)
_LONGEST_WINDOW = timedelta(days=1)
_LONGEST_WAIT = timedelta(days=366)
_PRIORITIES = {"high": Priority.HIGH, "normal": Priority.NORMAL, "low": Priority.LOW}


def read_policy(fields: Fields, document: Mapping[str, object]) -> Policy | None:
    """The policy of a definition; what is left out or null has its default. None if faults were added to fields."""
    given = {name: document[name] for name in POLICY_MEMBERS if document.get(name) is not None}
    if not given:
        return DEFAULT_POLICY
    try:
        known = _known_policy(canonical_json(given))
    except TypeError:
        known = None
    return known or _read(fields, given)


@lru_cache(maxsize=4096)
def _known_policy(text: bytes) -> Policy | None:
    # Schedules by the thousand have a handful of policies: each is read once.
    return _read(Fields(), orjson.loads(text))


def _read(fields: Fields, given: Mapping[str, object]) -> Policy | None:
    before = len(fields.errors)
    window = fields.duration("window", given.get("window", 0), _NOTHING, _LONGEST_WINDOW)
    misfire = _read_misfire(fields, given.get("misfire", {}))
    overlap = fields.choice("overlap", given.get("overlap", "allow"), [str(choice) for choice in Overlap])
    priority = fields.choice("priority", given.get("priority", "normal"), list(_PRIORITIES))
    retry = _read_retry(fields, given.get("retry", {}))
    if len(fields.errors) > before or window is None or misfire is None or retry is None:
        return None
    if overlap is None or priority is None:
        return None
    return Policy(window=window, misfire=misfire, overlap=Overlap(overlap), priority=_PRIORITIES[priority], retry=retry)


@lru_cache(maxsize=4096)
def policy_members(policy: Policy) -> Mapping[str, object]:
    """The policy as members of a definition, in the form that read_policy reads. Not to be changed by the reader."""
    misfire, retry = policy.misfire, policy.retry
    lateness = None if misfire.max_lateness is None else format_duration(misfire.max_lateness)
    return {
        "window": format_duration(policy.window),
        "misfire": {
            "policy": str(misfire.policy),
            "max_lateness": lateness,
            "max_catch_up": misfire.max_catch_up,
        },
        "overlap": str(policy.overlap),
        "priority": policy.priority.name.lower(),
        "retry": {
            "max_attempts": retry.max_attempts,
            "base": format_duration(retry.base),
            "cap": format_duration(retry.cap),
            "deadline": None if retry.deadline is None else format_duration(retry.deadline),
        },
    }


def _read_misfire(fields: Fields, value: object) -> MisfirePolicy | None:
    document = fields.members("misfire", value, ("policy", "max_lateness", "max_catch_up"))
    if document is None:
        return None
    usual = DEFAULT_POLICY.misfire
    chosen = document.get("policy")
    kind = fields.choice(
        "misfire.policy", str(usual.policy) if chosen is None else chosen, [str(choice) for choice in Misfire]
    )
    # A lateness that is given as null means never too late; left out means the default.
    lateness = usual.max_lateness
    if "max_lateness" in document:
        given = document["max_lateness"]
        lateness = None if given is None else fields.duration("misfire.max_lateness", given, _NOTHING, _LONGEST_WAIT)
    most = document.get("max_catch_up")
    n_catch_up = usual.max_catch_up if most is None else fields.whole("misfire.max_catch_up", most, 1, 10_000)
    if kind is None or n_catch_up is None:
        return None
    return MisfirePolicy(policy=Misfire(kind), max_lateness=lateness, max_catch_up=n_catch_up)


def _read_retry(fields: Fields, value: object) -> RetryPolicy | None:
    document = fields.members("retry", value, ("max_attempts", "base", "cap", "deadline"))
    if document is None:
        return None
    usual = DEFAULT_POLICY.retry
    most = document.get("max_attempts")
    n_attempts = usual.max_attempts if most is None else fields.whole("retry.max_attempts", most, 1, 1000)
    base = _wait(fields, "retry.base", document.get("base"), usual.base, _NOTHING)
    cap = _wait(fields, "retry.cap", document.get("cap"), usual.cap, _NOTHING)
    deadline = None
    if document.get("deadline") is not None:
        deadline = fields.duration("retry.deadline", document["deadline"], timedelta(seconds=1), _LONGEST_WAIT)
    if n_attempts is None or base is None or cap is None:
        return None
    if cap < base:
        hint = f"give a cap of at least {format_duration(base)}"
        fields.add("retry.cap", "must not be shorter than retry.base", format_duration(cap), hint=hint)
        return None
    return RetryPolicy(max_attempts=n_attempts, base=base, cap=cap, deadline=deadline)


def _wait(fields: Fields, path: str, value: object, usual: timedelta, least: timedelta) -> timedelta | None:
    return usual if value is None else fields.duration(path, value, least, _LONGEST_WAIT)
