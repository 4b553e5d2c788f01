"""Every shared vector: expression, zone, policy -> the instants that must come out, or a refusal."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rota.calendar import Timing, TimingError, read_instant, run_batch, write_instant
from rota.calendar.dialects import Dialect, compile_cron
from rota.calendar.policy import read_policy
from rota.calendar.walk import Walk
from rota.calendar.zone import get_zone

DATA = Path(__file__).parents[2] / "data"
VECTORS: list[dict[str, Any]] = json.loads((DATA / "cron_vectors.json").read_text())
PLAIN = [v for v in VECTORS if v.get("h", {}).get("hash") in (None, "jenkins") and "props" not in v]
FIXED_HASH = [v for v in VECTORS if str(v.get("h", {}).get("hash")).startswith(("const:", "max"))]
PROMISES = [v for v in VECTORS if "props" in v]


def test_every_vector_belongs_to_one_of_the_tests_below() -> None:
    others = [v for v in VECTORS if v not in PLAIN and v not in FIXED_HASH and v not in PROMISES]
    assert [v["id"] for v in others if v["h"]["hash"] != "any"] == []
    assert len(PLAIN) + len(FIXED_HASH) + len(PROMISES) + len(others) == len(VECTORS)


def request(vector: dict[str, Any]) -> dict[str, Any]:
    asked = {name: vector[name] for name in ("time_zone", "after", "anchor", "hash_key", "dialect") if vector.get(name)}
    if vector.get("h") and "hash_key" not in asked:
        asked["hash_key"] = vector["h"]["seed"]
    if vector["dst_policy"]:
        asked["dst"] = vector["dst_policy"]
    return {"cron": vector["expr"], "count": len(vector.get("expect", ())) or 1, **asked}


@pytest.mark.parametrize("vector", PLAIN, ids=lambda v: v["id"])
def test_the_batch_preview_gives_the_answer_of_the_vector(vector: dict[str, Any]) -> None:
    (line,) = run_batch([json.dumps(request(vector))])
    answer = json.loads(line)
    if vector.get("error"):
        assert "error" in answer
    elif vector.get("or_error") and "error" in answer:
        assert vector["expect"] == []
    else:
        assert answer == {"fires": vector["expect"]}


@pytest.mark.parametrize("vector", FIXED_HASH, ids=lambda v: v["id"])
def test_hashes_are_drawn_in_reading_order(vector: dict[str, Any]) -> None:
    name = vector["h"]["hash"]
    if vector.get("error"):
        with pytest.raises(TimingError):
            compile_cron(vector["expr"], Dialect.JENKINS_H, hash_name=name)
        return
    rule = compile_cron(vector["expr"], Dialect.JENKINS_H, hash_name=name)
    walk = Walk(rule, get_zone(vector["time_zone"]), read_policy(vector["dst_policy"]))
    at, found = int(read_instant(vector["after"].replace("Z", "+00:00"), field="after").timestamp()), []
    for _ in vector["expect"]:
        following = walk.next_fire(at)
        if following is None:
            break
        at = following
        found.append(at)
    assert found == [int(read_instant(text, field="expect").timestamp()) for text in vector["expect"]]


@pytest.mark.parametrize("vector", PROMISES, ids=lambda v: v["id"])
def test_promises_hold_for_our_own_hash(vector: dict[str, Any]) -> None:
    timing = {"cron": vector["expr"], "time_zone": vector["time_zone"], "dialect": "jenkinsH"}
    after = read_instant(vector["after"], field="after")
    props = vector["props"]
    through = after + timedelta(hours=props["window_hours"])
    made = Timing.parse(timing, hash_key=vector["hash_key"])
    fires = list(made.fires(after, through))
    assert fires == list(Timing.parse(timing, hash_key=vector["hash_key"]).fires(after, through))
    assert fires == list(Timing.from_json(made.to_json()).fires(after, through))
    assert len(fires) == props["count"]
    if "gaps_s" in props:
        gaps = {(b - a).total_seconds() for a, b in zip(fires, fires[1:], strict=False)}
        assert gaps <= set(props["gaps_s"])
    for name, value in (("minute", "minute"), ("hour", "hour"), ("day", "day"), ("month", "month")):
        if name in props:
            low, high = props[name]
            assert all(low <= getattr(fire, value) <= high for fire in fires)
    if "dow" in props:
        low, high = props["dow"]
        assert all(low <= fire.isoweekday() % 7 <= high for fire in fires), [write_instant(fire) for fire in fires]
