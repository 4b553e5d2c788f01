-- name: bare_claim (n)
-- The least a claim can do: the next rows of one index, marked as leased.
UPDATE occurrences AS o SET lease_until = now() + interval '30 s', token = token + 1, attempt = attempt + 1
FROM (
    SELECT ctid FROM occurrences WHERE lease_until IS NULL AND available_at <= now()
    ORDER BY lane_id, available_at, schedule_id LIMIT $1::integer FOR UPDATE SKIP LOCKED
) AS p
WHERE o.ctid = p.ctid
RETURNING o.shard, o.schedule_id, o.scheduled_for, o.version;

-- name: bare_finish (shards, ids, scheduled_fors, versions)
-- The least an end can do: out of the hot table, into history.
WITH gone AS (
    DELETE FROM occurrences AS o
    USING unnest($1::smallint[], $2::uuid[], $3::timestamptz[], $4::integer[])
        AS w (shard, schedule_id, scheduled_for, version)
    WHERE o.shard = w.shard AND o.schedule_id = w.schedule_id AND o.scheduled_for = w.scheduled_for
        AND o.version = w.version
    RETURNING o.*
)
INSERT INTO finished_occurrences (shard, schedule_id, scheduled_for, version, tenant_id, state, trigger, finished_at)
SELECT shard, schedule_id, scheduled_for, version, tenant_id, 'succeeded', trigger, now() FROM gone;
