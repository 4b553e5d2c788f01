"""What becomes of a due occurrence whose schedule may not overlap: the whole table."""

import pytest

from rota.base.model import Overlap
from rota.queue.overlap import Situation, Verdict, judge

START, WAIT, SKIP, STOP = Verdict.START, Verdict.WAIT, Verdict.SKIP, Verdict.STOP_RUNNING


@pytest.mark.parametrize(
    ("retry", "running", "retrying", "earlier", "later", "skip", "queue_one", "cancel"),
    [
        # nothing in progress: the earliest starts, the others wait for it
        (False, False, False, False, False, START, START, START),
        (False, False, False, False, True, START, START, START),
        (False, False, False, True, False, WAIT, WAIT, WAIT),
        # one runs
        (False, True, False, False, False, SKIP, WAIT, STOP),
        (False, True, False, True, False, SKIP, SKIP, STOP),
        (False, True, False, False, True, SKIP, WAIT, SKIP),
        # one waits for its next attempt: it is still in progress
        (False, False, True, False, False, SKIP, WAIT, STOP),
        # it is itself the one in progress
        (True, False, False, False, False, START, START, START),
        (True, False, False, True, True, START, START, START),
        (True, True, False, False, False, WAIT, WAIT, WAIT),
    ],
)
def test_the_table(
    retry: bool,
    running: bool,
    retrying: bool,
    earlier: bool,
    later: bool,
    skip: Verdict,
    queue_one: Verdict,
    cancel: Verdict,
) -> None:
    at = Situation(is_retry=retry, has_running=running, has_retrying=retrying, has_earlier=earlier, has_later=later)
    assert judge(Overlap.SKIP_IF_RUNNING, at) is skip
    assert judge(Overlap.QUEUE_ONE, at) is queue_one
    assert judge(Overlap.CANCEL_RUNNING, at) is cancel
