"""The metrics page: what this process counted, and a few facts about the cell that the database tells.

The facts cost a handful of index probes at most each `KEEP_S`, however often and by how many they are asked for, and
carry their age. No metric names a tenant or a schedule, so the page is open.
"""

import asyncio

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, Gauge, generate_latest
from starlette.responses import Response

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.errors import DatabaseUnavailable
from rota.base.telemetry import oldest_due_age, registry
from rota.web import reports
from rota.web.answers import PROBLEM_RESPONSES

KEEP_S = 15.0
GIVE_UP_S = 2.0

lanes_due = Gauge("rota_lanes_due", "Lanes in which occurrences are due")
occurrences_about = Gauge("rota_occurrences_unfinished_estimate", "About how many occurrences are not finished")
cell_age = Gauge("rota_cell_metrics_age_seconds", "Age of the facts about the cell on this page")
database_up = Gauge("rota_database_up", "Whether the last look at the database was answered")

router = APIRouter(responses=PROBLEM_RESPONSES, tags=["cell"])


class CellMetrics:
    """Looks at the database now and then, one look at a time."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._looked_at: float | None = None
        self._turn = asyncio.Lock()

    async def refresh(self) -> None:
        """Look again if the last look is old. A database that does not answer leaves the old facts, with their age."""
        async with self._turn:
            now = self._clock.monotonic()
            if self._looked_at is None or now - self._looked_at >= KEEP_S:
                await self._look()
            cell_age.set(float("nan") if self._looked_at is None else self._clock.monotonic() - self._looked_at)

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                age_s, n_lanes = await reports.oldest_due(self._db)
                state = await reports.database_state(self._db)
        except (DatabaseUnavailable, TimeoutError):
            database_up.set(0)
            return
        database_up.set(1)
        oldest_due_age.set(age_s)
        lanes_due.set(n_lanes)
        occurrences_about.set(state["n_occurrences_about"])
        self._looked_at = self._clock.monotonic()


@router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
async def metrics(request: Request) -> Response:
    """Everything measured, in the text format of Prometheus."""
    cell: CellMetrics = request.app.state.parts.metrics
    await cell.refresh()
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})
