"""One process: the roles it plays, put together from their parts, started in order and ended in reverse.

    api      the HTTP API            planner  owns shards and plans ahead
    worker   runs HTTP targets       keeper   rescue, partitions, endings, audit

A worker of handlers (`rota worker`) is the same with the handlers of an app.
"""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import rota
from rota.base import telemetry
from rota.base.clock import SystemClock
from rota.base.db import Database
from rota.base.errors import ConfigError
from rota.base.migrations import require_current_schema
from rota.base.service import Service, ServiceHealth, Supervisor
from rota.base.settings import Settings
from rota.coord.coordinator import Coordinator, new_node_id
from rota.coord.ledger import Ledger
from rota.coord.ledger import Node as Member
from rota.coord.membership import Membership
from rota.coord.postgres import PostgresCoordinator
from rota.plan.planner import Planner
from rota.queue.lanes import Lane
from rota.run.app import Registered
from rota.run.executor import Executor
from rota.run.http_target import HttpCaller
from rota.run.nats_target import NatsPublisher
from rota.run.worker import Worker, WorkerOptions
from rota.sweep.keeper import keeper_services
from rota.web.app import create_app
from rota.web.server import Server

ROLES: Final = ("api", "planner", "worker", "keeper")
RECYCLE_EXIT_CODE: Final = 75  # EX_TEMPFAIL: start me again


@dataclass(slots=True, kw_only=True)
class Node:
    """The parts of one running process."""

    settings: Settings
    roles: Sequence[str]
    handlers: Mapping[str, Registered] = field(default_factory=dict)
    calls_targets: bool = True
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int = 0
    url: str = ""
    _db: Database | None = None
    _supervisor: Supervisor | None = None
    _callers: list[HttpCaller | NatsPublisher] = field(default_factory=list)
    _workers: list[Worker] = field(default_factory=list)

    async def start(self, dsn: str) -> None:
        """Connect (waiting for the database), check the schema, start every role. Raises RotaError."""
        unknown = sorted(set(self.roles) - set(ROLES))
        if unknown or not self.roles:
            raise ConfigError(f"unknown role {', '.join(unknown) or '(none)'}", hint=f"roles are {', '.join(ROLES)}")
        settings, clock = self.settings, SystemClock()
        self._db = db = await Database.connect(
            dsn,
            min_size=1,
            max_size=settings.db_pool_size,
            statement_cache=settings.statement_cache,
            application_name=f"rota {','.join(self.roles)}",
        )
        await require_current_schema(db)
        # Work comes in batches of short-lived objects: what is there now is no garbage, and the rest can wait longer.
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        node_id = new_node_id()
        member = Member(
            node_id=node_id, region=settings.region, roles=tuple(self.roles), program_version=rota.__version__
        )
        coordinator = PostgresCoordinator(Ledger(db, member, ttl_s=settings.shard_lease_s, clock=clock))
        services: list[Service] = [Membership(coordinator)]
        if "planner" in self.roles:
            services.append(_planner(db, coordinator, clock, settings))
        if "keeper" in self.roles:
            services += keeper_services(db, settings, clock)
        if "worker" in self.roles:
            services.append(await self._worker(db, node_id))
        if "api" in self.roles:
            app = await create_app(db, settings, self._health, roles=self.roles, clock=clock)
            server = Server(app, host=settings.host, port=settings.port, drain_s=min(settings.drain_s, 10.0))
            await server.start()
            self.url = server.url
            services.append(server)
        self._supervisor = Supervisor(services, clock)
        await self._supervisor.start()

    def _health(self) -> list[ServiceHealth]:
        return self._supervisor.health() if self._supervisor is not None else []

    async def _worker(self, db: Database, node_id: str) -> Worker:
        settings = self.settings
        http = HttpCaller(
            allow_private=settings.allow_private_targets,
            max_response_bytes=settings.max_response_bytes,
            signing_key=settings.signing_key,
        )
        await http.start()
        broker = NatsPublisher(settings.nats_url)
        self._callers += [http, broker]
        executor = Executor(self.handlers, http, broker, default_timeout_s=settings.default_timeout_s)
        worker = Worker(
            db,
            executor,
            worker=node_id,
            accepts=serves(self.handlers, calls_targets=self.calls_targets),
            options=WorkerOptions(
                slots=settings.worker_slots,
                claim_batch=settings.claim_batch,
                lease_s=settings.lease_s,
                heartbeat_s=settings.heartbeat_s,
                poll_s=settings.poll_s,
                drain_s=settings.drain_s,
                max_losses=settings.max_losses,
            ),
            on_recycle=self._recycle,
        )
        self._workers.append(worker)
        return worker

    def _recycle(self) -> None:
        """Too many slots are held by code that does not end: drain, exit, be started again."""
        self.exit_code = RECYCLE_EXIT_CODE
        self.stopping.set()

    @property
    def has_stuck_code(self) -> bool:
        """Whether threads of user code may never end: the process must then leave without waiting for them."""
        return any(worker.n_stuck for worker in self._workers)

    async def stop(self) -> None:
        """Drain and stop everything; harmless when repeated."""
        if self._supervisor is not None:
            await self._supervisor.stop(within_s=self.settings.drain_s + 15.0)
        for caller in self._callers:
            with contextlib.suppress(Exception):
                await caller.close()
        if self._db is not None:
            await self._db.close()


def serves(handlers: Mapping[str, Registered], *, calls_targets: bool) -> Callable[[Lane], bool]:
    """The lanes a worker may claim from: its own handlers in their queues, and targets that any worker can call."""
    own = {(f"handler:{one.name}", one.queue) for one in handlers.values()}
    names = {f"handler:{one.name}" for one in handlers.values()}

    def accepts(lane: Lane) -> bool:
        if lane.target_key.startswith("handler:"):
            return (lane.target_key, lane.queue) in own or lane.target_key in names
        return calls_targets

    return accepts


def _planner(db: Database, coordinator: Coordinator, clock: SystemClock, settings: Settings) -> Planner:
    return Planner(
        db,
        coordinator,
        clock=clock,
        horizon_s=settings.horizon_s,
        tick_s=settings.plan_tick_s,
        misfire_threshold_s=settings.misfire_threshold_s,
        shard_lease_s=settings.shard_lease_s,
    )


async def run_until_told(node: Node, dsn: str, *, on_ready: Callable[[], None] | None = None) -> int:
    """Start, wait for SIGTERM or SIGINT, drain, stop. Returns the exit code. A second signal ends at once."""
    loop = asyncio.get_running_loop()
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1
        if told > 1:
            sys.stderr.write("rota: told twice, leaving at once\n")
            raise SystemExit(1)
        node.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, tell)
    try:
        starting = asyncio.ensure_future(node.start(dsn))
        waiting = asyncio.ensure_future(node.stopping.wait())
        await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return 0
        waiting.cancel()
        starting.result()
        if on_ready is not None:
            on_ready()
        await node.stopping.wait()
    finally:
        await node.stop()
    return node.exit_code


def set_up_telemetry(settings: Settings) -> None:
    """Logs and metrics of this process."""
    telemetry.set_up(log_format=settings.log_format, level=settings.log_level)
