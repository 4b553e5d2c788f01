"""The systems that are compared: their store, how their queue is counted, and what one must know of each figure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HOUR: Final = "W1"
LIFECYCLE: Final = "W3"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system. `lead_s(n)` is how long before the instant n schedules must begin to be loaded."""

    name: str
    module: str
    environment: str
    package: str
    store: str
    queued: str | None
    completed: str | None
    lead_s: Callable[[int], float] = lambda n: 10 + n / 2000
    is_whole_minutes: bool = False
    has_gate: bool = True
    most_workers: int = 64
    note: str = ""


SYSTEMS: Final = (
    System(
        name="rota",
        module="rota_peer.py",
        environment="product",
        package="rota-scheduler",
        store="postgresql",
        queued="SELECT count(*) FROM occurrences WHERE available_at <= now()",
        completed="SELECT count(*) FROM finished_occurrences WHERE state = 'succeeded'",
        lead_s=lambda n: 20 + n / 2000,
        has_gate=False,
        note="W1: rows are durable before the instant and due at it",
    ),
    System(
        name="pgqueuer",
        module="pgqueuer_peer.py",
        environment="postgres",
        package="pgqueuer",
        store="postgresql",
        queued="SELECT count(*) FROM pgqueuer",
        completed="SELECT {n} - count(*) FROM pgqueuer",
        lead_s=lambda n: 10 + n / 250,
        note="W1: schedules are static (registered in code)",
    ),
    System(
        name="oban",
        module="oban_peer.py",
        environment="postgres",
        package="oban",
        store="postgresql",
        queued="SELECT count(*) FROM oban_jobs",
        completed="SELECT count(*) FROM oban_jobs WHERE state = 'completed'",
        lead_s=lambda n: 10 + n / 3000,
        is_whole_minutes=True,
        note="W1: schedules are static, whole minutes",
    ),
    System(
        name="procrastinate",
        module="procrastinate_peer.py",
        environment="postgres",
        package="procrastinate",
        store="postgresql",
        queued="SELECT count(*) FROM procrastinate_jobs",
        completed="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
        lead_s=lambda n: 10 + n / 400,
        note="W1: schedules are static",
    ),
    System(
        name="apscheduler",
        module="apscheduler_peer.py",
        environment="postgres",
        package="apscheduler",
        store="postgresql",
        queued="SELECT count(*) FROM apscheduler_jobs WHERE next_run_time > {due_at} + 1",
        completed="SELECT {n} - count(*) FROM apscheduler_jobs",
        lead_s=lambda n: 8 + n / 3000,
        most_workers=1,
        note="no queue: counted is the advanced next_run_time (W1), the removal of the job (W3); one process at most",
    ),
    System(
        name="celery-beat",
        module="celery_peer.py",
        environment="celery",
        package="celery",
        store="redis",
        queued="celery-queued",
        completed=None,
        lead_s=lambda n: 12 + n / 1000,
        note="Celery's own scheduler; schedules are static",
    ),
    System(
        name="redbeat",
        module="redbeat_peer.py",
        environment="celery",
        package="celery-redbeat",
        store="redis",
        queued="celery-queued",
        completed=None,
        lead_s=lambda n: 12 + n / 3000,
        note="a scheduler for Celery only",
    ),
    System(
        name="celery",
        module="celery_peer.py",
        environment="celery",
        package="celery",
        store="redis",
        queued=None,
        completed="celery-completed",
        has_gate=False,
        note="acks_late, one prefork child a worker, results not kept",
    ),
    System(
        name="taskiq",
        module="taskiq_peer.py",
        environment="taskiq",
        package="taskiq",
        store="redis",
        queued="taskiq-queued",
        completed="taskiq-completed",
        lead_s=lambda n: 15 + n / 1000,
        is_whole_minutes=True,
        has_gate=False,
        note="W1: whole minutes; W3: acknowledged in the stream",
    ),
)
