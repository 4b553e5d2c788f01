-- name: shard_share (shards)
-- Shared with other API writes, exclusive against the planner, until the end of the transaction; ascending. A statement
-- of its own, so that the next one sees where the planner has got to.
SELECT pg_advisory_xact_lock_shared(7411, shard) FROM (
    SELECT DISTINCT shard FROM unnest($1::smallint[]) AS u (shard) ORDER BY shard
) AS ordered;

-- name: shard_cursor (shards)
SELECT shard, planned_through, rota_now() AS now FROM shards WHERE shard = ANY ($1::smallint[]);

-- name: now_get
SELECT rota_now() AS now;

-- name: occurrence_put (ids, fire_ats, triggers, in_recovery)
-- Occurrences of the current versions, whatever made them due: the part of a window that the planner has passed, a
-- manual run, a backfill. Rows that exist stay as they are.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, f.fire_at, s.version, s.tenant_id,
    CASE WHEN f.in_recovery THEN coalesce(l.recovery_lane_id, l.lane_id) ELSE l.lane_id END,
    w.available_at, rota_now(),
    CASE WHEN p.misfire = 'skip' AND f.trigger = 'timing'
        THEN w.available_at + greatest(p.max_lateness_ms, 5000) * interval '1 ms' END,
    f.trigger::occurrence_trigger, l.overlap <> 'allow'
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::boolean[]) AS f (schedule_id, fire_at, trigger, in_recovery)
JOIN schedules AS s ON s.schedule_id = f.schedule_id
JOIN policies AS p ON p.policy_id = s.policy_id
JOIN lanes AS l ON l.lane_id = s.lane_id
CROSS JOIN LATERAL (
    SELECT greatest(rota_now(), CASE WHEN p.window_ms = 0 OR f.trigger <> 'timing' THEN f.fire_at
        ELSE f.fire_at + interval '1 ms'
        * rota_window_offset_ms(rota_run_key(s.schedule_id, s.version, f.fire_at), p.window_ms) END) AS available_at
) AS w
ORDER BY s.shard, s.schedule_id, f.fire_at
ON CONFLICT DO NOTHING
RETURNING schedule_id, scheduled_for, version;

-- name: occurrence_put_manual (schedule_id)
-- Two runs in one microsecond are told apart by moving the second on; clock_timestamp goes on within a transaction.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    trigger, is_exclusive)
SELECT s.shard, s.schedule_id, greatest(rota_now(), last.scheduled_for + interval '1 us'), s.version, s.tenant_id,
    s.lane_id, rota_now(), rota_now(), 'manual', l.overlap <> 'allow'
FROM schedules AS s JOIN lanes AS l ON l.lane_id = s.lane_id
LEFT JOIN LATERAL (
    SELECT max(o.scheduled_for) AS scheduled_for FROM occurrences AS o
    WHERE o.shard = s.shard AND o.schedule_id = s.schedule_id AND o.trigger = 'manual'
) AS last ON true
WHERE s.schedule_id = $1::uuid
RETURNING schedule_id, version, scheduled_for;

-- name: occurrence_cancel_unstarted (ids, reason, with_retries)
-- What has not started of these schedules, whatever its version, becomes cancelled: a row claimed meanwhile is skipped,
-- since its claim came first. with_retries: also what waits for its next attempt.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING (
        SELECT c.ctid FROM occurrences AS c
        JOIN unnest($1::uuid[]) AS w (schedule_id)
            ON c.shard = get_byte(uuid_send(w.schedule_id), 15) AND c.schedule_id = w.schedule_id
        WHERE c.lease_until IS NULL AND (c.attempt = 0 OR $3::boolean)
        ORDER BY c.shard, c.schedule_id, c.scheduled_for
        FOR UPDATE
    ) AS locked
    WHERE o.ctid = locked.ctid AND o.lease_until IS NULL
    RETURNING o.*
), kept AS (
    INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
        planned_at, available_at, started_at, finished_at, attempt, failures, losses, worker)
    SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, $2::text, planned_at,
        CASE WHEN isfinite(available_at) THEN available_at END, started_at, rota_now(), attempt, failures, losses, worker
    FROM gone
)
SELECT schedule_id, version, scheduled_for, trigger FROM gone ORDER BY schedule_id, scheduled_for;

-- name: occurrence_hold (ids)
-- A pause: what waits for its next attempt waits for the end of the pause.
UPDATE occurrences AS o SET available_at = 'infinity'
FROM unnest($1::uuid[]) AS w (schedule_id)
WHERE o.shard = get_byte(uuid_send(w.schedule_id), 15) AND o.schedule_id = w.schedule_id
    AND o.lease_until IS NULL AND o.attempt > 0;

-- name: occurrence_release (ids)
-- The end of a pause.
UPDATE occurrences AS o SET available_at = rota_now()
FROM unnest($1::uuid[]) AS w (schedule_id)
WHERE o.shard = get_byte(uuid_send(w.schedule_id), 15) AND o.schedule_id = w.schedule_id
    AND o.lease_until IS NULL AND o.available_at = 'infinity';

-- name: occurrence_stop_running (ids)
-- Ask running attempts to stop; their heartbeats tell them.
UPDATE occurrences AS o SET cancel_requested_at = rota_now()
FROM unnest($1::uuid[]) AS w (schedule_id)
WHERE o.shard = get_byte(uuid_send(w.schedule_id), 15) AND o.schedule_id = w.schedule_id
    AND o.lease_until IS NOT NULL AND o.cancel_requested_at IS NULL;

-- name: occurrence_cancel_one (tenant_id, schedule_id, scheduled_for, version, reason)
-- One occurrence that does not run: cancelled.
WITH gone AS (
    DELETE FROM occurrences
    WHERE shard = get_byte(uuid_send($2::uuid), 15) AND schedule_id = $2::uuid AND scheduled_for = $3::timestamptz
        AND version = $4::integer AND tenant_id = $1::bigint AND lease_until IS NULL
    RETURNING *
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, available_at, started_at, finished_at, attempt, failures, losses, worker)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, $5::text, planned_at,
    CASE WHEN isfinite(available_at) THEN available_at END, started_at, rota_now(), attempt, failures, losses, worker
FROM gone
RETURNING schedule_id;

-- name: occurrence_stop_one (tenant_id, schedule_id, scheduled_for, version)
UPDATE occurrences SET cancel_requested_at = coalesce(cancel_requested_at, rota_now())
WHERE shard = get_byte(uuid_send($2::uuid), 15) AND schedule_id = $2::uuid AND scheduled_for = $3::timestamptz
    AND version = $4::integer AND tenant_id = $1::bigint AND lease_until IS NOT NULL
RETURNING schedule_id;

-- name: dead_letter_pick (tenant_id, schedule_id, from, until, reason, limit)
-- Dead letters to put back, oldest first, locked; one that somebody else puts back just now is left to them.
SELECT shard, schedule_id, scheduled_for, version FROM dead_letters
WHERE tenant_id = $1::bigint AND ($2::uuid IS NULL OR schedule_id = $2::uuid)
    AND ($3::timestamptz IS NULL OR scheduled_for >= $3::timestamptz)
    AND ($4::timestamptz IS NULL OR scheduled_for < $4::timestamptz)
    AND ($5::text IS NULL OR reason = $5::text)
ORDER BY scheduled_for, schedule_id
LIMIT $6::integer
FOR UPDATE SKIP LOCKED;

-- name: dead_letter_replay (tenant_id, shards, ids, scheduled_fors, versions, delays_ms, in_recovery)
-- Back into the queue with the same run key; attempts and tokens go on counting, failures start anew.
WITH gone AS (
    DELETE FROM dead_letters AS d
    USING unnest($2::smallint[], $3::uuid[], $4::timestamptz[], $5::integer[], $6::bigint[])
        AS w (shard, schedule_id, scheduled_for, version, delay_ms)
    WHERE d.shard = w.shard AND d.schedule_id = w.schedule_id AND d.scheduled_for = w.scheduled_for
        AND d.version = w.version AND d.tenant_id = $1::bigint
    RETURNING d.*, w.delay_ms
)
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    trigger, is_exclusive, attempt, token)
SELECT g.shard, g.schedule_id, g.scheduled_for, g.version, g.tenant_id,
    CASE WHEN $7::boolean THEN coalesce(l.recovery_lane_id, l.lane_id) ELSE l.lane_id END,
    rota_now() + g.delay_ms * interval '1 ms', rota_now(), g.trigger, l.overlap <> 'allow', g.attempt, g.token
FROM gone AS g JOIN lanes AS l ON l.lane_id = g.lane_id
RETURNING schedule_id, scheduled_for, version;
