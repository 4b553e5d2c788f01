"""RedBeat: Celery's schedules kept in Redis. Its loop looks every second instead of every five minutes.

Entries are written in a pipeline in the form that an entry's own `save` gives them: saving one by one is not measured.
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta

import peer
import redis
from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatSchedulerEntry
from redbeat.decoder import RedBeatJSONEncoder

EVERY = timedelta(hours=1)
LOAD_BATCH = 1000

app = Celery("redbeat_peer", broker=f"{peer.REDIS_URL}/0")
app.conf.update(
    beat_max_loop_interval=1,
    enable_utc=True,
    redbeat_lock_timeout=600,
    redbeat_redis_url=f"{peer.REDIS_URL}/2",
    task_ignore_result=True,
    timezone="UTC",
)


@app.task(name="noop")
def noop() -> None:
    peer.started()


def load_fires(n: int, due_at: int) -> None:
    last_run_at = datetime.fromtimestamp(due_at, UTC) - EVERY
    model = RedBeatSchedulerEntry("s0", "noop", schedule(EVERY), app=app)
    model.save()
    store = redis.Redis.from_url(f"{peer.REDIS_URL}/2", decode_responses=True)
    definition = json.loads(store.hget(model.key, "definition"))
    meta = json.dumps({"last_run_at": last_run_at}, cls=RedBeatJSONEncoder)
    pipeline = store.pipeline(transaction=False)
    for number in range(n):
        key = f"redbeat:s{number}"
        pipeline.hset(key, mapping={"definition": json.dumps({**definition, "name": f"s{number}"}), "meta": meta})
        pipeline.zadd("redbeat::schedule", {key: due_at})
        if number % LOAD_BATCH == LOAD_BATCH - 1:
            pipeline.execute()
    pipeline.execute()


def fire(n: int, due_at: int) -> None:
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    scheduler = ["beat", "-S", "redbeat.RedBeatScheduler", "-l", "ERROR", "--pidfile="]
    os.execv(sys.executable, [sys.executable, "-m", "celery", "-A", "redbeat_peer", *scheduler])


if __name__ == "__main__":
    peer.main({"load-fires": load_fires, "fire": fire})
