-- The read side of the API. Nothing here writes. An occurrence lives in one of three places (occurrences while it is not
-- finished, dead_letters, finished_occurrences); each block gives the three in one shape. Lists are walked backwards
-- by (scheduled_for, schedule_id, version) from a cursor; places that cannot hold the wanted states are not looked at.

-- name: occurrence_get (tenant_id, shard, schedule_id, scheduled_for, version)
SELECT schedule_id, version, scheduled_for,
    CASE WHEN lease_until IS NOT NULL THEN 'running' WHEN available_at <= rota_now() THEN 'enqueued'
         WHEN failures + losses > 0 THEN 'retry_wait' ELSE 'scheduled' END AS state,
    trigger::text AS trigger, NULL AS reason, planned_at, available_at, started_at, NULL::timestamptz AS finished_at,
    attempt, failures, losses, worker, lease_until, cancel_requested_at, NULL::integer AS status, NULL AS result,
    NULL AS last_error, token
FROM occurrences
WHERE shard = $2::smallint AND schedule_id = $3::uuid AND scheduled_for = $4::timestamptz AND version = $5::integer
    AND tenant_id = $1::bigint
UNION ALL
SELECT schedule_id, version, scheduled_for, 'dead', trigger::text, reason, planned_at, NULL, started_at, died_at,
    attempt, failures, losses, worker, NULL, NULL, NULL, NULL, last_error, token
FROM dead_letters
WHERE shard = $2::smallint AND schedule_id = $3::uuid AND scheduled_for = $4::timestamptz AND version = $5::integer
    AND tenant_id = $1::bigint
UNION ALL
SELECT schedule_id, version, scheduled_for, state::text, trigger::text, reason, planned_at, available_at, started_at,
    finished_at, attempt, failures, losses, worker, NULL, NULL, status, result, NULL, NULL
FROM finished_occurrences
WHERE schedule_id = $3::uuid AND scheduled_for = $4::timestamptz AND version = $5::integer AND tenant_id = $1::bigint;

-- name: attempt_list (tenant_id, schedule_id, scheduled_for, version, n)
-- The attempts that did not succeed, oldest first. The one that did is in the finished row.
SELECT number, token, outcome::text AS outcome, worker, started_at, finished_at, status, error_class, error, retry_at
FROM attempts
WHERE schedule_id = $2::uuid AND scheduled_for = $3::timestamptz AND version = $4::integer AND tenant_id = $1::bigint
ORDER BY token LIMIT $5::integer;

-- name: occurrence_page_of_schedule (tenant_id, shard, schedule_id, from_at, to_at, before_at, before_version, n, hot, hot_state, dead, finished, finished_state)
-- Of one schedule: each place is walked by its key.
WITH hot AS (
    SELECT schedule_id, version, scheduled_for,
        CASE WHEN lease_until IS NOT NULL THEN 'running' WHEN available_at <= rota_now() THEN 'enqueued'
             WHEN failures + losses > 0 THEN 'retry_wait' ELSE 'scheduled' END AS state,
        trigger::text AS trigger, NULL AS reason, planned_at, available_at, started_at,
        NULL::timestamptz AS finished_at, attempt, failures, losses, worker, lease_until, cancel_requested_at,
        NULL::integer AS status, NULL AS result, NULL AS last_error
    FROM occurrences
    WHERE $9::boolean AND shard = $2::smallint AND schedule_id = $3::uuid AND tenant_id = $1::bigint
        AND scheduled_for >= $4::timestamptz AND scheduled_for < $5::timestamptz
        AND (scheduled_for, version) < ($6::timestamptz, $7::integer)
)
SELECT * FROM (
    (SELECT * FROM hot WHERE $10::text IS NULL OR state = $10::text
     ORDER BY scheduled_for DESC, version DESC LIMIT $8::integer)
    UNION ALL
    (SELECT schedule_id, version, scheduled_for, 'dead', trigger::text, reason, planned_at, NULL, started_at, died_at,
        attempt, failures, losses, worker, NULL, NULL, NULL, NULL, last_error
     FROM dead_letters
     WHERE $11::boolean AND shard = $2::smallint AND schedule_id = $3::uuid AND tenant_id = $1::bigint
        AND scheduled_for >= $4::timestamptz AND scheduled_for < $5::timestamptz
        AND (scheduled_for, version) < ($6::timestamptz, $7::integer)
     ORDER BY scheduled_for DESC, version DESC LIMIT $8::integer)
    UNION ALL
    (SELECT schedule_id, version, scheduled_for, state::text, trigger::text, reason, planned_at, available_at,
        started_at, finished_at, attempt, failures, losses, worker, NULL, NULL, status, NULL, NULL
     FROM finished_occurrences
     WHERE $12::boolean AND schedule_id = $3::uuid AND tenant_id = $1::bigint
        AND scheduled_for >= $4::timestamptz AND scheduled_for < $5::timestamptz
        AND (scheduled_for, version) < ($6::timestamptz, $7::integer)
        AND ($13::text IS NULL OR state = $13::text::final_state)
     ORDER BY scheduled_for DESC, version DESC LIMIT $8::integer)
) AS found
ORDER BY scheduled_for DESC, version DESC LIMIT $8::integer;

-- name: occurrence_page_hot (tenant_id, from_at, to_at, before_at, before_id, before_version, n, state)
-- What is not finished of a whole tenant. There is no index by tenant, which planning would pay for at every insert:
-- its lanes lead to what waits, and what runs is little. available_at is never before scheduled_for. So the rows with
-- the latest available_at up to the cursor, a page of each lane, tell how far back the page can reach (probe, edge), and
-- only rows from there on are looked at; those that became available after the cursor are among them.
WITH probe AS (
    SELECT o.scheduled_for FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT o.scheduled_for FROM occurrences AS o
        WHERE o.lane_id = l.lane_id AND o.lease_until IS NULL AND o.available_at >= $2::timestamptz
            AND o.available_at <= least($3::timestamptz, $4::timestamptz,
                CASE WHEN $8::text = 'enqueued' THEN rota_now() END)
            AND o.scheduled_for >= $2::timestamptz AND o.scheduled_for < $3::timestamptz
            AND (o.scheduled_for, o.schedule_id, o.version) < ($4::timestamptz, $5::uuid, $6::integer)
            AND ($8::text IS NULL OR $8::text = CASE WHEN o.available_at <= rota_now() THEN 'enqueued'
                WHEN o.failures + o.losses > 0 THEN 'retry_wait' ELSE 'scheduled' END)
        ORDER BY o.available_at DESC, o.schedule_id DESC LIMIT $7::integer
    ) AS o
    WHERE l.tenant_id = $1::bigint AND $8::text IS DISTINCT FROM 'running'
    ORDER BY o.scheduled_for DESC LIMIT $7::integer
), edge AS MATERIALIZED (
    SELECT CASE WHEN count(*) < $7::integer THEN $2::timestamptz ELSE min(scheduled_for) END AS at FROM probe
), waiting AS (
    SELECT o.* FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT * FROM occurrences AS o
        WHERE o.lane_id = l.lane_id AND o.lease_until IS NULL AND o.available_at >= (SELECT at FROM edge)
            AND o.available_at <= CASE WHEN $8::text = 'enqueued' THEN rota_now() ELSE 'infinity' END
            AND o.scheduled_for >= (SELECT at FROM edge) AND o.scheduled_for < $3::timestamptz
            AND (o.scheduled_for, o.schedule_id, o.version) < ($4::timestamptz, $5::uuid, $6::integer)
    ) AS o
    WHERE l.tenant_id = $1::bigint AND $8::text IS DISTINCT FROM 'running'
), running AS (
    SELECT * FROM occurrences
    WHERE lease_until IS NOT NULL AND tenant_id = $1::bigint AND ($8::text IS NULL OR $8::text = 'running')
        AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
        AND (scheduled_for, schedule_id, version) < ($4::timestamptz, $5::uuid, $6::integer)
), hot AS (
    SELECT schedule_id, version, scheduled_for,
        CASE WHEN lease_until IS NOT NULL THEN 'running' WHEN available_at <= rota_now() THEN 'enqueued'
             WHEN failures + losses > 0 THEN 'retry_wait' ELSE 'scheduled' END AS state,
        trigger::text AS trigger, NULL AS reason, planned_at, available_at, started_at,
        NULL::timestamptz AS finished_at, attempt, failures, losses, worker, lease_until, cancel_requested_at,
        NULL::integer AS status, NULL AS result, NULL AS last_error
    FROM (SELECT * FROM waiting UNION ALL SELECT * FROM running) AS o
)
SELECT * FROM hot WHERE $8::text IS NULL OR state = $8::text
ORDER BY scheduled_for DESC, schedule_id DESC, version DESC LIMIT $7::integer;

-- name: occurrence_page_dead (tenant_id, from_at, to_at, before_at, before_id, before_version, n)
SELECT schedule_id, version, scheduled_for, 'dead' AS state, trigger::text AS trigger, reason, planned_at,
    NULL::timestamptz AS available_at, started_at, died_at AS finished_at, attempt, failures, losses, worker,
    NULL::timestamptz AS lease_until, NULL::timestamptz AS cancel_requested_at, NULL::integer AS status,
    NULL AS result, last_error
FROM dead_letters
WHERE tenant_id = $1::bigint AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
    AND (scheduled_for, schedule_id) <= ($4::timestamptz, $5::uuid)
    AND (scheduled_for, schedule_id, version) < ($4::timestamptz, $5::uuid, $6::integer)
ORDER BY scheduled_for DESC, schedule_id DESC, version DESC LIMIT $7::integer;

-- name: occurrence_page_finished (tenant_id, from_at, to_at, before_at, before_id, before_version, n, state)
-- By (tenant_id, scheduled_for, schedule_id), newest day first. The first comparison is for the index, the second exact.
SELECT schedule_id, version, scheduled_for, state::text AS state, trigger::text AS trigger, reason, planned_at,
    available_at, started_at, finished_at, attempt, failures, losses, worker, NULL::timestamptz AS lease_until,
    NULL::timestamptz AS cancel_requested_at, status, NULL AS result, NULL AS last_error
FROM finished_occurrences
WHERE tenant_id = $1::bigint AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
    AND scheduled_for <= $4::timestamptz AND (scheduled_for, schedule_id) <= ($4::timestamptz, $5::uuid)
    AND (scheduled_for, schedule_id, version) < ($4::timestamptz, $5::uuid, $6::integer)
    AND ($8::text IS NULL OR state = $8::text::final_state)
ORDER BY scheduled_for DESC, schedule_id DESC, version DESC LIMIT $7::integer;

-- name: occurrence_page_odd (tenant_id, from_at, to_at, before_at, before_id, before_version, n, state)
-- As above for one of the rarer states, which have an index of their own.
SELECT schedule_id, version, scheduled_for, state::text AS state, trigger::text AS trigger, reason, planned_at,
    available_at, started_at, finished_at, attempt, failures, losses, worker, NULL::timestamptz AS lease_until,
    NULL::timestamptz AS cancel_requested_at, status, NULL AS result, NULL AS last_error
FROM finished_occurrences
WHERE tenant_id = $1::bigint AND state = $8::text::final_state AND state <> 'succeeded'
    AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
    AND scheduled_for <= $4::timestamptz AND (scheduled_for, schedule_id) <= ($4::timestamptz, $5::uuid)
    AND (scheduled_for, schedule_id, version) < ($4::timestamptz, $5::uuid, $6::integer)
ORDER BY scheduled_for DESC, schedule_id DESC, version DESC LIMIT $7::integer;

-- name: missed_page_of_schedule (tenant_id, shard, schedule_id, from_at, to_at, before_at, before_version, n)
SELECT schedule_id, version, first_at, last_at, n_missed, reason, recorded_at FROM missed_ranges
WHERE shard = $2::smallint AND schedule_id = $3::uuid AND tenant_id = $1::bigint
    AND last_at >= $4::timestamptz AND first_at < $5::timestamptz
    AND (last_at, version) < ($6::timestamptz, $7::integer)
ORDER BY last_at DESC, version DESC LIMIT $8::integer;

-- name: missed_page (tenant_id, from_at, to_at, before_at, before_id, before_version, n)
SELECT schedule_id, version, first_at, last_at, n_missed, reason, recorded_at FROM missed_ranges
WHERE tenant_id = $1::bigint AND last_at >= $2::timestamptz AND first_at < $3::timestamptz
    AND last_at <= $4::timestamptz AND (last_at, schedule_id, version) < ($4::timestamptz, $5::uuid, $6::integer)
ORDER BY last_at DESC, schedule_id DESC, version DESC LIMIT $7::integer;

-- name: oldest_due ()
-- Each lane's front is one index probe, so the cost follows the lanes that have work and not the number of rows.
WITH RECURSIVE front AS (
    (SELECT lane_id, available_at FROM occurrences WHERE lease_until IS NULL
     ORDER BY lane_id, available_at, schedule_id LIMIT 1)
    UNION ALL
    SELECT n.lane_id, n.available_at FROM front AS f
    CROSS JOIN LATERAL (
        SELECT lane_id, available_at FROM occurrences WHERE lease_until IS NULL AND lane_id > f.lane_id
        ORDER BY lane_id, available_at, schedule_id LIMIT 1
    ) AS n
)
SELECT coalesce(extract(epoch FROM rota_now() - min(available_at) FILTER (WHERE available_at <= rota_now())), 0)::float8
        AS age_s,
    count(*) FILTER (WHERE available_at <= rota_now()) AS n_lanes
FROM (SELECT * FROM front LIMIT 10000) AS f;

-- name: database_state ()
SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on' AS is_read_only,
    rota_now() AS now,
    (SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = 'occurrences'::regclass) AS n_occurrences_about;

-- name: backfill_get (tenant_id, backfill_id)
SELECT backfill_id, schedule_id, version, state, range_from, range_until, rate, n_planned, planned_through, created_at
FROM backfills WHERE backfill_id = $2::uuid AND tenant_id = $1::bigint;

-- name: backfill_page (tenant_id, schedule_id, before_at, before_id, n)
SELECT backfill_id, schedule_id, version, state, range_from, range_until, rate, n_planned, planned_through, created_at
FROM backfills
WHERE tenant_id = $1::bigint AND (created_at, backfill_id) < ($3::timestamptz, $4::uuid)
    AND ($2::uuid IS NULL OR schedule_id = $2::uuid)
ORDER BY created_at DESC, backfill_id DESC LIMIT $5::integer;
