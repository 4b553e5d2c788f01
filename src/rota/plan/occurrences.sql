-- name: occurrence_put (schedule_ids, fire_ats, available_ats, are_late)
-- Occurrences of chosen schedules in their present version. Late ones go to the recovery lane at once. An instant for
-- which an older version has something that started, or that ended otherwise than by the change, is left out: it has
-- been dealt with.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, w.fire_at, s.version, s.tenant_id,
    CASE WHEN w.is_late THEN coalesce(l.recovery_lane_id, s.lane_id) ELSE s.lane_id END, a.available_at, rota_now(),
    a.available_at + p.max_lateness_ms * interval '1 ms',
    CASE WHEN w.is_late THEN 'catch_up' ELSE 'timing' END::occurrence_trigger, p.is_exclusive
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::boolean[])
    AS w (schedule_id, fire_at, available_at, is_late)
JOIN schedules AS s USING (schedule_id)
JOIN policies AS p USING (policy_id)
JOIN lanes AS l USING (lane_id)
CROSS JOIN LATERAL (SELECT greatest(CASE WHEN w.is_late THEN rota_now()
    WHEN w.available_at IS NOT NULL THEN w.available_at
    WHEN p.window_ms = 0 THEN w.fire_at
    ELSE w.fire_at + rota_window_offset_ms(rota_run_key(s.schedule_id, s.version, w.fire_at), p.window_ms)
        * interval '1 ms' END, rota_now())) AS a (available_at)
WHERE s.version = 1 OR NOT (
    EXISTS (SELECT FROM occurrences AS o WHERE o.shard = s.shard AND o.schedule_id = s.schedule_id
        AND o.scheduled_for = w.fire_at AND o.version < s.version AND o.trigger IN ('timing', 'catch_up'))
    OR EXISTS (SELECT FROM dead_letters AS d WHERE d.shard = s.shard AND d.schedule_id = s.schedule_id
        AND d.scheduled_for = w.fire_at AND d.version < s.version AND d.trigger IN ('timing', 'catch_up'))
    OR EXISTS (SELECT FROM finished_occurrences AS f WHERE f.schedule_id = s.schedule_id
        AND f.scheduled_for = w.fire_at AND f.version < s.version AND f.trigger IN ('timing', 'catch_up')
        AND NOT (f.state = 'cancelled' AND f.reason IN ('superseded', 'paused'))))
ON CONFLICT DO NOTHING;

-- name: missed_put (schedule_ids, first_ats, last_ats, counts, reasons)
WITH written AS (
    INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, recorded_at)
    SELECT s.shard, s.schedule_id, s.version, m.first_at, m.last_at, m.n_missed, s.tenant_id, m.reason, rota_now()
    FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::text[])
        AS m (schedule_id, first_at, last_at, n_missed, reason)
    JOIN schedules AS s USING (schedule_id)
    ON CONFLICT DO NOTHING
    RETURNING reason, n_missed
)
SELECT reason, sum(n_missed)::bigint AS n_missed FROM written GROUP BY reason;

-- name: occurrence_cancel_unstarted (shards, schedule_ids, reason, with_retries)
-- In the transaction that has made a new version. A row that a worker is just claiming is waited for, and left alone
-- if the claim was first: then it has started. with_retries: those too that wait for their next attempt.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[]) AS w (shard, schedule_id), schedules AS s
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND s.schedule_id = w.schedule_id
        AND o.version < s.version AND o.lease_until IS NULL AND (o.attempt = 0 OR $4::boolean)
    RETURNING o.*
), kept AS (
    INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
        planned_at, available_at, started_at, finished_at, attempt, failures, losses, worker)
    SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, $3::text, planned_at,
        CASE WHEN isfinite(available_at) THEN available_at END, started_at, rota_now(), attempt, failures, losses, worker
    FROM gone
)
SELECT count(*) FROM gone;

-- name: occurrence_lowest_unstarted (shards, schedule_ids)
SELECT o.schedule_id, min(o.scheduled_for) AS scheduled_for
FROM unnest($1::smallint[], $2::uuid[]) AS w (shard, schedule_id)
JOIN occurrences AS o USING (shard, schedule_id)
WHERE o.lease_until IS NULL AND o.attempt = 0 AND o.trigger IN ('timing', 'catch_up')
GROUP BY o.schedule_id;

-- name: occurrence_move_unstarted (shards, schedule_ids, keeps_offset)
-- After a change that left the timing as it was: what has not started is cancelled in the old version and goes on in
-- the new one, at the very time it was to start (unless the flexible window changed). So an edit between the nominal
-- time and the start neither loses nor doubles the occurrence.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::boolean[]) AS w (shard, schedule_id, keeps_offset), schedules AS s
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND s.schedule_id = w.schedule_id
        AND o.version < s.version AND o.lease_until IS NULL AND o.attempt = 0
    RETURNING o.*, w.keeps_offset
), kept AS (
    INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
        planned_at, available_at, finished_at)
    SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, 'superseded', planned_at,
        available_at, rota_now()
    FROM gone
), moved AS (
    INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
        expires_at, trigger, is_exclusive)
    SELECT s.shard, s.schedule_id, g.scheduled_for, s.version, s.tenant_id,
        CASE WHEN g.trigger IN ('catch_up', 'backfill') THEN coalesce(l.recovery_lane_id, s.lane_id)
            ELSE s.lane_id END,
        a.available_at, g.planned_at,
        CASE WHEN g.trigger IN ('timing', 'catch_up') THEN a.available_at + p.max_lateness_ms * interval '1 ms' END,
        g.trigger, p.is_exclusive
    FROM gone AS g JOIN schedules AS s USING (schedule_id) JOIN policies AS p USING (policy_id)
    JOIN lanes AS l ON l.lane_id = s.lane_id
    CROSS JOIN LATERAL (SELECT CASE WHEN g.keeps_offset OR g.trigger <> 'timing' THEN g.available_at
        ELSE greatest(g.scheduled_for + rota_window_offset_ms(
            rota_run_key(s.schedule_id, s.version, g.scheduled_for), p.window_ms) * interval '1 ms', rota_now()) END)
        AS a (available_at)
    ON CONFLICT DO NOTHING
)
SELECT count(*) FROM gone;

-- name: occurrence_hold_retries (shards, schedule_ids)
-- Of a paused schedule: what waits for its next attempt waits for the resume.
UPDATE occurrences AS o SET available_at = 'infinity'
FROM unnest($1::smallint[], $2::uuid[]) AS w (shard, schedule_id)
WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.lease_until IS NULL AND isfinite(o.available_at);

-- name: occurrence_release_retries (shards, schedule_ids)
UPDATE occurrences AS o SET available_at = rota_now()
FROM unnest($1::smallint[], $2::uuid[]) AS w (shard, schedule_id)
WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.lease_until IS NULL AND NOT isfinite(o.available_at);

-- name: occurrence_ask_stop (shards, schedule_ids)
-- Cooperative: whoever holds the lease learns of it with its next heartbeat.
UPDATE occurrences AS o SET cancel_requested_at = coalesce(o.cancel_requested_at, rota_now())
FROM unnest($1::smallint[], $2::uuid[]) AS w (shard, schedule_id)
WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.lease_until IS NOT NULL;

-- name: occurrence_paused (schedule_ids, paused_ats)
-- What the pause that began at an instant has cancelled though its time had come before: it may still have to run.
SELECT f.schedule_id, f.scheduled_for, f.available_at
FROM unnest($1::uuid[], $2::timestamptz[]) AS w (schedule_id, paused_at)
JOIN finished_occurrences AS f USING (schedule_id)
WHERE f.state = 'cancelled' AND f.reason = 'paused' AND f.finished_at = w.paused_at
    AND f.scheduled_for <= w.paused_at AND f.trigger IN ('timing', 'catch_up')
ORDER BY f.schedule_id, f.scheduled_for;

-- name: occurrence_trigger (schedule_id, shift_us)
-- By hand, now. Its own instant, to the microsecond, is its nominal time; nothing of the rhythm moves. It never expires.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    trigger, is_exclusive)
SELECT s.shard, s.schedule_id, rota_now() + $2::integer * interval '1 microsecond', s.version, s.tenant_id, s.lane_id,
    rota_now(), rota_now(), 'manual', p.is_exclusive
FROM schedules AS s JOIN policies AS p USING (policy_id)
WHERE s.schedule_id = $1::uuid
    AND NOT EXISTS (SELECT FROM finished_occurrences AS f WHERE f.schedule_id = s.schedule_id
        AND f.scheduled_for = rota_now() + $2::integer * interval '1 microsecond' AND f.version = s.version)
ON CONFLICT DO NOTHING
RETURNING scheduled_for;

-- name: occurrence_find (tenant_id, shard, schedule_id, scheduled_for, version)
-- One occurrence, wherever it is.
SELECT schedule_id, version, scheduled_for, 'hot' AS place,
    CASE WHEN lease_until IS NOT NULL THEN 'running' WHEN available_at <= rota_now() THEN 'enqueued'
        WHEN failures + losses > 0 THEN 'retry_wait' ELSE 'scheduled' END AS state,
    trigger::text, NULL AS reason, attempt, failures, losses, planned_at, available_at, started_at,
    NULL::timestamptz AS finished_at, worker, NULL::integer AS status
FROM occurrences
WHERE shard = $2::smallint AND schedule_id = $3::uuid AND scheduled_for = $4::timestamptz AND version = $5::integer
    AND tenant_id = $1::bigint
UNION ALL
SELECT schedule_id, version, scheduled_for, 'dead', 'dead', trigger::text, reason, attempt, failures, losses, planned_at,
    NULL, started_at, died_at, worker, NULL
FROM dead_letters
WHERE shard = $2::smallint AND schedule_id = $3::uuid AND scheduled_for = $4::timestamptz AND version = $5::integer
    AND tenant_id = $1::bigint
UNION ALL
SELECT schedule_id, version, scheduled_for, 'finished', state::text, trigger::text, reason, attempt, failures, losses,
    planned_at, available_at, started_at, finished_at, worker, status
FROM finished_occurrences
WHERE schedule_id = $3::uuid AND scheduled_for = $4::timestamptz AND version = $5::integer AND tenant_id = $1::bigint;

-- name: occurrence_replay (tenant_id, shard, schedule_id, scheduled_for, version)
-- The same run key again, with a clean sheet of failures and losses; attempt and token go on growing, so that nobody
-- who held an old lease can write.
WITH gone AS (
    DELETE FROM dead_letters
    WHERE tenant_id = $1::bigint AND shard = $2::smallint AND schedule_id = $3::uuid
        AND scheduled_for = $4::timestamptz AND version = $5::integer
    RETURNING *
)
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    trigger, is_exclusive, attempt, token)
SELECT g.shard, g.schedule_id, g.scheduled_for, g.version, g.tenant_id, g.lane_id, rota_now(), g.planned_at, g.trigger,
    l.overlap <> 'allow', g.attempt, g.token
FROM gone AS g JOIN lanes AS l USING (lane_id);

-- name: occurrence_replay_many (tenant_id, schedule_id, from_at, to_at, reason, n, gap_us, start_at)
-- Oldest first into the recovery lanes, `gap_us` apart. A second press finds nothing left.
WITH chosen AS (
    SELECT shard, schedule_id, scheduled_for, version FROM dead_letters
    WHERE tenant_id = $1::bigint AND ($2::uuid IS NULL OR schedule_id = $2::uuid)
        AND ($3::timestamptz IS NULL OR scheduled_for >= $3::timestamptz)
        AND ($4::timestamptz IS NULL OR scheduled_for < $4::timestamptz)
        AND ($5::text IS NULL OR reason = $5::text)
    ORDER BY scheduled_for, schedule_id LIMIT $6::integer FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM dead_letters AS d USING chosen AS c
    WHERE d.shard = c.shard AND d.schedule_id = c.schedule_id AND d.scheduled_for = c.scheduled_for
        AND d.version = c.version
    RETURNING d.*
), put AS (
    INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
        trigger, is_exclusive, attempt, token)
    SELECT g.shard, g.schedule_id, g.scheduled_for, g.version, g.tenant_id, coalesce(l.recovery_lane_id, g.lane_id),
        greatest(rota_now(), coalesce($8::timestamptz, rota_now()))
            + (row_number() OVER (ORDER BY g.scheduled_for, g.schedule_id) - 1) * $7::bigint
            * interval '1 microsecond',
        g.planned_at, g.trigger, l.overlap <> 'allow', g.attempt, g.token
    FROM gone AS g JOIN lanes AS l USING (lane_id)
    RETURNING schedule_id, version, scheduled_for, available_at
)
SELECT schedule_id, version, scheduled_for, available_at FROM put ORDER BY scheduled_for, schedule_id;

-- name: occurrence_cancel (tenant_id, shard, schedule_id, scheduled_for, version, reason)
-- What waits is cancelled; a claim that was first turns it into what runs, which the next statement asks to stop.
WITH gone AS (
    DELETE FROM occurrences
    WHERE tenant_id = $1::bigint AND shard = $2::smallint AND schedule_id = $3::uuid
        AND scheduled_for = $4::timestamptz AND version = $5::integer AND lease_until IS NULL
    RETURNING *
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, available_at, started_at, finished_at, attempt, failures, losses, worker)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, $6::text, planned_at,
    CASE WHEN isfinite(available_at) THEN available_at END, started_at, rota_now(), attempt, failures, losses, worker
FROM gone;

-- name: occurrence_ask_one_stop (tenant_id, shard, schedule_id, scheduled_for, version)
UPDATE occurrences SET cancel_requested_at = coalesce(cancel_requested_at, rota_now())
WHERE tenant_id = $1::bigint AND shard = $2::smallint AND schedule_id = $3::uuid
    AND scheduled_for = $4::timestamptz AND version = $5::integer AND lease_until IS NOT NULL;
