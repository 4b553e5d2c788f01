"""Three real nodes, one killed every few seconds under load: nothing absent, nothing extra, no run without a cause.

`make soak` runs three minutes (ROTA_SOAK_S); the short form in tests/crash is the same with less time.
"""

import os

import pytest

from support.http_target import HttpTarget
from support.nodes import alternately_killed
from support.processes import Processes


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_three_nodes_killed_in_turn_for_minutes_lose_nothing_and_add_nothing(
    processes: Processes, http_target: HttpTarget, dsn: str
):
    seconds = float(os.environ.get("ROTA_SOAK_S", "180"))
    await alternately_killed(processes, http_target, dsn, seconds=seconds, every_s=5.0)
