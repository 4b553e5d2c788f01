"""Who gets the next free slots: pure, decided a lane, never a row.

Tenants share by weight; what one cannot use is lent to the others. Credit that a tenant did not get in one round counts
in the next (deficit round robin), so long-run shares follow the weights although a round deals in whole slots. Within a
tenant the higher priority goes first, but waiting lifts a lane by one level a minute, so low work is never starved.
Recovery work (catch-up, backfill, bulk replay) takes only what strict work leaves over, or a small fixed share.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

AGEING_S: Final = 60.0
RECOVERY: Final = 3
RECOVERY_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A lane with due rows. `most`: what limits allow it now; `age_s`: how long its first row has been due."""

    lane_id: int
    tenant_id: int
    priority: int
    weight: int
    age_s: float
    most: int


class Fairness:
    """The credit that tenants carry from round to round; one of them a claimer."""

    def __init__(self) -> None:
        self._credit: dict[int, float] = {}
        self._turn = 0

    def share(self, lanes: Sequence[Waiting], slots: int) -> dict[int, int]:
        """How many rows to take from which lane; in sum at most `slots`."""
        strict = [lane for lane in lanes if lane.priority != RECOVERY and lane.most > 0]
        recovery = [lane for lane in lanes if lane.priority == RECOVERY and lane.most > 0]
        if slots <= 0:
            return {}
        reserved = 0
        if strict and recovery and slots >= 4:
            reserved = max(1, int(slots * RECOVERY_SHARE))
        takes = self._round(strict, slots - reserved) if strict else {}
        left = slots - sum(takes.values())
        if recovery and (reserved or not strict):
            takes |= self._round(recovery, left if not strict else min(left, reserved))
        self._turn += 1
        return takes

    def _round(self, lanes: Sequence[Waiting], slots: int) -> dict[int, int]:
        by_tenant: dict[int, list[Waiting]] = defaultdict(list)
        for lane in lanes:
            by_tenant[lane.tenant_id].append(lane)
        quotas = self._quotas({tenant: _most(mine) for tenant, mine in by_tenant.items()}, by_tenant, slots)
        takes: dict[int, int] = {}
        for tenant, quota in quotas.items():
            takes |= self._within(by_tenant[tenant], quota)
        return takes

    def _quotas(
        self, most: Mapping[int, int], by_tenant: Mapping[int, Sequence[Waiting]], slots: int
    ) -> dict[int, int]:
        """Whole slots a tenant, by weight, limited by what it may take; the rest goes round."""
        weights = {tenant: lanes[0].weight for tenant, lanes in by_tenant.items()}
        quotas = dict.fromkeys(by_tenant, 0)
        open_tenants = set(by_tenant)
        left = slots
        while left > 0 and open_tenants:
            total = sum(weights[tenant] for tenant in open_tenants)
            granted = 0
            for tenant in sorted(
                open_tenants, key=lambda one: (-self._credit.get(one, 0.0), (one + self._turn) % 7919)
            ):
                credit = self._credit.get(tenant, 0.0) + left * weights[tenant] / total
                take = min(int(credit), most[tenant] - quotas[tenant], left - granted)
                quotas[tenant] += max(take, 0)
                granted += max(take, 0)
                self._credit[tenant] = min(credit - max(take, 0), 2.0)
            open_tenants = {tenant for tenant in open_tenants if quotas[tenant] < most[tenant]}
            left -= granted
            if not granted and all(self._credit[tenant] < 1 for tenant in open_tenants):
                break
        if left == slots and by_tenant:
            # Fewer slots than any share: the one with the most credit gets them.
            first = max(by_tenant, key=lambda tenant: self._credit.get(tenant, 0.0))
            quotas[first] = min(slots, most[first])
            self._credit[first] -= quotas[first]
        for tenant in [one for one in self._credit if one not in by_tenant]:
            del self._credit[tenant]  # credit is for waiting, not for having been away
        return {tenant: quota for tenant, quota in quotas.items() if quota > 0}

    def _within(self, lanes: Sequence[Waiting], quota: int) -> dict[int, int]:
        """One tenant's lanes: by priority and age; lanes of the same rank share alike."""
        ranked = sorted(lanes, key=lambda lane: (_rank(lane), (lane.lane_id * 2654435761 + self._turn) % 65_521))
        takes: dict[int, int] = {}
        while quota > 0 and ranked:
            level = _rank(ranked[0])
            same = [lane for lane in ranked if _rank(lane) == level]
            ranked = ranked[len(same) :]
            each, rest = divmod(quota, len(same))
            for i, lane in enumerate(same):
                take = min(each + (i < rest), lane.most)
                if take > 0:
                    takes[lane.lane_id] = take
                    quota -= take
        return takes


def _rank(lane: Waiting) -> int:
    return lane.priority - int(lane.age_s / AGEING_S)


def _most(lanes: Sequence[Waiting]) -> int:
    return sum(lane.most for lane in lanes)
