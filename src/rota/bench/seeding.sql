-- name: bench_tenants (n, weight)
INSERT INTO tenants (tenant_id, name, weight)
SELECT i, 'bench-' || i, $2::integer FROM generate_series(1, $1::integer) AS i ON CONFLICT DO NOTHING;

-- name: bench_policy
INSERT INTO policies (digest, document, window_ms, misfire, max_lateness_ms, max_catch_up)
VALUES ('\x62656e6368', $${"window_ms": 0, "misfire": {"policy": "fire_once", "max_lateness_ms": 3600000, "max_catch_up": 10}, "overlap": "allow", "priority": "normal", "retry": {"max_attempts": 5, "base_ms": 10000, "cap_ms": 600000, "deadline_ms": null}}$$,
    0, 'fire_once', 3600000, 10)
ON CONFLICT (digest) DO UPDATE SET window_ms = 0 RETURNING policy_id;

-- name: bench_lanes (target_key)
-- One lane a tenant, and its recovery lane.
WITH recovery AS (
    INSERT INTO lanes (tenant_id, queue, priority, target_key, overlap)
    SELECT tenant_id, 'default', 3, $1::text, 'allow' FROM tenants WHERE name LIKE 'bench-%'
    ON CONFLICT DO NOTHING RETURNING lane_id, tenant_id
)
INSERT INTO lanes (tenant_id, queue, priority, target_key, overlap, recovery_lane_id)
SELECT tenant_id, 'default', 1, $1::text, 'allow', lane_id FROM recovery
ON CONFLICT DO NOTHING;

-- name: bench_cadences (timings, digests, next_fire_ats, version)
INSERT INTO cadences (digest, timing, time_zone, tzdata_version, next_fire_at)
SELECT digest, timing::jsonb, 'UTC', $4::text, next_fire_at
FROM unnest($1::text[], $2::bytea[], $3::timestamptz[]) AS w (timing, digest, next_fire_at)
ON CONFLICT (digest) DO UPDATE SET next_fire_at = EXCLUDED.next_fire_at RETURNING cadence_id;

-- name: bench_schedules (first, n, cadence_ids, policy_id, target)
-- Schedules and their first versions, generated in the database: spread over tenants and cadences, ids as ours are.
WITH made AS (
    SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7' || lpad(to_hex(i % 4096), 3, '0')
        || '8' || substr(md5(i::text), 1, 15))::uuid AS schedule_id, i
    FROM generate_series($1::bigint, $1::bigint + $2::bigint - 1) AS i
), placed AS (
    SELECT m.schedule_id, m.i, l.tenant_id, l.lane_id,
        ($3::bigint[])[1 + m.i % cardinality($3::bigint[])] AS cadence_id
    FROM made AS m
    JOIN (SELECT lane_id, tenant_id, row_number() OVER (ORDER BY tenant_id) - 1 AS k, count(*) OVER () AS n
          FROM lanes WHERE priority = 1) AS l ON l.k = m.i % l.n
), versions AS (
    INSERT INTO schedule_versions (schedule_id, version, tenant_id, state, cadence_id, lane_id, policy_id, active_from,
        definition, target, payload, activated_at, actor)
    SELECT schedule_id, 1, tenant_id, 'active', cadence_id, lane_id, $4::bigint, now() - interval '1 day',
        jsonb_build_object('name', 's' || i), $5::jsonb, '{}', now() - interval '1 day', 'bench' FROM placed
)
INSERT INTO schedules (schedule_id, shard, tenant_id, version, state, cadence_id, lane_id, policy_id, active_from, name)
SELECT schedule_id, get_byte(uuid_send(schedule_id), 15), tenant_id, 1, 'active', cadence_id, lane_id, $4::bigint,
    now() - interval '1 day', 's' || i FROM placed;

-- name: bench_occurrences (n, available_in_s)
-- Due occurrences of the schedules that are there, one each.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at)
SELECT shard, schedule_id, date_trunc('second', now()), 1, tenant_id, lane_id,
    now() + $2::double precision * interval '1 s', now()
FROM schedules ORDER BY shard, schedule_id LIMIT $1::bigint;

-- name: bench_bare_insert (shards, fire_at, cadence_id)
-- The bare equivalent of planning: the same rows into the same table, with nothing decided.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at)
SELECT shard, schedule_id, $2::timestamptz, version, tenant_id, lane_id, $2::timestamptz, now()
FROM schedules
WHERE shard = ANY ($1::smallint[]) AND cadence_id = $3::bigint AND state = 'active' AND cadence_id IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: bench_first_cadence
SELECT min(cadence_id) FROM cadences;

-- name: bench_queue_seen (at)
-- What an observer of the queue sees: rows that can be claimed at the moment its look begins, and when that was.
SELECT count(*) AS n, extract(epoch FROM statement_timestamp() - $1::timestamptz)::double precision AS lag_s
FROM occurrences WHERE lease_until IS NULL AND available_at <= statement_timestamp();

-- name: bench_count_pending
SELECT count(*) FROM occurrences;

-- name: bench_count_finished
SELECT count(*) FROM finished_occurrences;

-- name: bench_clear_occurrences
TRUNCATE occurrences, finished_occurrences, attempts, dead_letters, missed_ranges;

-- name: bench_clear_schedules
TRUNCATE schedules, schedule_versions;

-- name: bench_sizes (names)
SELECT c.relname, pg_total_relation_size(c.oid) AS bytes, coalesce(s.n_dead_tup, 0) AS n_dead
FROM pg_class AS c LEFT JOIN pg_stat_user_tables AS s ON s.relid = c.oid
WHERE c.relname = ANY ($1::text[]);

-- name: bench_shards_reset (planned_through)
UPDATE shards SET planned_through = $1::timestamptz;

-- name: bench_now
SELECT now();

