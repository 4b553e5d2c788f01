-- name: audit_instant ()
-- The clock of the cell and the cursors of its shards.
SELECT rota_now() AS now, (SELECT min(planned_through) FROM shards) AS planned_through;

-- name: audit_today ()
SELECT (rota_now() AT TIME ZONE 'UTC')::date;

-- name: audit_latest ()
-- Nothing behind the last cursor can be judged, however far the window reaches.
SELECT max(planned_through) FROM shards;

-- name: audit_cursors ()
-- Read in the snapshot that reads the rows: a slot up to the cursor must be there.
SELECT shard, planned_through FROM shards ORDER BY shard;

-- name: audit_bound (after_id, n)
-- The end of the next stretch of n versions in id order; no row: the last stretch. Index only.
SELECT schedule_id FROM (
    SELECT schedule_id FROM schedule_versions WHERE schedule_id > $1::uuid ORDER BY schedule_id LIMIT $2::integer) AS s
ORDER BY schedule_id DESC LIMIT 1;

-- name: audit_bound_of_tenant (after_id, n, tenant_id)
SELECT schedule_id FROM (
    SELECT schedule_id FROM schedules WHERE tenant_id = $3::bigint AND schedule_id > $1::uuid
    ORDER BY schedule_id LIMIT $2::integer) AS s
ORDER BY schedule_id DESC LIMIT 1;

-- name: audit_versions_between (after_id, through_id, tenant_id, from_at)
-- The versions of a stretch of schedules that may have a row in the window: in force in it, or superseded so shortly
-- before that the planner was ahead of the change.
SELECT v.schedule_id, v.version, v.state = 'active' AS is_active, v.cadence_id, v.fire_at, v.active_from, v.active_until,
    v.activated_at, v.superseded_at
FROM (
    SELECT schedule_id, version, state, cadence_id, fire_at, active_from, active_until, activated_at,
        lead(activated_at) OVER (PARTITION BY schedule_id ORDER BY version) AS superseded_at
    FROM schedule_versions
    WHERE schedule_id > $1::uuid AND schedule_id <= $2::uuid AND ($3::bigint IS NULL OR tenant_id = $3::bigint)
) AS v
WHERE v.superseded_at IS NULL OR v.superseded_at >= $4::timestamptz - interval '1 day'
ORDER BY v.schedule_id, v.version;

-- name: audit_versions_of (schedule_ids, from_at)
-- The same for chosen schedules.
SELECT v.schedule_id, v.version, v.state = 'active' AS is_active, v.cadence_id, v.fire_at, v.active_from, v.active_until,
    v.activated_at, v.superseded_at
FROM (
    SELECT schedule_id, version, state, cadence_id, fire_at, active_from, active_until, activated_at,
        lead(activated_at) OVER (PARTITION BY schedule_id ORDER BY version) AS superseded_at
    FROM schedule_versions WHERE schedule_id = ANY ($1::uuid[])
) AS v
WHERE v.superseded_at IS NULL OR v.superseded_at >= $2::timestamptz - interval '1 day'
ORDER BY v.schedule_id, v.version;

-- name: audit_due (shard, cadence_ids, after_id, n, from_at, until_at)
-- Schedules of a shard that should fire in the window: by cadence from the index alone, and one-shots. A one-shot that
-- left no trace stays active, so it is found here.
SELECT schedule_id FROM (
    SELECT schedule_id FROM schedules
    WHERE shard = $1::smallint AND state = 'active' AND cadence_id = ANY ($2::bigint[]) AND schedule_id > $3::uuid
    UNION ALL
    SELECT schedule_id FROM schedules
    WHERE shard = $1::smallint AND state = 'active' AND fire_at >= $5::timestamptz AND fire_at < $6::timestamptz
        AND schedule_id > $3::uuid
) AS d
ORDER BY schedule_id LIMIT $4::integer;

-- name: audit_changed (from_at, after_id, n)
-- Schedules with a version that began in the window or after it.
SELECT DISTINCT schedule_id FROM schedule_versions
WHERE activated_at >= $1::timestamptz AND schedule_id > $2::uuid
ORDER BY schedule_id LIMIT $3::integer;

-- name: audit_size ()
-- How large the cell is, from the statistics: a small one is audited whole each time.
SELECT greatest(0, (SELECT reltuples FROM pg_class WHERE oid = 'schedule_versions'::regclass))::bigint AS n_versions,
    coalesce((SELECT sum(greatest(0, c.reltuples)) FROM pg_class AS c
        WHERE c.oid IN (SELECT relid FROM pg_partition_tree('finished_occurrences') WHERE isleaf)
            AND c.relname >= rota_partition_name('finished_occurrences', (rota_now() AT TIME ZONE 'UTC')::date - 1)),
        0)::bigint AS n_finished;

-- name: audit_rows_between (after_id, through_id, from_at, until_at)
-- Whatever is there for a stretch of the whole id space, known schedule or not.
SELECT schedule_id, version, scheduled_for, state::text, reason, trigger::text, started_at IS NOT NULL AS has_started
FROM finished_occurrences
WHERE schedule_id > $1::uuid AND schedule_id <= $2::uuid AND scheduled_for >= $3::timestamptz
    AND scheduled_for < $4::timestamptz
UNION ALL
SELECT d.schedule_id, d.version, d.scheduled_for, 'dead', d.reason, d.trigger::text, true
FROM generate_series(0, 255) AS s (shard), LATERAL (
    SELECT * FROM dead_letters
    WHERE shard = s.shard::smallint AND schedule_id > $1::uuid AND schedule_id <= $2::uuid
        AND scheduled_for >= $3::timestamptz AND scheduled_for < $4::timestamptz) AS d
UNION ALL
SELECT o.schedule_id, o.version, o.scheduled_for,
    CASE WHEN o.lease_until IS NOT NULL THEN 'running' WHEN o.available_at <= rota_now() THEN 'enqueued'
        WHEN o.failures + o.losses > 0 THEN 'retry_wait' ELSE 'scheduled' END,
    NULL, o.trigger::text, o.attempt > 0
FROM generate_series(0, 255) AS s (shard), LATERAL (
    SELECT * FROM occurrences
    WHERE shard = s.shard::smallint AND schedule_id > $1::uuid AND schedule_id <= $2::uuid
        AND scheduled_for >= $3::timestamptz AND scheduled_for < $4::timestamptz) AS o;

-- name: audit_rows_of (schedule_ids, from_at, until_at)
-- Whatever is there for chosen schedules: one look-up each, so that a short window never reads a whole day.
SELECT f.schedule_id, f.version, f.scheduled_for, f.state::text, f.reason, f.trigger::text,
    f.started_at IS NOT NULL AS has_started
FROM unnest($1::uuid[]) AS w (schedule_id), LATERAL (
    SELECT * FROM finished_occurrences
    WHERE schedule_id = w.schedule_id AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
    OFFSET 0) AS f
UNION ALL
SELECT d.schedule_id, d.version, d.scheduled_for, 'dead', d.reason, d.trigger::text, true
FROM unnest($1::uuid[]) AS w (schedule_id), LATERAL (
    SELECT * FROM dead_letters
    WHERE shard = get_byte(uuid_send(w.schedule_id), 15) AND schedule_id = w.schedule_id
        AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz OFFSET 0) AS d
UNION ALL
SELECT o.schedule_id, o.version, o.scheduled_for,
    CASE WHEN o.lease_until IS NOT NULL THEN 'running' WHEN o.available_at <= rota_now() THEN 'enqueued'
        WHEN o.failures + o.losses > 0 THEN 'retry_wait' ELSE 'scheduled' END,
    NULL, o.trigger::text, o.attempt > 0
FROM unnest($1::uuid[]) AS w (schedule_id), LATERAL (
    SELECT * FROM occurrences
    WHERE shard = get_byte(uuid_send(w.schedule_id), 15) AND schedule_id = w.schedule_id
        AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz OFFSET 0) AS o;

-- name: audit_orphans_of_tenant (tenant_id, from_at, until_at, n)
-- Rows of a tenant whose schedule nobody ever made.
SELECT r.schedule_id, r.version, r.scheduled_for
FROM (
    SELECT schedule_id, version, scheduled_for FROM finished_occurrences
    WHERE tenant_id = $1::bigint AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
    UNION ALL
    SELECT schedule_id, version, scheduled_for FROM dead_letters
    WHERE tenant_id = $1::bigint AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
    UNION ALL
    SELECT schedule_id, version, scheduled_for FROM occurrences
    WHERE tenant_id = $1::bigint AND scheduled_for >= $2::timestamptz AND scheduled_for < $3::timestamptz
) AS r
WHERE NOT EXISTS (SELECT FROM schedule_versions AS v WHERE v.schedule_id = r.schedule_id)
LIMIT $4::integer;

-- name: audit_missed_between (after_id, through_id, from_at, until_at)
SELECT m.schedule_id, m.first_at, m.last_at
FROM generate_series(0, 255) AS s (shard), LATERAL (
    SELECT * FROM missed_ranges
    WHERE shard = s.shard::smallint AND schedule_id > $1::uuid AND schedule_id <= $2::uuid
        AND first_at < $4::timestamptz AND last_at >= $3::timestamptz) AS m;

-- name: audit_missed_of (schedule_ids, from_at, until_at)
SELECT m.schedule_id, m.first_at, m.last_at
FROM unnest($1::uuid[]) AS w (schedule_id), LATERAL (
    SELECT * FROM missed_ranges
    WHERE shard = get_byte(uuid_send(w.schedule_id), 15) AND schedule_id = w.schedule_id
        AND first_at < $3::timestamptz AND last_at >= $2::timestamptz OFFSET 0) AS m;

-- name: audit_backfills (schedule_ids)
-- Only asked when a backfilled row was found; one row a backfill, so the table is small.
SELECT schedule_id, range_from AS first_at, range_until AS last_at FROM backfills WHERE schedule_id = ANY ($1::uuid[]);

-- name: audit_cadences (cadence_ids)
SELECT cadence_id, timing, set_aside FROM cadences WHERE cadence_id = ANY ($1::bigint[]);

-- name: audit_cadence_page (after_id, n)
SELECT cadence_id, timing, set_aside FROM cadences WHERE cadence_id > $1::bigint ORDER BY cadence_id LIMIT $2::integer;
