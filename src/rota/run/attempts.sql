-- name: occurrence_heartbeat (shards, ids, scheduled_fors, versions, tokens, lease_s)
-- Whoever is not returned has lost its lease: it ran out, was taken by another, or the occurrence is finished.
UPDATE occurrences AS o SET lease_until = rota_now() + $6::double precision * interval '1 s'
FROM (
    SELECT c.ctid FROM occurrences AS c
    JOIN unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[])
        AS w (shard, schedule_id, scheduled_for, version, token)
        ON c.shard = w.shard AND c.schedule_id = w.schedule_id AND c.scheduled_for = w.scheduled_for
        AND c.version = w.version AND c.token = w.token
    WHERE c.lease_until > rota_now()
    FOR UPDATE OF c
) AS mine
WHERE o.ctid = mine.ctid
RETURNING o.schedule_id, o.scheduled_for, o.version, o.token, o.cancel_requested_at IS NOT NULL AS is_cancel_requested;

-- name: occurrence_finish (ids, scheduled_fors, versions, tokens, statuses, results)
-- Succeeded: out of the hot table, into history, in one statement. Fenced by the token and by the lease still holding.
-- Every array costs the client; the shard follows from the id, and statuses and results are empty where there are none.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[], $5::integer[], $6::text[])
        AS w (schedule_id, scheduled_for, version, token, status, result)
    WHERE o.shard = get_byte(uuid_send(w.schedule_id), 15) AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token AND o.lease_until > rota_now()
    RETURNING o.*, w.status, w.result
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, planned_at,
    available_at, started_at, finished_at, attempt, failures, losses, worker, status, result)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'succeeded', trigger, planned_at, available_at, started_at,
    rota_now(), attempt, failures, losses, worker, status, result
FROM gone
RETURNING schedule_id, scheduled_for, version;

-- name: occurrence_retry (shards, ids, scheduled_fors, versions, tokens, outcomes, statuses, error_classes, errors, waits_ms, worker)
-- Failed, to be tried again: back to its lane, the attempt is written down. A schedule that was paused meanwhile holds
-- it.
WITH back AS (
    UPDATE occurrences AS o SET lease_until = NULL, worker = NULL, failures = o.failures + 1,
        available_at = CASE WHEN s.state = 'paused' THEN 'infinity'::timestamptz
            ELSE rota_now() + w.wait_ms * interval '1 ms' END
    FROM unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::text[], $7::integer[],
        $8::text[], $9::text[], $10::bigint[])
        AS w (shard, schedule_id, scheduled_for, version, token, outcome, status, error_class, error, wait_ms)
    LEFT JOIN schedules AS s ON s.schedule_id = w.schedule_id
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token AND o.lease_until > rota_now()
    RETURNING o.schedule_id, o.scheduled_for, o.version, o.attempt, o.token, o.tenant_id, o.started_at, o.available_at,
        w.outcome, w.status, w.error_class, w.error
)
INSERT INTO attempts (schedule_id, scheduled_for, version, number, token, tenant_id, outcome, worker, started_at,
    finished_at, status, error_class, error, retry_at)
SELECT schedule_id, scheduled_for, version, attempt, token, tenant_id, outcome::attempt_outcome, $11::text, started_at,
    rota_now(), status, error_class, error, CASE WHEN isfinite(available_at) THEN available_at END
FROM back
RETURNING schedule_id, scheduled_for, version;

-- name: occurrence_bury (shards, ids, scheduled_fors, versions, tokens, outcomes, statuses, error_classes, errors, reasons, worker)
-- Out of tries, or never to be tried again: a dead letter, with the attempt that ended it.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::text[], $7::integer[],
        $8::text[], $9::text[], $10::text[])
        AS w (shard, schedule_id, scheduled_for, version, token, outcome, status, error_class, error, reason)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token AND o.lease_until > rota_now()
    RETURNING o.*, w.outcome, w.status, w.error_class, w.error, w.reason
), written AS (
    INSERT INTO attempts (schedule_id, scheduled_for, version, number, token, tenant_id, outcome, worker, started_at,
        finished_at, status, error_class, error)
    SELECT schedule_id, scheduled_for, version, attempt, token, tenant_id, outcome::attempt_outcome, $11::text,
        started_at, rota_now(), status, error_class, error
    FROM gone
)
INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, attempt,
    failures, losses, token, started_at, died_at, reason, last_error, worker)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, attempt, failures + 1, losses,
    token, started_at, rota_now(), reason, error, $11::text
FROM gone
RETURNING schedule_id, scheduled_for, version;

-- name: occurrence_end (shards, ids, scheduled_fors, versions, tokens, states, reasons, outcomes, errors, worker)
-- Ended without success or failure: cancelled while it ran, or missed since it started too late.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::text[], $7::text[],
        $8::text[], $9::text[])
        AS w (shard, schedule_id, scheduled_for, version, token, state, reason, outcome, error)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token AND o.lease_until > rota_now()
    RETURNING o.*, w.state, w.reason, w.outcome, w.error
), written AS (
    INSERT INTO attempts (schedule_id, scheduled_for, version, number, token, tenant_id, outcome, worker, started_at,
        finished_at, error)
    SELECT schedule_id, scheduled_for, version, attempt, token, tenant_id, outcome::attempt_outcome, $10::text,
        started_at, rota_now(), error
    FROM gone WHERE outcome IS NOT NULL
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, available_at, started_at, finished_at, attempt, failures, losses, worker)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, state::final_state, trigger, reason, planned_at,
    available_at, CASE WHEN outcome IS NULL THEN NULL ELSE started_at END, rota_now(),
    attempt - CASE WHEN outcome IS NULL THEN 1 ELSE 0 END, failures, losses, $10::text
FROM gone
RETURNING schedule_id, scheduled_for, version;

-- name: occurrence_give_back (shards, ids, scheduled_fors, versions, tokens)
-- Claimed but not started: back to the front of its lane at once, as if it had never been claimed.
UPDATE occurrences AS o SET lease_until = NULL, worker = NULL, attempt = o.attempt - 1,
    started_at = CASE WHEN o.attempt > 1 THEN o.started_at END
FROM unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[])
    AS w (shard, schedule_id, scheduled_for, version, token)
WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
    AND o.version = w.version AND o.token = w.token AND o.lease_until IS NOT NULL;

-- name: occurrence_interrupt (shards, ids, scheduled_fors, versions, tokens, errors, max_losses, worker)
-- Its worker stops: a loss, not a failure, with a bound of its own.
WITH ended AS MATERIALIZED (
    SELECT o.ctid AS row_id, o.losses + 1 >= $7::integer AS is_over, w.error
    FROM occurrences AS o
    JOIN unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[], $5::bigint[], $6::text[])
        AS w (shard, schedule_id, scheduled_for, version, token, error)
        ON o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version AND o.token = w.token
    WHERE o.lease_until > rota_now()
    FOR UPDATE OF o
), back AS (
    UPDATE occurrences AS o SET lease_until = NULL, worker = NULL, losses = o.losses + 1, available_at = rota_now()
    FROM ended AS e WHERE o.ctid = e.row_id AND NOT e.is_over
    RETURNING o.schedule_id, o.scheduled_for, o.version, o.attempt, o.token, o.tenant_id, o.started_at, e.error
), gone AS (
    DELETE FROM occurrences AS o USING ended AS e WHERE o.ctid = e.row_id AND e.is_over
    RETURNING o.*, e.error
), buried AS (
    INSERT INTO dead_letters (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger,
        attempt, failures, losses, token, started_at, died_at, reason, last_error, worker)
    SELECT shard, schedule_id, scheduled_for, version, tenant_id, lane_id, planned_at, trigger, attempt, failures,
        losses + 1, token, started_at, rota_now(), 'interrupted', error, $8::text FROM gone
)
INSERT INTO attempts (schedule_id, scheduled_for, version, number, token, tenant_id, outcome, worker, started_at,
    finished_at, error)
SELECT schedule_id, scheduled_for, version, attempt, token, tenant_id, 'interrupted'::attempt_outcome, $8::text,
    started_at, rota_now(), error
FROM (
    SELECT schedule_id, scheduled_for, version, attempt, token, tenant_id, started_at, error FROM back
    UNION ALL
    SELECT schedule_id, scheduled_for, version, attempt, token, tenant_id, started_at, error FROM gone
) AS all_ended
RETURNING schedule_id, scheduled_for, version;

-- name: policy_read (policy_ids)
SELECT policy_id, document FROM policies WHERE policy_id = ANY ($1::bigint[]);

-- name: breaker_read (tenant_ids, target_keys)
SELECT b.tenant_id, b.target_key, b.state, b.failures, b.retry_tokens, b.open_until, rota_now() AS now
FROM breakers AS b
JOIN unnest($1::bigint[], $2::text[]) AS w (tenant_id, target_key)
    ON b.tenant_id = w.tenant_id AND b.target_key = w.target_key
ORDER BY b.tenant_id, b.target_key FOR UPDATE OF b;

-- name: breaker_ensure (tenant_ids, target_keys)
INSERT INTO breakers (tenant_id, target_key)
SELECT tenant_id, target_key FROM unnest($1::bigint[], $2::text[]) AS w (tenant_id, target_key)
ORDER BY tenant_id, target_key ON CONFLICT DO NOTHING;

-- name: breaker_write (tenant_ids, target_keys, states, failures, retry_tokens, open_fors_s, last_errors)
UPDATE breakers AS b SET state = w.state, failures = w.failures, retry_tokens = w.retry_tokens,
    open_until = CASE WHEN w.open_for_s IS NULL THEN b.open_until ELSE rota_now() + w.open_for_s * interval '1 s' END,
    last_error = coalesce(w.last_error, b.last_error),
    changed_at = CASE WHEN b.state <> w.state THEN rota_now() ELSE b.changed_at END
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::double precision[], $6::double precision[],
    $7::text[]) AS w (tenant_id, target_key, state, failures, retry_tokens, open_for_s, last_error)
WHERE b.tenant_id = w.tenant_id AND b.target_key = w.target_key;
