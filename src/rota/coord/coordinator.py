"""The seam between a node and whoever decides which shards it plans; and the pure rule that spreads them.

Owning a shard is an optimisation, so that two nodes do not plan the same. What guarantees that a former owner writes
nothing is the generation: it grows with every change of owner, and the plan transaction checks it.
"""

import hashlib
import os
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NewType, Protocol

from rota.base.model import N_SHARDS, Shard

NodeId = NewType("NodeId", str)

PLANNER_ROLE: Final = "planner"
# A lease is trusted for this share of its length: the rest is for replies that come late and clocks that drift.
TRUSTED_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLease:
    """One term of one shard. `trusted_until` is on this node's own monotonic clock, in seconds."""

    shard: Shard
    generation: int
    trusted_until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """The region that may plan in this cell, and its generation."""

    region: str
    generation: int


class Coordinator(Protocol):
    """Gives a node its shards. One instance is one process incarnation."""

    @property
    def node_id(self) -> NodeId:
        """Names this incarnation; written as the owner of its shards."""
        ...

    @property
    def term(self) -> Term | None:
        """The term in which this node's region may plan, as of the last renewal; None: it may not."""
        ...

    def held(self) -> Mapping[Shard, ShardLease]:
        """The shards whose leases may be trusted at this very moment."""
        ...

    async def renew(self) -> float:
        """Join, or stay: keep what is ours, give back what is no longer, take what has become ours.

        Returns the seconds after which to renew again. What it raises changes nothing: leases confirmed before are
        trusted to their end, and none longer.
        """
        ...

    async def leave(self) -> None:
        """Give everything back, so that others need not wait for leases to run out. May be called twice."""
        ...


def new_node_id() -> NodeId:
    """A name no other process has ever had, whatever hosts are called: host, process id, chance."""
    return NodeId(f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(5)}")


def trusted_until(attempt_start: float, ttl_s: float) -> float:
    """Until when a lease may be trusted that was asked for at `attempt_start`: a slow reply gains nothing."""
    return attempt_start + ttl_s * TRUSTED_SHARE


def assigned_to(node_id: str, nodes: Iterable[str]) -> frozenset[Shard]:
    """The shards of one of the live nodes, by rendezvous: each shard goes to the node with the highest hash for it.

    So a node that joins takes only what it gets, and one that leaves gives only what it had.
    """
    return _assignment(frozenset(nodes)).get(node_id, frozenset())


@lru_cache(maxsize=64)
def _assignment(nodes: frozenset[str]) -> dict[str, frozenset[Shard]]:
    shares: dict[str, set[Shard]] = {node: set() for node in nodes}
    for number in range(N_SHARDS if nodes else 0):
        owner = max(nodes, key=lambda node: (_score(node, number), node))
        shares[owner].add(Shard(number))
    return {node: frozenset(share) for node, share in shares.items()}


def _score(node: str, shard: int) -> bytes:
    return hashlib.blake2b(f"{shard}/{node}".encode(), digest_size=8).digest()
