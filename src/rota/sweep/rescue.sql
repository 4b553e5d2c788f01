-- name: occurrence_rescue (n)
-- Leases that ran out, oldest first, from the lease rows alone: no worker table is asked, so it does not matter whether
-- the worker's node is still known. Locked rows are another keeper's, or a heartbeat's that came just in time: skipped.
WITH lost AS MATERIALIZED (
    SELECT * FROM occurrences WHERE lease_until <= rota_now()
    ORDER BY lease_until LIMIT $1::integer FOR UPDATE SKIP LOCKED
)
SELECT o.shard, o.schedule_id, o.scheduled_for, o.version, o.tenant_id, o.lane_id, o.attempt, o.failures, o.losses,
    o.token, o.worker, o.started_at, o.available_at, o.cancel_requested_at IS NOT NULL AS is_cancel_requested,
    s.state AS schedule_state, p.document AS policy, l.queue, l.target_key, b.outcomes, b.lost_with, rota_now() AS now
FROM lost AS o
LEFT JOIN schedules AS s ON s.schedule_id = o.schedule_id
LEFT JOIN schedule_versions AS v ON v.schedule_id = o.schedule_id AND v.version = o.version
LEFT JOIN policies AS p ON p.policy_id = v.policy_id
LEFT JOIN lanes AS l ON l.lane_id = o.lane_id
LEFT JOIN LATERAL (
    SELECT array_agg(t.outcome::text ORDER BY t.token DESC) AS outcomes,
        array_agg(t.lost_with ORDER BY t.token DESC) AS lost_with
    FROM (
        SELECT a.outcome, a.lost_with, a.token FROM attempts AS a
        WHERE a.schedule_id = o.schedule_id AND a.scheduled_for = o.scheduled_for AND a.version = o.version
        ORDER BY a.token DESC LIMIT 10) AS t
) AS b ON o.losses > 0;

-- name: lease_count (workers)
-- How many leases each of these workers holds, run out or not: what a crash of it takes along.
SELECT worker, count(*) AS n_held FROM occurrences
WHERE lease_until IS NOT NULL AND worker = ANY ($1::text[]) GROUP BY worker;

-- name: attempt_lose (schedule_ids, scheduled_fors, versions, numbers, tokens, tenant_ids, workers, started_ats, retry_ats, lost_with)
INSERT INTO attempts (schedule_id, scheduled_for, version, number, token, tenant_id, outcome, worker, started_at,
    finished_at, error_class, error, retry_at, lost_with)
SELECT w.schedule_id, w.scheduled_for, w.version, w.number, w.token, w.tenant_id, 'lost', w.worker, w.started_at,
    rota_now(), 'lease_expired', 'the worker stopped renewing its lease', w.retry_at, w.lost_with
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::integer[], $5::bigint[], $6::bigint[], $7::text[],
    $8::timestamptz[], $9::timestamptz[], $10::integer[])
    AS w (schedule_id, scheduled_for, version, number, token, tenant_id, worker, started_at, retry_at, lost_with)
ON CONFLICT DO NOTHING;

-- name: occurrence_release (shards, schedule_ids, scheduled_fors, versions, tokens, retry_ats)
-- Back to its lane. The token moves on, so that nothing the lost worker still writes can meet this row.
UPDATE occurrences AS o SET lease_until = NULL, worker = NULL, losses = o.losses + 1, token = o.token + 1,
    available_at = w.retry_at
FROM unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::timestamptz[])
    AS w (shard, schedule_id, scheduled_for, version, token, retry_at)
WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
    AND o.version = w.version AND o.token = w.token AND o.lease_until IS NOT NULL;

-- name: occurrence_bury (shards, schedule_ids, scheduled_fors, versions, tokens, reasons, errors)
WITH dead AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::text[], $7::text[])
        AS w (shard, schedule_id, scheduled_for, version, token, reason, error)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token AND o.lease_until IS NOT NULL
    RETURNING o.*, w.reason, w.error
)
INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, attempt,
    failures, losses, token, started_at, died_at, reason, last_error, worker)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, attempt, failures,
    losses + 1, token + 1, started_at, rota_now(), reason, error, worker
FROM dead;

-- name: occurrence_drop (shards, schedule_ids, scheduled_fors, versions, tokens, reasons)
-- Lost after its cancellation was asked for, or after its schedule was cancelled: it does not start again.
WITH dropped AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::text[])
        AS w (shard, schedule_id, scheduled_for, version, token, reason)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token AND o.lease_until IS NOT NULL
    RETURNING o.*, w.reason
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, available_at, started_at, finished_at, attempt, failures, losses, worker)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'cancelled', trigger, reason, planned_at, available_at,
    started_at, rota_now(), attempt, failures, losses + 1, worker
FROM dropped;
