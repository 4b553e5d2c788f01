"""The short form of the nodes' soak test."""

from support.http_target import HttpTarget
from support.nodes import alternately_killed
from support.processes import Processes


async def test_three_nodes_killed_in_turn_lose_nothing_and_add_nothing(
    processes: Processes, http_target: HttpTarget, dsn: str
):
    await alternately_killed(processes, http_target, dsn, seconds=12.0, every_s=3.0)
