"""APScheduler 3 with its SQLAlchemy job store on PostgreSQL and a pool of threads.

It has no queue: a due job is handed to a thread and then written back (next_run_time advanced, or removed after its
last run). That write is what is counted. Loading clones the stored form of one job, for there is no bulk call.
"""

import logging
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta

import peer
import psycopg
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

THREADS = 20


def noop() -> None:
    peer.started()


def scheduler() -> BackgroundScheduler:
    store = SQLAlchemyJobStore(url=peer.DSN.replace("postgresql://", "postgresql+psycopg2://"))
    made = BackgroundScheduler(
        jobstores={"default": store},
        executors={"default": ThreadPoolExecutor(THREADS)},
        job_defaults={"coalesce": True, "misfire_grace_time": None},
        timezone="UTC",
    )
    made.start(paused=True)
    return made


def load(n: int, trigger: BaseTrigger) -> None:
    made = scheduler()
    made.add_job("apscheduler_peer:noop", trigger, id="0")
    with psycopg.connect(peer.DSN, autocommit=True) as connection:
        row = connection.execute("SELECT next_run_time, job_state FROM apscheduler_jobs").fetchone()
        if row is None:
            raise RuntimeError("the first job was not stored")
        state = pickle.loads(row[1])
        with connection.cursor().copy("COPY apscheduler_jobs (id, next_run_time, job_state) FROM STDIN") as copy:
            for number in range(1, n):
                state["id"] = str(number)
                copy.write_row((str(number), row[0], pickle.dumps(state, pickle.HIGHEST_PROTOCOL)))
    made.shutdown(wait=False)


def load_fires(n: int, due_at: int) -> None:
    load(n, IntervalTrigger(hours=1, start_date=datetime.fromtimestamp(due_at, UTC), timezone="UTC"))


def fire(n: int, due_at: int) -> None:
    scheduler().resume()
    threading.Event().wait()


def load_jobs(n: int) -> None:
    load(n, DateTrigger(datetime.now(UTC) + timedelta(seconds=1), "UTC"))
    time.sleep(1)


def work(index: int) -> None:
    made = scheduler()
    peer.wait_for_gate(index)
    made.resume()
    threading.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    peer.main({"load-fires": load_fires, "fire": fire, "load-jobs": load_jobs, "work": work})
