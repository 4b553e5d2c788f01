"""`rota dev`, `rota serve`, `rota worker`, `rota migrate`: the commands that are processes."""

import asyncio
import importlib
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from rota.base.errors import ConfigError, RotaError
from rota.base.settings import Settings
from rota.cli.output import EXIT_USAGE, JSON_OPTION, fail, fail_with, print_json, stdout

T = TypeVar("T")
app = typer.Typer()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop; known errors end the command with their message."""
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except RotaError as error:
        fail_with(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def load_settings(**overrides: Any) -> Settings:
    """The settings, or exit code 2 with what is wrong."""
    try:
        return Settings.load(**overrides)
    except ConfigError as error:
        fail(str(error), hint=error.hint, code=EXIT_USAGE)


@app.command("dev")
def dev(
    port: Annotated[int, typer.Option(help="Where the API listens, on loopback.")] = 8080,
    data: Annotated[Path | None, typer.Option(help="Keep state in this folder. Default: a temporary one.")] = None,
) -> None:
    """Everything on one machine: embedded PostgreSQL, API, planner, worker and keeper. Loopback targets are allowed."""
    settings = load_settings(port=port, host="127.0.0.1", allow_private_targets=True, **_quick())
    raise typer.Exit(run(_dev(settings, data)))


def _quick() -> dict[str, Any]:
    """One node on its own needs no long leases; what the environment says wins."""
    quick: dict[str, Any] = {"shard_lease_s": 5.0, "plan_tick_s": 2.0, "log_level": "warning"}
    return {name: value for name, value in quick.items() if f"ROTA_{name.upper()}" not in os.environ}


async def _dev(settings: Settings, data: Path | None) -> int:
    from rota.dev import dev_database, registered, welcome
    from rota.node import ROLES, Node, run_until_told, set_up_telemetry

    set_up_telemetry(settings)
    key = os.environ.get("ROTA_DEV_KEY") or None
    entry: Path | None = None
    async with dev_database(data, key) as made:
        node = Node(settings=settings, roles=ROLES)

        def ready() -> None:
            nonlocal entry
            entry = registered(made, node.url, os.getpid())
            stdout.print(welcome(made, node.url), markup=False, highlight=False)
            sys.stdout.flush()

        try:
            return await run_until_told(node, made.dsn, on_ready=ready)
        finally:
            if entry is not None:
                entry.unlink(missing_ok=True)  # noqa: ASYNC240 - the process ends here


@app.command("serve")
def serve(
    roles: Annotated[
        str, typer.Option(help="Comma-separated: api, planner, worker, keeper.")
    ] = "api,planner,worker,keeper",
    port: Annotated[int | None, typer.Option(help="Where the API listens (ROTA_PORT).")] = None,
    host: Annotated[str | None, typer.Option(help="The address it listens on (ROTA_HOST).")] = None,
) -> None:
    """Play roles on the database of ROTA_DATABASE_URL until SIGTERM, which drains."""
    settings = load_settings(port=port, host=host)
    if not settings.database_url:
        fail("ROTA_DATABASE_URL is empty", hint="set it to your PostgreSQL, or use `rota dev`", code=EXIT_USAGE)
    chosen = [role.strip() for role in roles.split(",") if role.strip()]
    raise typer.Exit(run(_serve(settings, chosen)))


async def _serve(settings: Settings, roles: list[str]) -> int:
    from rota.base.migrations import migrate
    from rota.node import Node, run_until_told, set_up_telemetry

    set_up_telemetry(settings)
    if settings.auto_migrate:
        await migrate(settings.database_url)
    node = Node(settings=settings, roles=roles)

    def ready() -> None:
        where = f" on {node.url}" if node.url else ""
        sys.stdout.write(f"rota serves {','.join(roles)}{where}\n")
        sys.stdout.flush()

    return await run_until_told(node, settings.database_url, on_ready=ready)


@app.command("worker")
def worker(
    target: Annotated[str, typer.Argument(help="Where the app is: package.module:name")],
    slots: Annotated[int | None, typer.Option(help="Attempts at once (ROTA_WORKER_SLOTS).")] = None,
    sync: Annotated[bool, typer.Option(help="Create and update the schedules that the app declares.")] = True,
) -> None:
    """Run the handlers of an app, and make the schedules it declares so."""
    settings = load_settings(worker_slots=slots)
    code, is_stuck = run(_worker(settings, target, sync=sync))
    if is_stuck:
        sys.stdout.flush()
        os._exit(code)  # threads of user code that never end must not keep the process
    raise typer.Exit(code)


async def _worker(settings: Settings, target: str, *, sync: bool) -> tuple[int, bool]:
    from rota.cli.connect import database_dsn
    from rota.cli.declared import make_so
    from rota.node import Node, run_until_told, set_up_telemetry

    set_up_telemetry(settings)
    found = load_app(target)
    dsn = database_dsn()
    if sync and found.schedules:
        await make_so(dsn, found)
    node = Node(settings=settings, roles=("worker",), handlers=found.handlers, calls_targets=False)

    def ready() -> None:
        sys.stdout.write(f"rota works on {', '.join(sorted(found.handlers)) or 'no handlers'}\n")
        sys.stdout.flush()

    return await run_until_told(node, dsn, on_ready=ready), node.has_stuck_code


def load_app(target: str) -> Any:
    """The app that `package.module:name` names. Leaves with 2 when it is not there or is no app."""
    from rota.run.app import Rota

    module_name, colon, name = target.partition(":")
    if not colon or not module_name or not name:
        fail(f"{target!r}: expected package.module:name", code=EXIT_USAGE)
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module_name), name)
    except ModuleNotFoundError as error:
        fail(f"cannot import {error.name!r}", hint="run it where the package can be imported from", code=EXIT_USAGE)
    except AttributeError:
        fail(f"module {module_name!r} has no {name!r}", code=EXIT_USAGE)
    if not isinstance(found, Rota):
        fail(f"{target!r} is a {type(found).__name__}, not a rota.Rota", code=EXIT_USAGE)
    return found


@app.command("migrate")
def migrate(
    status: Annotated[bool, typer.Option("--status", help="Only show what is applied and what is left.")] = False,
    as_json: Annotated[bool, JSON_OPTION] = False,
) -> None:
    """Bring the schema up to this program; safe from several nodes at once, and again after a crash."""
    run(_migrate(status, as_json))


async def _migrate(only_status: bool, as_json: bool) -> None:
    from rota.base.db import Database
    from rota.base.migrations import migrate, schema_status
    from rota.cli.connect import database_dsn

    dsn = database_dsn()
    if only_status:
        db = await Database.connect(dsn, max_size=1, application_name="rota-migrate")
        try:
            found = await schema_status(db)
        finally:
            await db.close()
        if as_json:
            print_json({"applied": list(found.applied), "pending": list(found.pending)})
        else:
            stdout.print(f"applied: {', '.join(found.applied) or 'nothing'}", markup=False, highlight=False)
            stdout.print(f"pending: {', '.join(found.pending) or 'nothing'}", markup=False, highlight=False)
        return
    done = await migrate(dsn, on_progress=None if as_json else lambda name: stdout.print(f"applied {name}"))
    if as_json:
        print_json({"applied": done})
    elif not done:
        stdout.print("the schema is current")
