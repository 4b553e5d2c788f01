"""A page of schedules reads about as many rows as it shows, whoever else has schedules and labels of the same name."""

import json
from typing import Any
from uuid import UUID

import pytest

from rota.base.db import load_queries
from rota.catalog import schedules

READS = load_queries(schedules.__file__, "schedule_reads.sql")
PAGE = 20
MOST_ROWS = 3 * PAGE


def rows_scanned(node: dict[str, Any]) -> float:
    """The largest number of rows that one scan touched, those it threw away included."""
    own = node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    scanned = own if "Scan" in node["Node Type"] else 0
    return max([scanned, *(rows_scanned(child) for child in node.get("Plans", []))])


async def fill(connection, tenant_id: int, n: int) -> None:
    await connection.execute(
        "INSERT INTO schedules (schedule_id, shard, tenant_id, version, state, lane_id, policy_id, active_from, name,"
        " group_name, labels) SELECT gen_random_uuid(), 0, $1, 1, CASE WHEN n % 50 = 0 THEN 'paused' ELSE 'active' END"
        "::schedule_state, 1, 1, now(), 'n' || n % 100, 'g' || n % 100, '{\"team\": \"a\"}'"
        " FROM generate_series(1, $2) AS n",
        tenant_id,
        n,
    )
    await connection.execute(
        "INSERT INTO schedule_labels SELECT tenant_id, 'team=a', schedule_id FROM schedules WHERE tenant_id = $1",
        tenant_id,
    )


@pytest.mark.parametrize(
    ("block", "name", "group", "state", "label"),
    [
        ("schedule_page", None, None, None, None),
        ("schedule_page", None, None, "active", None),
        ("schedule_page_named", "n7", None, None, None),
        ("schedule_page_grouped", None, "g7", None, None),
        ("schedule_page_not_active", None, None, "paused", None),
        ("schedule_page_labelled", None, None, None, "team=a"),
    ],
)
async def test_a_page_reads_about_as_many_rows_as_it_shows(
    db, tenant, stranger, connection, block, name, group, state, label
):
    await fill(connection, tenant.tenant_id, 3000)
    await fill(connection, stranger.tenant_id, 10_000)
    await connection.execute("ANALYZE schedules, schedule_labels")
    arguments = [tenant.tenant_id, UUID(int=0), PAGE, name, group, state, *([label] if label else [])]
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    plan = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {READS[block].text}", *arguments))
    assert rows_scanned(plan[0]["Plan"]) <= MOST_ROWS, json.dumps(plan, indent=1)
