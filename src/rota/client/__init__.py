"""Clients of the HTTP API: `AsyncClient` for asyncio, `Client` for plain code. Both have the same methods.

    client = Client("https://rota.example.com", key)
    made = client.create_schedule({"name": "daily", "timing": {...}, "target": {...}})

Methods return the JSON documents of the API as dicts; times in them are RFC 3339 texts in UTC. Refusals are raised as
the error tree of `rota.base.errors` (ValidationFailed with field paths, NotFound, Conflict, VersionMismatch ...).

A call that changes something carries an Idempotency-Key, your own or a new one, and is sent again with the same key
when the connection breaks or the server is not ready: the effect comes once. Calls that cannot be repeated safely are
sent again only when the server refused them unread.
"""

from typing import TYPE_CHECKING

from rota.client.plain import Client

if TYPE_CHECKING:
    from rota.client.aio import AsyncClient

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> object:
    """Load the asyncio client when it is first asked for: commands that never use it start faster."""
    if name == "AsyncClient":
        from rota.client.aio import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
