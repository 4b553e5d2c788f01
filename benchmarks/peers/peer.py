"""What the processes of every measured system share: where the stores are, the gate, the mark of the first start.

A system is one file with up to four roles, each run as a process of its own in the environment of that system:

    load-fires N DUE_AT    make ready N schedules due at that instant (epoch seconds); not timed
    fire N DUE_AT          the scheduler process; runs until it is terminated
    load-jobs N            put N no-op jobs into the queue, already due; not timed
    work INDEX             one worker process; waits for the gate where it can; runs until it is terminated
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

DSN = os.environ.get("PEERS_DSN", "")
REDIS_URL = os.environ.get("PEERS_REDIS_URL", "")
RUN = Path(os.environ.get("PEERS_RUN", "."))

_is_marked = False


def started() -> None:
    """Called by every no-op job: the first call in a process leaves its wall-clock time for the runner."""
    global _is_marked  # noqa: PLW0603
    if not _is_marked:
        _is_marked = True
        (RUN / f"started.{os.getpid()}").write_text(repr(time.time()))


def wait_for_gate(index: int) -> None:
    """Say that this worker is ready, then wait until all of them may go: imports and connecting are not timed."""
    (RUN / f"ready.{index}").touch()
    while not (RUN / "go").exists():
        time.sleep(0.002)


def main(roles: Mapping[str, Callable[..., None]]) -> None:
    """Run the role named on the command line with its arguments as numbers."""
    role, *arguments = sys.argv[1:]
    roles[role](*[float(one) if "." in one else int(one) for one in arguments])
