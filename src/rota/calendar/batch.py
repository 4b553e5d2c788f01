"""Previews in bulk: NDJSON in, NDJSON out, one answer a line, in order; no line can stop the others."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import orjson

from rota.calendar.errors import TimingError
from rota.calendar.instants import read_instant, write_instant
from rota.calendar.timing import Timing

_TIMING: Final = ("cron", "every", "at", "time_zone", "dst", "dialect", "anchor")
_MEMBERS: Final = {*_TIMING, "after", "count", "hash_key"}
MAX_COUNT: Final = 100_000


def run_batch(lines: Iterable[str]) -> Iterator[str]:
    """Answer each line `{cron | every | at, time_zone, after, count, dst, dialect, anchor, hash_key}` with
    `{"fires": [...]}`, fewer than `count` if it ends, or `{"error": "..."}`. Blank lines are passed over."""
    for line in lines:
        if line.strip():
            yield orjson.dumps(_answer(line)).decode()


def _answer(line: str) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
        if not isinstance(request, dict):
            return {"error": "expected a JSON object"}
        return {"fires": _fires(request)}
    except orjson.JSONDecodeError as error:
        return {"error": f"not JSON: {error}"}
    except TimingError as error:
        return {"error": f"{error.field}: {error}" + (f" ({error.hint})" if error.hint else "")}


def _fires(request: dict[str, Any]) -> list[str]:
    unknown = sorted(set(request) - _MEMBERS)
    if unknown:
        raise TimingError("unknown member", field=unknown[0][:60], code="unknown_field")
    count = request.get("count", 10)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_COUNT:
        raise TimingError(f"must be a number from 0 to {MAX_COUNT}", field="count", code="bad_count")
    after = read_instant(request.get("after"), field="after")
    hash_key = request.get("hash_key") or ""
    if not isinstance(hash_key, str):
        raise TimingError("expected a text", field="hash_key", code="bad_hash_key")
    timing = {name: request[name] for name in _TIMING if request.get(name) is not None}
    if "every" in timing and isinstance(timing["every"], str) and "at" not in timing:
        timing.pop("dst", None)
    found = _timing(orjson.dumps(timing, option=orjson.OPT_SORT_KEYS), hash_key)
    fires: list[str] = []
    at = after
    while len(fires) < count:
        following = found.next_after(at)
        if following is None:
            break
        fires.append(write_instant(following))
        at = following
    return fires


@lru_cache(maxsize=8192)
def _timing(text: bytes, hash_key: str) -> Timing:
    return Timing.parse(orjson.loads(text), hash_key=hash_key)
