-- name: backfill_insert (backfill_id, tenant_id, schedule_id, version, range_from, range_until, rate, actor)
-- planned_through: everything before it is planned; the first instant of the range belongs to it.
INSERT INTO backfills (backfill_id, tenant_id, schedule_id, version, range_from, range_until, planned_through, rate,
    created_at, actor)
VALUES ($1::uuid, $2::bigint, $3::uuid, $4::integer, $5::timestamptz, $6::timestamptz,
    $5::timestamptz - interval '1 microsecond', $7::float8, rota_now(), $8::text)
RETURNING backfill_id, schedule_id, version, state, range_from, range_until, rate, n_planned, planned_through,
    created_at;

-- name: backfill_now ()
SELECT rota_now();

-- name: backfill_take (before, after_id)
-- The next running one in order of age. Whoever holds it is working on it: look at the next.
SELECT b.backfill_id, b.created_at, b.schedule_id, b.range_until, b.planned_through,
    s.state::text AS schedule_state, s.cadence_id, s.fire_at,
    floor(extract(epoch FROM rota_now() - b.created_at) * b.rate)::bigint + ceil(b.rate)::bigint - b.n_planned AS n_due
FROM backfills AS b JOIN schedules AS s USING (schedule_id)
WHERE b.state = 'running' AND (b.created_at, b.backfill_id) > ($1::timestamptz, $2::uuid)
ORDER BY b.created_at, b.backfill_id LIMIT 1 FOR UPDATE OF b SKIP LOCKED;

-- name: backfill_put (schedule_id, fire_ats)
-- Into the recovery lane. An instant that has an occurrence already is left out, whatever became of it, but for those
-- that a change or a pause took back: what has run is not run again, and a run key is never used twice.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    trigger, is_exclusive)
SELECT s.shard, s.schedule_id, w.fire_at, s.version, s.tenant_id, coalesce(l.recovery_lane_id, s.lane_id), rota_now(),
    rota_now(), 'backfill', p.is_exclusive
FROM unnest($2::timestamptz[]) AS w (fire_at)
JOIN schedules AS s ON s.schedule_id = $1::uuid
JOIN policies AS p USING (policy_id)
JOIN lanes AS l USING (lane_id)
WHERE NOT EXISTS (SELECT FROM occurrences AS o WHERE o.shard = s.shard AND o.schedule_id = s.schedule_id
        AND o.scheduled_for = w.fire_at)
    AND NOT EXISTS (SELECT FROM dead_letters AS d WHERE d.shard = s.shard AND d.schedule_id = s.schedule_id
        AND d.scheduled_for = w.fire_at)
    AND NOT EXISTS (SELECT FROM finished_occurrences AS f WHERE f.schedule_id = s.schedule_id
        AND f.scheduled_for = w.fire_at
        AND (f.version = s.version OR NOT (f.state = 'cancelled' AND f.reason IN ('superseded', 'paused'))))
ON CONFLICT DO NOTHING;

-- name: backfill_advance (backfill_id, planned_through, n_more, state)
UPDATE backfills SET planned_through = $2::timestamptz, n_planned = n_planned + $3::bigint, state = $4::text
WHERE backfill_id = $1::uuid;

-- name: backfill_cancel (backfill_id, tenant_id)
UPDATE backfills SET state = 'cancelled' WHERE backfill_id = $1::uuid AND tenant_id = $2::bigint AND state = 'running'
RETURNING schedule_id, version, range_from, range_until;

-- name: backfill_find (backfill_id, tenant_id)
SELECT state FROM backfills WHERE backfill_id = $1::uuid AND tenant_id = $2::bigint;

-- name: backfill_cancel_occurrences (shard, schedule_id, range_from, range_until, reason)
WITH gone AS (
    DELETE FROM occurrences
    WHERE shard = $1::smallint AND schedule_id = $2::uuid AND trigger = 'backfill' AND lease_until IS NULL
        AND attempt = 0 AND scheduled_for >= $3::timestamptz AND scheduled_for < $4::timestamptz
    RETURNING *
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, available_at, finished_at)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, $5::text, planned_at, available_at,
    rota_now()
FROM gone;
