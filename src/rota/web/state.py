"""What the routes of one application share; made by `create_app`, found by routes through `Shared`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.settings import Settings
from rota.web import reports
from rota.web.auth import Keys
from rota.web.creates import Creates
from rota.web.cursors import Cursors
from rota.web.definitions import Definitions
from rota.web.fires import NextFires
from rota.web.health import Health
from rota.web.metrics import CellMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The parts of the application."""

    db: Database
    settings: Settings
    clock: Clock
    keys: Keys
    definitions: Definitions
    creates: Creates
    health: Health
    cursors: Cursors
    next_fires: NextFires
    metrics: CellMetrics

    async def now(self) -> datetime:
        """The cell's time."""
        state = await reports.database_state(self.db)
        moment: datetime = state["now"]
        return moment


def parts_of(request: Request) -> AppState:
    """The application's parts."""
    state: AppState = request.app.state.parts
    return state


async def shared(request: Request) -> AppState:
    """The application's parts, as a parameter of a route."""
    return parts_of(request)


Shared = Annotated[AppState, Depends(shared)]
