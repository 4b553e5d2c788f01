"""Duties that one keeper does for the whole cell: held by a lease with an end, so that no holder blocks it for ever."""

from rota.base.db import Database, load_queries
from rota.base.json import dump_json, load_json

SQL = load_queries(__file__, "duties.sql")


class Duty:
    """One duty as one keeper sees it. `owner` names this process incarnation; `lease_s` bounds a frozen holder."""

    def __init__(self, db: Database, name: str, owner: str, *, lease_s: float) -> None:
        self._db = db
        self._name = name
        self._owner = owner
        self._lease_s = lease_s

    async def take(self) -> dict[str, object] | None:
        """Take or renew it and read where it stands; None when another keeper holds it."""
        row = await self._db.fetch_row(SQL["duty_take"], self._name, self._owner, self._lease_s)
        return None if row is None else _state(row["state"])

    async def write(self, state: dict[str, object], *, is_done: bool = False) -> bool:
        """Store where it stands and renew the lease; False when the lease ran out meanwhile and nothing was written."""
        args = (self._name, self._owner, self._lease_s, dump_json(state), is_done)
        return await self._db.execute(SQL["duty_write"], *args) == 1

    async def read(self) -> dict[str, object]:
        """Where it stands, whoever holds it."""
        row = await self._db.fetch_row(SQL["duty_read"], self._name)
        return {} if row is None else _state(row["state"])

    async def leave(self) -> None:
        """Let another keeper take it at once."""
        await self._db.execute(SQL["duty_leave"], self._name, self._owner)


def _state(text: str) -> dict[str, object]:
    found = load_json(text)
    return found if isinstance(found, dict) else {}
