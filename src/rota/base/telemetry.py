"""What can be observed: the catalogue of events, and who is told.

Code says once what happened (`emit(LeaseLostEvent(...))`); logs, metrics and tests subscribe. An event is a frozen
dataclass; `level` is its log level, the snake-case of its class its name. A subscriber that fails is dropped from the
call, never the caller. Metrics carry no tenant names. Values that look like secrets are masked before they are logged.
"""

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import structlog
from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)


class BatchHistogram(Collector):
    """A histogram that takes many values at once: the hot path counts by bucket, not by value."""

    def __init__(self, name: str, text: str, buckets: Sequence[float]) -> None:
        self._name, self._text, self._bounds = name, text, tuple(buckets)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        REGISTRY.register(self)

    def observe_many(self, values: Iterable[float]) -> None:
        """Count values in seconds."""
        bounds, counts = self._bounds, self._counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self._sum += value

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """What a scrape reads."""
        total, buckets = 0, []
        for bound, n in zip((*self._bounds, float("inf")), self._counts, strict=True):
            total += n
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        yield HistogramMetricFamily(self._name, self._text, buckets=buckets, sum_value=self._sum)


schedule_lag = BatchHistogram(
    "rota_schedule_lag_seconds", "Start of the first attempt minus scheduled_for", LAG_BUCKETS
)
occurrences_finished = Counter("rota_occurrences_total", "Finished occurrences by final state", ["state"])
occurrences_planned = Counter("rota_occurrences_planned_total", "Occurrences planned by trigger", ["trigger"])
occurrences_missed = Counter("rota_occurrences_missed_total", "Fires not run, by reason", ["reason"])
attempts_finished = Counter("rota_attempts_total", "Attempts by outcome", ["outcome"])
claims = Counter("rota_claimed_total", "Occurrences claimed")
lease_expiries = Counter("rota_lease_expiries_total", "Leases that ran out and were rescued")
stale_writes = Counter("rota_stale_writes_total", "Writes refused by a fencing token")
oldest_due_age = Gauge("rota_oldest_due_age_seconds", "Age of the oldest occurrence that waits for a worker")
planned_ahead = Gauge("rota_planned_ahead_seconds", "How far the slowest shard is planned ahead of now")
clock_offset = Gauge("rota_clock_offset_seconds", "This node's clock minus the database's")
service_progress_at = Gauge("rota_service_progress_timestamp_seconds", "Last progress of a service", ["service"])
service_failures = Counter("rota_service_failures_total", "Ticks of a service that failed", ["service"])
audit_absent = Gauge("rota_audit_absent", "Expected occurrences that the last audit did not find")
audit_extra = Gauge("rota_audit_extra", "Occurrences the last audit could not explain")
partition_days_ahead = Gauge("rota_partition_days_ahead", "Days for which partitions exist already")
slots_used = Gauge("rota_worker_slots_used", "Attempts running in this worker")
slots_stuck = Gauge("rota_worker_slots_stuck", "Slots held by code that outlived its timeout")
api_requests = Counter("rota_api_requests_total", "Answered requests", ["method", "route", "status"])
api_latency = Histogram("rota_api_latency_seconds", "Time to answer", ["route"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The root of all events."""

    level: ClassVar[str] = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarted(Event):
    """A loop began."""

    level: ClassVar[str] = "debug"
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStopped(Event):
    """A loop ended."""

    level: ClassVar[str] = "debug"
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFailed(Event):
    """A tick failed and will be tried again."""

    level: ClassVar[str] = "warning"
    service: str
    error: str
    retry_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest(Event):
    """A request was answered."""

    level: ClassVar[str] = "debug"
    method: str
    route: str
    status: int
    seconds: float
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFailed(Event):
    """A request failed for a reason of ours."""

    level: ClassVar[str] = "error"
    method: str
    path: str
    error: BaseException
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Event):
    """A window was planned."""

    level: ClassVar[str] = "debug"
    n_shards: int
    n_occurrences: int
    through: str
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsChanged(Event):
    """This node owns other shards than before."""

    node: str
    n_shards: int
    n_gained: int
    n_lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CadenceSetAside(Event):
    """A timing in the store cannot be computed; its schedules are not planned until it is mended."""

    level: ClassVar[str] = "error"
    cadence_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished(Event):
    """One attempt ended."""

    level: ClassVar[str] = "debug"
    run_key: str
    number: int
    outcome: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrenceDied(Event):
    """An occurrence became a dead letter."""

    level: ClassVar[str] = "warning"
    run_key: str
    reason: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleWrite(Event):
    """A write was refused since the lease had moved on."""

    level: ClassVar[str] = "warning"
    run_key: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired(Event):
    """A lease ran out; the occurrence goes on without its worker."""

    level: ClassVar[str] = "warning"
    run_key: str
    worker: str | None
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockOffset(Event):
    """This node's clock is off; nothing is decided by it, but logs are."""

    level: ClassVar[str] = "warning"
    offset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinished(Event):
    """The continuous audit ended a pass."""

    n_expected: int
    n_absent: int
    n_extra: int


Subscriber = Callable[[Event], None]
_subscribers: list[Subscriber] = []

_SECRET_NAME = re.compile(r"(?i)authorization|secret|password|token|api[-_]?key|cookie|signature")
_SECRET_VALUE = re.compile(
    r"rota_[A-Za-z0-9]+_[A-Za-z0-9_-]{16,}|whsec_[A-Za-z0-9+/=]+|(?i:bearer)\s+[A-Za-z0-9._~+/=-]+"
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def emit(event: Event) -> None:
    """Tell everybody who subscribed."""
    for subscriber in tuple(_subscribers):
        try:
            subscriber(event)
        except Exception as error:  # noqa: BLE001 - an observer must not break what it observes
            sys.stderr.write(f"rota: a telemetry subscriber failed: {type(error).__name__}: {error}\n")


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Be told of every event; the returned function ends that."""
    _subscribers.append(subscriber)
    return lambda: _subscribers.remove(subscriber) if subscriber in _subscribers else None


@contextmanager
def recorded() -> Iterator[list[Event]]:
    """The events of a block, in order: what tests look at."""
    events: list[Event] = []
    end = subscribe(events.append)
    try:
        yield events
    finally:
        end()


def redact(text: str) -> str:
    """A text without keys, bearer tokens and credentials in URLs."""
    return _URL_CREDENTIALS.sub("***", _SECRET_VALUE.sub("***", text))


def name_of(event: Event) -> str:
    """The name of an event in logs: `lease_expired`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()


def service_progress(service: str) -> None:
    """Note that a service made progress just now."""
    service_progress_at.labels(service).set_to_current_time()


def count(event: Event) -> None:
    """The subscriber that turns events into metrics."""
    match event:
        case ServiceFailed():
            service_failures.labels(event.service).inc()
        case ApiRequest():
            api_requests.labels(event.method, event.route, str(event.status)).inc()
            api_latency.labels(event.route).observe(event.seconds)
        case StaleWrite():
            stale_writes.inc()
        case LeaseExpired():
            lease_expiries.inc()
        case AuditFinished():
            audit_absent.set(event.n_absent)
            audit_extra.set(event.n_extra)
        case ClockOffset():
            clock_offset.set(event.offset_s)
        case _:
            pass


_logger = structlog.get_logger("rota")


def log(event: Event) -> None:
    """The subscriber that writes events to the log."""
    members = {field.name: getattr(event, field.name) for field in fields(event)}
    getattr(_logger, event.level)(name_of(event), **members)


def set_up(*, log_format: str = "auto", level: str = "info") -> None:
    """Logs to stderr as JSON or for people, metrics from events. Called once by a process."""
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    renderer: Any = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _mask,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _subscribers[:] = [subscriber for subscriber in _subscribers if subscriber not in (log, count)]
    _subscribers.extend((log, count))


def _mask(_logger: Any, _method: str, members: Any) -> Any:
    for name, value in members.items():
        if _SECRET_NAME.search(name) and name != "token_number":
            members[name] = "***"
        elif isinstance(value, str):
            members[name] = redact(value)
    return members


registry = REGISTRY
