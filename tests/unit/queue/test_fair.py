"""Shares of free slots, decided a lane."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.queue.fair import RECOVERY, Fairness, Waiting


def lane(
    lane_id: int, tenant: int, *, priority: int = 1, weight: int = 1, age: float = 0.0, most: int = 10**6
) -> Waiting:
    return Waiting(lane_id=lane_id, tenant_id=tenant, priority=priority, weight=weight, age_s=age, most=most)


def totals(lanes: list[Waiting], slots: int, rounds: int) -> Counter[int]:
    """What each tenant got over many rounds of one claimer."""
    fairness, got = Fairness(), Counter[int]()
    owner = {one.lane_id: one.tenant_id for one in lanes}
    for _ in range(rounds):
        for lane_id, n in fairness.share(lanes, slots).items():
            got[owner[lane_id]] += n
    return got


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 16, 500])
def test_long_run_shares_follow_the_weights(slots: int) -> None:
    got = totals([lane(1, 1), lane(2, 2), lane(3, 3, weight=3)], slots, 600)
    whole = got.total()
    assert got[1] / whole == pytest.approx(0.2, abs=0.02)
    assert got[2] / whole == pytest.approx(0.2, abs=0.02)
    assert got[3] / whole == pytest.approx(0.6, abs=0.02)


def test_what_one_tenant_cannot_use_is_lent_to_the_others() -> None:
    takes = Fairness().share([lane(1, 1, most=3), lane(2, 2)], 100)
    assert takes == {1: 3, 2: 97}


def test_a_lane_that_may_not_start_gets_nothing_and_hides_nobody() -> None:
    takes = Fairness().share([lane(1, 1, most=0), lane(2, 1), lane(3, 2)], 10)
    assert takes == {2: 5, 3: 5}


def test_higher_priority_goes_first_within_a_tenant_and_age_lifts_the_rest() -> None:
    takes = Fairness().share([lane(1, 1, priority=0), lane(2, 1, priority=2)], 10)
    assert takes == {1: 10}
    aged = Fairness().share([lane(1, 1, priority=0), lane(2, 1, priority=2, age=121.0)], 10)
    assert aged == {1: 5, 2: 5}


def test_recovery_takes_a_small_share_of_busy_slots_and_all_idle_ones() -> None:
    busy = Fairness().share([lane(1, 1), lane(2, 1, priority=RECOVERY)], 100)
    assert busy == {1: 75, 2: 25}
    assert Fairness().share([lane(2, 1, priority=RECOVERY)], 100) == {2: 100}


def test_a_tenant_with_one_row_is_served_in_the_first_round_beside_a_huge_one() -> None:
    lanes = [lane(n, n) for n in range(1, 51)]
    assert set(Fairness().share(lanes, 100)) == {one.lane_id for one in lanes}


@given(
    st.lists(
        st.builds(
            lane,
            st.integers(1, 10**6),
            st.integers(1, 20),
            priority=st.integers(0, 3),
            weight=st.just(1),
            age=st.floats(0, 1000),
            most=st.integers(0, 50),
        ),
        max_size=40,
        unique_by=lambda one: one.lane_id,
    ),
    st.integers(0, 300),
)
def test_never_more_than_the_slots_nor_than_a_lane_allows(lanes: list[Waiting], slots: int) -> None:
    takes = Fairness().share(lanes, slots)
    allowed = {one.lane_id: one.most for one in lanes}
    assert sum(takes.values()) <= slots
    assert all(0 < n <= allowed[lane_id] for lane_id, n in takes.items())
    if slots > 0 and sum(allowed.values()) > 0:
        assert takes, "a free slot and startable work, but nothing was taken"
