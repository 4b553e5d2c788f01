"""The API as one application: its parts, its routes, and what answers when something goes wrong."""

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from rota.base.clock import Clock, SystemClock
from rota.base.db import Database
from rota.base.errors import RotaError
from rota.base.service import ServiceHealth
from rota.base.settings import Settings
from rota.web import backfills, bulk, console, health, held, leases, metrics, occurrences, operators, preview, schedules
from rota.web.answers import json_answer
from rota.web.auth import Keys
from rota.web.creates import Creates
from rota.web.cursors import Cursors, cell_secret
from rota.web.definitions import Definitions
from rota.web.door import Door
from rota.web.fires import NextFires
from rota.web.health import Health
from rota.web.metrics import CellMetrics
from rota.web.openapi import docs_page, openapi_document
from rota.web.problems import problem_of, respond
from rota.web.state import AppState

# In this order they are looked through for each request: the busiest come first.
ROUTERS = (
    schedules.router,
    leases.router,
    bulk.router,
    occurrences.router,
    preview.router,
    backfills.router,
    held.router,
    operators.router,
    health.router,
    metrics.router,
    console.router,
)
STATIC = Path(__file__).with_name("static")


async def create_app(
    db: Database,
    settings: Settings,
    services: Callable[[], Sequence[ServiceHealth]] = list,
    *,
    roles: Sequence[str] = ("api",),
    clock: Clock | None = None,
) -> Door:
    """The ASGI application over a database with the current schema.

    `services` tells how the loops of this process are (`Supervisor.health`); `roles` are shown by the health pages.
    """
    clock = clock or SystemClock()
    parts = AppState(
        db=db,
        settings=settings,
        clock=clock,
        keys=Keys(db, clock),
        definitions=Definitions(db, clock, settings.max_payload_bytes),
        creates=Creates(db),
        health=Health(db, clock, services, roles),
        cursors=Cursors(await cell_secret(db, "cursors")),
        next_fires=NextFires(db),
        metrics=CellMetrics(db, clock),
    )
    app = FastAPI(
        title="rota", version=program_version(), openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.parts = parts
    app.state.node = settings.node
    for router in ROUTERS:
        # Side by side, not one inside another: a request is compared with each route once.
        app.router.routes.extend(router.routes)
    _add_documents(app)
    for kind in (HTTPException, RequestValidationError, RotaError, Exception):
        app.add_exception_handler(kind, _answer_problem)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return Door(app, parts)


def program_version() -> str:
    """The version of the installed package."""
    try:
        return version("rota-scheduler")
    except PackageNotFoundError:
        return "0"


def _add_documents(app: FastAPI) -> None:
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    page: list[str] = []

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return json_answer(app.openapi())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        if not page:
            page.append(docs_page(app.openapi()))
        return HTMLResponse(page[0])


async def _answer_problem(request: Request, error: Exception) -> Response:
    if request.url.path.startswith(console.HOME):
        return console.answer_error(request, error)
    return respond(problem_of(error), instance=request.url.path, request_id=request.state.request_id)
