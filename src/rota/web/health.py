"""How a process is: alive (its loops go on) and ready (it can do what its roles promise).

Alive is judged by progress and not by work found: an idle loop ticks, too. A database that is down makes a process not
ready but leaves it alive, because to start it anew would change nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from rota.base.clock import Clock
from rota.base.db import Database
from rota.base.errors import DatabaseUnavailable, RotaError
from rota.base.migrations import require_current_schema
from rota.base.service import ServiceHealth
from rota.web import reports
from rota.web.answers import PROBLEM_RESPONSES, answers, json_answer

CHECK_WITHIN_S = 3.0
KEEP_S = 1.0

router = APIRouter(responses=PROBLEM_RESPONSES, tags=["cell"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether work can be done, with each check and why it failed (None: it did not)."""

    checks: dict[str, str | None]

    @property
    def is_ready(self) -> bool:
        """Whether all checks passed."""
        return all(reason is None for reason in self.checks.values())


class Health:
    """Answers both questions. `services` gives the loops of this process at the moment; `roles` are for people."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        services: Callable[[], Sequence[ServiceHealth]],
        roles: Sequence[str] = ("api",),
    ) -> None:
        self._db = db
        self._clock = clock
        self._services = services
        self.roles = tuple(roles)
        self._known: tuple[float, Readiness] | None = None
        self._turn = asyncio.Lock()
        self.is_draining = False

    def services(self) -> list[ServiceHealth]:
        """The loops of this process."""
        return list(self._services())

    async def readiness(self) -> Readiness:
        """The checks, made at most once a second however many ask."""
        async with self._turn:
            now = self._clock.monotonic()
            if self._known is None or self._known[0] <= now:
                self._known = (self._clock.monotonic() + KEEP_S, await self._check())
            return self._known[1]

    async def _check(self) -> Readiness:
        checks: dict[str, str | None] = {"draining": "the process is shutting down" if self.is_draining else None}
        for name, check in (("database", self._check_database), ("schema", self._check_schema)):
            try:
                async with asyncio.timeout(CHECK_WITHIN_S):
                    await check()
                checks[name] = None
            except TimeoutError:
                checks[name] = f"no answer within {CHECK_WITHIN_S:g} s"
            except RotaError as error:
                checks[name] = error.code
        for service in self._services():
            silent = None if service.is_alive else f"no progress for {service.silent_s:.0f} s"
            checks[f"loop {service.name}"] = silent or ("its last round failed" if service.error else None)
        return Readiness(checks=checks)

    async def _check_database(self) -> None:
        state = await reports.database_state(self._db)
        if state["is_read_only"]:
            raise DatabaseUnavailable("it takes no writes", code="database_read_only")

    async def _check_schema(self) -> None:
        await require_current_schema(self._db)


@router.get("/healthz", **answers(dict[str, object]))
async def healthz(request: Request) -> Response:
    """Alive: 200 while every inner loop makes progress, else 503 with the loops that hang."""
    health: Health = request.app.state.parts.health
    loops = {
        service.name: {"alive": service.is_alive, "silent_s": round(service.silent_s, 3)}
        for service in health.services()
    }
    is_alive = all(loop["alive"] for loop in loops.values())
    document = {"status": "alive" if is_alive else "hanging", "roles": health.roles, "loops": loops}
    return json_answer(document, 200 if is_alive else 503)


@router.get("/readyz", **answers(dict[str, object]))
async def readyz(request: Request) -> Response:
    """Ready: 200 when the database takes writes, the schema is this program's, and the loops work; else 503 and why."""
    health: Health = request.app.state.parts.health
    readiness = await health.readiness()
    checks = {name: "ok" if reason is None else reason for name, reason in readiness.checks.items()}
    document = {"status": "ready" if readiness.is_ready else "not ready", "roles": health.roles, "checks": checks}
    return json_answer(document, 200 if readiness.is_ready else 503)
