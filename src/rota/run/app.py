"""What a user's code sees: the app with its handlers, and the attempt that a handler gets.

    app = Rota()

    @app.handler("send_report")
    async def send_report(attempt: Attempt) -> None: ...

Handlers are coroutine functions, or plain functions, which run in a thread. Raise `Reject` to go to the dead letters
at once, `RetryLater` to say when to try again; any other exception is a failure, retried by the schedule's policy.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from rota.base.errors import ConfigError
from rota.base.json import load_json
from rota.base.model import RunKey
from rota.run.lease import Lease

Handler = Callable[["Attempt"], Any]
H = TypeVar("H", bound=Handler)


class Reject(Exception):
    """Raised by a handler: this occurrence can never succeed; it becomes a dead letter without another attempt."""


class RetryLater(Exception):
    """Raised by a handler: try again, not before `seconds` from now. Counts as a failed attempt."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"asked to be tried again in {seconds:g} s")
        self.seconds = seconds


class Attempt:
    """One attempt of one occurrence.

    key            the run key: the same in every attempt; use it for your own idempotency
    scheduled_for  the planned time, aware UTC
    number         1, 2, ...
    payload        the schedule's payload, parsed when first asked for
    deadline       aware UTC, when the attempt is over; None: no timeout
    cancelled      True once somebody asked it to stop, or its lease was lost: end soon
    """

    __slots__ = ("_deadline", "_lease", "_payload")

    def __init__(self, lease: Lease, timeout: timedelta | None = None) -> None:
        self._lease = lease
        self._payload: Any = _UNREAD
        self._deadline = None if timeout is None else lease.started_at + timeout

    @property
    def key(self) -> str:
        """The run key as text."""
        return str(self._lease.key)

    @property
    def run_key(self) -> RunKey:
        """The run key in parts."""
        return self._lease.key

    @property
    def scheduled_for(self) -> datetime:
        """The planned time, aware UTC."""
        return self._lease.scheduled_for

    @property
    def number(self) -> int:
        """Which attempt this is, from 1."""
        return self._lease.attempt

    @property
    def schedule_id(self) -> str:
        """The schedule."""
        return str(self._lease.schedule_id)

    @property
    def schedule_name(self) -> str:
        """The schedule's name."""
        return self._lease.schedule_name

    @property
    def payload(self) -> Any:
        """The payload as the schedule has it."""
        if self._payload is _UNREAD:
            self._payload = load_json(self._lease.payload or "null")
        return self._payload

    @property
    def deadline(self) -> datetime | None:
        """When the attempt is over."""
        return self._deadline

    @property
    def cancelled(self) -> bool:
        """Whether to end soon: somebody asked for it, or the lease was lost."""
        return self._lease.is_cancelled or self._lease.is_lost


_UNREAD = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A handler and how it runs. `timeout` None: the worker's default."""

    name: str
    queue: str
    call: Handler
    is_async: bool
    timeout: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule that the app wants to exist, as a definition document."""

    name: str
    document: Mapping[str, Any]


class Rota:
    """The handlers of one program, and the schedules it wants. `name` keeps its schedules apart from other
    programs'."""

    def __init__(self, name: str = "app") -> None:
        self.name = name
        self.handlers: dict[str, Registered] = {}
        self.schedules: dict[str, Declared] = {}

    def handler(
        self, name: str, *, queue: str = "default", timeout: float | timedelta | None = None
    ) -> Callable[[H], H]:
        """Register a function under a name. `timeout` in seconds. Raises ConfigError for a name used twice."""

        def register(call: H) -> H:
            if name in self.handlers:
                raise ConfigError(f"the handler {name!r} is registered twice", hint="give each its own name")
            limit = timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout
            self.handlers[name] = Registered(
                name=name, queue=queue, call=call, is_async=inspect.iscoroutinefunction(call), timeout=limit
            )
            return call

        return register

    def schedule(
        self,
        name: str,
        *,
        handler: Handler | str,
        cron: str | None = None,
        every: str | None = None,
        at: str | None = None,
        time_zone: str | None = None,
        dst: str | None = None,
        payload: Any = None,
        **members: Any,
    ) -> None:
        """Declare a schedule of a handler; a worker that starts makes it so. `members` are further members of a
        definition."""
        found = self._registered(handler)
        parts = {"cron": cron, "every": every, "at": at, "time_zone": time_zone, "dst": dst}
        timing = {part: value for part, value in parts.items() if value is not None}
        target = {"handler": {"name": found.name, "queue": found.queue}}
        document = {"name": name, "timing": timing, "target": target, "payload": payload, **members}
        if name in self.schedules:
            raise ConfigError(f"the schedule {name!r} is declared twice")
        self.schedules[name] = Declared(name=name, document=document)

    def _registered(self, handler: Handler | str) -> Registered:
        for one in self.handlers.values():
            if one.name == handler or one.call is handler:
                return one
        raise ConfigError(f"{handler!r} is not a registered handler", hint="decorate it with @app.handler(...) first")


Result = Awaitable[Any]
