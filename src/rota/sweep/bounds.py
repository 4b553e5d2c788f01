"""Bounds of a keeper's transactions: no lock of a keeper that froze or lost its network outlives a few seconds."""

from rota.base.db import Transaction, load_queries

SQL = load_queries(__file__, "bounds.sql")
IDLE_MS = 5_000
LOCK_MS = 100


async def bound(tx: Transaction) -> None:
    """The first statement of a keeper's transaction."""
    await tx.execute(SQL["transaction_bound"], str(IDLE_MS), str(LOCK_MS))
