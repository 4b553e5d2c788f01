-- name: finished_retire (older_than_days, n)
-- Only the default partition: what is in a day's partition goes with it. Each of these removes a bounded number of the
-- oldest rows and skips what somebody else holds, so that it never waits and never deadlocks.
DELETE FROM finished_occurrences_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM finished_occurrences_default
    WHERE finished_at < rota_now() - make_interval(days => $1::integer)
    ORDER BY finished_at LIMIT $2::integer FOR UPDATE SKIP LOCKED));

-- name: attempt_retire (older_than_days, n)
DELETE FROM attempts_default WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM attempts_default WHERE finished_at < rota_now() - make_interval(days => $1::integer)
    ORDER BY finished_at LIMIT $2::integer FOR UPDATE SKIP LOCKED));

-- name: missed_retire (older_than_days, n)
DELETE FROM missed_ranges WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM missed_ranges WHERE recorded_at < rota_now() - make_interval(days => $1::integer)
    ORDER BY recorded_at LIMIT $2::integer FOR UPDATE SKIP LOCKED));

-- name: dead_letter_retire (older_than_days, n)
-- Nobody replayed it in all that time. It moves to history, so that its run key stays accounted for.
WITH gone AS (
    DELETE FROM dead_letters WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM dead_letters WHERE died_at < rota_now() - make_interval(days => $1::integer)
        ORDER BY died_at LIMIT $2::integer FOR UPDATE SKIP LOCKED))
    RETURNING *
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, reason,
    planned_at, started_at, finished_at, attempt, failures, losses, worker, result)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'dead', trigger, reason, planned_at, started_at, died_at,
    attempt, failures, losses, worker, left(last_error, 1000)
FROM gone;

-- name: node_retire (older_than_days, n)
DELETE FROM nodes WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM nodes WHERE lease_until < rota_now() - make_interval(days => $1::integer)
    ORDER BY lease_until LIMIT $2::integer FOR UPDATE SKIP LOCKED));

-- name: retire_now ()
SELECT rota_now();
