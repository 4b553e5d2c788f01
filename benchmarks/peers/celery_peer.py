"""Celery on Redis, its schedules in beat's own persistent scheduler.

Messages are acknowledged late and results are not kept. `python -m celery` imports this file for its app.
"""

import os
import sys
from datetime import UTC, datetime, timedelta

import peer
from celery import Celery
from celery.schedules import schedule

EVERY = timedelta(hours=1)

app = Celery("celery_peer", broker=f"{peer.REDIS_URL}/0")
app.conf.update(
    broker_connection_retry_on_startup=True,
    enable_utc=True,
    task_acks_late=True,
    task_ignore_result=True,
    timezone="UTC",
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=64,
)


@app.task(name="noop")
def noop() -> None:
    peer.started()


if "PEERS_FIRES" in os.environ:
    count, due_at = os.environ["PEERS_FIRES"].split()
    last_run_at = datetime.fromtimestamp(int(due_at), UTC) - EVERY
    entry = {"task": "noop", "schedule": schedule(EVERY), "last_run_at": last_run_at}
    app.conf.beat_schedule = {f"s{number}": entry for number in range(int(count))}


def become(*arguments: str) -> None:
    """Go on as Celery's command line, with this folder on the path."""
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    os.execv(sys.executable, [sys.executable, "-m", "celery", "-A", "celery_peer", *arguments])


def load_fires(n: int, due_at: int) -> None:
    (peer.RUN / "beat-schedule").unlink(missing_ok=True)


def fire(n: int, due_at: int) -> None:
    os.environ["PEERS_FIRES"] = f"{n} {due_at}"
    become("beat", "-s", str(peer.RUN / "beat-schedule"), "-l", "ERROR", "--pidfile=")


def load_jobs(n: int) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(n):
            noop.apply_async(producer=producer)


def work(index: int) -> None:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    become("worker", "-l", "ERROR", "-P", "prefork", "-c", "1", "-n", f"node-{index}", *quiet)


if __name__ == "__main__":
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
