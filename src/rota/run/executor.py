"""One lease, one attempt, one outcome: start reading here.

An outcome is always returned, whatever user code does: what it raises is an outcome, what it ignores is another. Died
after the effect and before the outcome was written: the attempt is repeated with the same run key.
"""

import asyncio
import inspect
import traceback
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

from rota.base.failpoints import failpoint
from rota.base.json import dump_json, load_json
from rota.base.model import AttemptOutcome
from rota.base.telemetry import redact
from rota.run.app import Attempt, Registered, Reject, RetryLater
from rota.run.http_target import HttpCaller
from rota.run.lease import SUCCEEDED, Lease, Outcome
from rota.run.nats_target import NatsPublisher


class Executor:
    """Runs leases on handlers and targets."""

    def __init__(
        self,
        handlers: Mapping[str, Registered],
        http: HttpCaller,
        nats: NatsPublisher,
        *,
        default_timeout_s: float,
    ) -> None:
        self._handlers = handlers
        self._http = http
        self._nats = nats
        self._default = timedelta(seconds=default_timeout_s)

    def timeout_of(self, lease: Lease) -> timedelta | None:
        """How long the attempt may take. HTTP targets keep their own time."""
        handler = self._handler(lease)
        return None if handler is None else handler.timeout or self._default

    def is_plain(self, lease: Lease) -> bool:
        """Whether it is a plain function, which needs a thread."""
        handler = self._handler(lease)
        return handler is not None and not handler.is_async

    async def execute(self, lease: Lease) -> Outcome:
        """Run the attempt to its outcome. CancelledError passes through: only the worker knows why it cancelled."""
        kind, target = parse_target(lease.target)
        try:
            if kind == "http":
                outcome = await self._http.call(lease, target)
            elif kind == "nats":
                outcome = await self._nats.publish(lease, target)
            else:
                outcome = await self._call(lease, target)
        except asyncio.CancelledError:
            raise
        except Reject as error:
            outcome = _failed(AttemptOutcome.REJECTED, "Reject", error)
        except RetryLater as error:
            asked = timedelta(seconds=max(0.0, min(error.seconds, 366 * 86_400)))
            outcome = Outcome(outcome=AttemptOutcome.FAILED, error_class="RetryLater", error=_text(error), asked=asked)
        except BaseException as error:  # noqa: BLE001 - handlers may raise anything, SystemExit included
            outcome = _failed(AttemptOutcome.FAILED, type(error).__name__, error)
        await failpoint("run.after_effect")
        return outcome

    def _handler(self, lease: Lease) -> Registered | None:
        kind, target = parse_target(lease.target)
        return self._handlers.get(str(target.get("name"))) if kind == "handler" else None

    async def _call(self, lease: Lease, target: Mapping[str, Any]) -> Outcome:
        handler = self._handlers.get(str(target.get("name")))
        if handler is None:
            # Another fleet may know it: back without using up an attempt is the worker's to do.
            return Outcome(
                outcome=AttemptOutcome.INTERRUPTED, error=f"handler {target.get('name')!r} is not known here"
            )
        attempt = Attempt(lease, handler.timeout or self._default)
        if handler.is_async:
            result = await handler.call(attempt)
        else:
            result = await asyncio.to_thread(handler.call, attempt)
            if inspect.isawaitable(result):
                result = await result
        if result is None:
            return SUCCEEDED
        return Outcome(outcome=AttemptOutcome.SUCCEEDED, result=dump_json(result, lossy=True))


@lru_cache(maxsize=20_000)
def parse_target(text: str) -> tuple[str, Mapping[str, Any]]:
    """The kind of a target and its members; read once for schedules that share it."""
    document = load_json(text)
    kind = next(iter(document))
    return kind, document[kind]


def _failed(outcome: AttemptOutcome, error_class: str, error: BaseException) -> Outcome:
    return Outcome(outcome=outcome, error_class=error_class, error=_text(error))


def _text(error: BaseException) -> str:
    """The error and where it came from; made so that it cannot fail itself."""
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-6)
        return redact("".join(lines)[-6000:])
    except Exception:  # noqa: BLE001 - a foreign __str__ or __repr__ may raise anything
        return f"{type(error).__name__} (its text could not be read)"
