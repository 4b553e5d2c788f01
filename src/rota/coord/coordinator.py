"""The seam: a coordinator keeps this process's membership alive and says which shards it owns right now.

A lease is a term: taking a shard raises its generation, and every planning transaction checks it. The process trusts its
own lease only until `attempt start + lease - margin` on its own monotonic clock, so a slow answer cannot lengthen it and
a process that slept stops by itself. Assignment is rendezvous hashing: a joining or dying node moves only its share.
"""

import hashlib
import os
import secrets
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from rota.base.model import N_SHARDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLease:
    """One owned shard: its term, and until when (monotonic seconds of this process) that is trusted."""

    shard: int
    generation: int
    trusted_until: float


class Coordinator(Protocol):
    """Every plug passes the same exam (tests/contract)."""

    @property
    def node_id(self) -> str:
        """The identity of this process incarnation; another start, even on the same host, is another node."""
        ...

    async def renew(self) -> None:
        """Keep membership and owned shards alive, take over what is assigned and free, let go of what is not."""
        ...

    async def leave(self) -> None:
        """Give up membership and shards at once, so that others need not wait for the lease to run out."""
        ...

    def owned(self) -> Sequence[ShardLease]:
        """The shards that may be planned at this moment."""
        ...


def new_node_id(name: str = "") -> str:
    """Host, process id and a random part: unique for every start."""
    return f"{name or socket.gethostname()}.{os.getpid()}.{secrets.token_hex(4)}"


def assigned(node_id: str, nodes: Collection[str]) -> frozenset[int]:
    """The shards of a node among the live ones, by rendezvous hashing (highest random weight)."""
    return _assignment(tuple(sorted(nodes))).get(node_id, frozenset())


@lru_cache(maxsize=16)
def _assignment(nodes: tuple[str, ...]) -> dict[str, frozenset[int]]:
    shares: dict[str, set[int]] = {node: set() for node in nodes}
    for shard in range(N_SHARDS):
        if nodes:
            shares[max(nodes, key=lambda node: _weight(node, shard))].add(shard)
    return {node: frozenset(share) for node, share in shares.items()}


def _weight(node: str, shard: int) -> bytes:
    return hashlib.blake2b(f"{node}/{shard}".encode(), digest_size=8).digest()
