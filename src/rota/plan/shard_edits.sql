-- name: edit_settings (idle_ms, lock_ms)
-- For this transaction alone: a node that freezes in it must not keep planners from the shard for longer than that.
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), set_config('lock_timeout', $2::text, true);

-- name: shard_lock_shared (shards)
-- Shared among edits, exclusive against the planner: the cursor that is read next stands still until commit.
-- Ascending, and a statement of its own, so that the next one sees what the planner has committed.
SELECT pg_advisory_xact_lock_shared(7411, s.shard)
FROM (SELECT DISTINCT w.shard::integer AS shard FROM unnest($1::smallint[]) AS w (shard) ORDER BY 1) AS s;

-- name: shard_instant (shards)
SELECT shard, planned_through, rota_now() AS now FROM shards WHERE shard = ANY ($1::smallint[]);

-- name: pause_history (schedule_ids)
-- Of paused schedules: since when, and since when with the present timing. Slots before either belong to nothing.
SELECT s.schedule_id, min(v.activated_at) AS paused_at,
    max(v.activated_at) FILTER (WHERE (v.cadence_id, v.fire_at) IS DISTINCT FROM (b.cadence_id, b.fire_at)) AS timed_at
FROM schedules AS s
JOIN LATERAL (SELECT max(version) AS version FROM schedule_versions
    WHERE schedule_id = s.schedule_id AND state <> 'paused') AS a ON true
JOIN schedule_versions AS v ON v.schedule_id = s.schedule_id AND v.version > coalesce(a.version, 0)
LEFT JOIN schedule_versions AS b ON b.schedule_id = s.schedule_id AND b.version = v.version - 1
WHERE s.schedule_id = ANY ($1::uuid[])
GROUP BY s.schedule_id;
