-- name: occurrence_claim (lane_ids, takes, from_ats, from_ids, worker, lease_s)
-- The front of each chosen lane, from where the last claim stopped: rows before it are gone but may still stand in the
-- index while an old snapshot is held, and would be stepped over again and again. The token grows with every lease.
WITH picked AS MATERIALIZED (
    SELECT o.ctid AS row_id
    FROM unnest($1::bigint[], $2::integer[], $3::timestamptz[], $4::uuid[]) AS lane (lane_id, n, from_at, from_id)
    CROSS JOIN LATERAL (
        SELECT ctid FROM occurrences
        WHERE lane_id = lane.lane_id AND lease_until IS NULL AND available_at <= rota_now()
            AND (available_at, schedule_id) >= (lane.from_at, lane.from_id)
        ORDER BY available_at, schedule_id
        LIMIT lane.n
        FOR UPDATE SKIP LOCKED
    ) AS o
), claimed AS (
    UPDATE occurrences AS o SET lease_until = rota_now() + $6::double precision * interval '1 s', worker = $5::text,
        token = o.token + 1, attempt = o.attempt + 1, started_at = rota_now()
    FROM picked WHERE o.ctid = picked.row_id
    RETURNING o.schedule_id, o.version, o.scheduled_for, o.shard, o.tenant_id, o.lane_id, o.available_at, o.planned_at,
        o.attempt, o.failures, o.losses, o.token, o.trigger, o.started_at,
        o.attempt = 1 AND o.expires_at < rota_now() AS is_expired
)
SELECT c.*, v.target, v.payload, v.policy_id, v.definition ->> 'name' AS schedule_name
FROM claimed AS c JOIN schedule_versions AS v ON v.schedule_id = c.schedule_id AND v.version = c.version
ORDER BY c.available_at, c.schedule_id;

-- name: occurrence_judge (lane_ids, takes)
-- Lanes whose schedules may not overlap: what becomes of each due row. In progress is what is leased or waits for
-- another attempt. Only the earliest row that has not started may start, and only if none is in progress.
WITH due AS MATERIALIZED (
    SELECT lane.lane_id, o.*
    FROM unnest($1::bigint[], $2::integer[]) AS lane (lane_id, n)
    CROSS JOIN LATERAL (
        SELECT ctid AS row_id, shard, schedule_id, scheduled_for, version, attempt, available_at FROM occurrences
        WHERE lane_id = lane.lane_id AND lease_until IS NULL AND available_at <= rota_now()
        ORDER BY available_at, schedule_id
        LIMIT lane.n
        FOR UPDATE SKIP LOCKED
    ) AS o
)
SELECT d.lane_id, d.shard, d.schedule_id, d.scheduled_for, d.version, d.attempt > 0 AS is_retry,
    EXISTS (SELECT FROM occurrences AS r WHERE r.shard = d.shard AND r.schedule_id = d.schedule_id
        AND r.lease_until IS NOT NULL) AS has_running,
    EXISTS (SELECT FROM occurrences AS r WHERE r.shard = d.shard AND r.schedule_id = d.schedule_id
        AND r.lease_until IS NULL AND r.attempt > 0
        AND (r.scheduled_for, r.version) <> (d.scheduled_for, d.version)) AS has_retrying,
    EXISTS (SELECT FROM occurrences AS r WHERE r.shard = d.shard AND r.schedule_id = d.schedule_id
        AND r.lease_until IS NULL AND r.attempt = 0 AND r.available_at <= rota_now()
        AND (r.scheduled_for, r.version) < (d.scheduled_for, d.version)) AS has_earlier,
    EXISTS (SELECT FROM occurrences AS r WHERE r.shard = d.shard AND r.schedule_id = d.schedule_id
        AND r.lease_until IS NULL AND r.attempt = 0 AND r.available_at <= rota_now()
        AND (r.scheduled_for, r.version) > (d.scheduled_for, d.version)) AS has_later
FROM due AS d;

-- name: occurrence_claim_judged (shards, ids, scheduled_fors, versions, worker, lease_s)
-- What may start, by key: in the transaction that judged it. The unique index is the guarantee that it is alone.
WITH claimed AS (
    UPDATE occurrences AS o SET lease_until = rota_now() + $6::double precision * interval '1 s', worker = $5::text,
        token = o.token + 1, attempt = o.attempt + 1, started_at = rota_now()
    FROM unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[])
        AS w (shard, schedule_id, scheduled_for, version)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.lease_until IS NULL
    RETURNING o.schedule_id, o.version, o.scheduled_for, o.shard, o.tenant_id, o.lane_id, o.available_at, o.planned_at,
        o.attempt, o.failures, o.losses, o.token, o.trigger, o.started_at,
        o.attempt = 1 AND o.expires_at < rota_now() AS is_expired
)
SELECT c.*, v.target, v.payload, v.policy_id, v.definition ->> 'name' AS schedule_name
FROM claimed AS c JOIN schedule_versions AS v ON v.schedule_id = c.schedule_id AND v.version = c.version
ORDER BY c.available_at, c.schedule_id;

-- name: occurrence_skip (shards, ids, scheduled_fors, versions)
-- The one before still runs and the schedule says to skip then: a state with a reason.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[])
        AS w (shard, schedule_id, scheduled_for, version)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.lease_until IS NULL
    RETURNING o.*
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, available_at, finished_at, attempt, failures, losses)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'skipped_overlap', trigger, 'previous_in_progress',
    planned_at, available_at, rota_now(), attempt, failures, losses
FROM gone;

-- name: occurrence_stop (shards, ids)
-- cancel_running: ask what runs of these schedules to stop.
UPDATE occurrences AS o SET cancel_requested_at = rota_now()
FROM unnest($1::smallint[], $2::uuid[]) AS w (shard, schedule_id)
WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.lease_until IS NOT NULL
    AND o.cancel_requested_at IS NULL;
