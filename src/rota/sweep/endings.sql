-- name: schedule_finish (n)
-- Active schedules whose last instant is planned and has nothing unfinished. Not a change by the owner: the version
-- stays. Locked rows are being changed by somebody: they are looked at again later. The count of a tenant's schedules
-- moves with it.
WITH ended AS (
    SELECT s.schedule_id FROM schedules AS s JOIN shards AS h ON h.shard = s.shard
    WHERE s.state = 'active' AND s.active_until <= rota_now() AND h.planned_through >= s.active_until
        AND NOT EXISTS (
            SELECT FROM occurrences AS o WHERE o.shard = s.shard AND o.schedule_id = s.schedule_id OFFSET 0)
    ORDER BY s.active_until LIMIT $1::integer FOR UPDATE OF s SKIP LOCKED
), written AS (
    UPDATE schedules AS s SET state = 'finished', updated_at = rota_now()
    FROM ended WHERE s.schedule_id = ended.schedule_id
    RETURNING s.schedule_id, s.tenant_id, s.version
), counted AS (
    INSERT INTO tenant_usage AS u (tenant_id, slot, n_schedules)
    SELECT tenant_id, pg_backend_pid() % 16, -count(*) FROM written GROUP BY tenant_id ORDER BY tenant_id
    ON CONFLICT (tenant_id, slot) DO UPDATE SET n_schedules = u.n_schedules + EXCLUDED.n_schedules
)
SELECT schedule_id, tenant_id, version FROM written ORDER BY schedule_id;

-- name: once_scan (shards, after_ats, after_ids, n)
-- A page of the one-shots of each shard whose instant is planned and past, and whether each is over: nothing pending,
-- and a trace of its one run. One that left no trace stays active, where the audit finds it. What a change of the
-- schedule cancelled is no trace. Pages go on from the last, so that many that still wait are not read each time.
SELECT c.shard, c.schedule_id, c.fire_at,
    NOT EXISTS (SELECT FROM occurrences AS r WHERE r.shard = c.shard AND r.schedule_id = c.schedule_id OFFSET 0)
        AND (EXISTS (SELECT FROM finished_occurrences AS f
                WHERE f.schedule_id = c.schedule_id AND f.scheduled_for = c.fire_at
                    AND (f.version = c.version OR f.state <> 'cancelled') OFFSET 0)
            OR EXISTS (SELECT FROM dead_letters AS d
                WHERE d.shard = c.shard AND d.schedule_id = c.schedule_id AND d.scheduled_for = c.fire_at OFFSET 0)
            OR EXISTS (SELECT FROM missed_ranges AS m
                WHERE m.shard = c.shard AND m.schedule_id = c.schedule_id AND m.first_at <= c.fire_at
                    AND m.last_at >= c.fire_at OFFSET 0)) AS is_over
FROM unnest($1::smallint[], $2::timestamptz[], $3::uuid[]) AS w (shard, after_at, after_id)
JOIN shards AS h ON h.shard = w.shard,
    LATERAL (
        SELECT o.shard, o.schedule_id, o.fire_at, o.version FROM schedules AS o
        WHERE o.shard = h.shard AND o.state = 'active' AND o.fire_at <= least(h.planned_through, rota_now())
            AND o.fire_at >= w.after_at AND (o.fire_at, o.schedule_id) > (w.after_at, w.after_id)
        ORDER BY o.fire_at, o.schedule_id LIMIT $4::integer) AS c;

-- name: schedule_finish_once (schedule_ids)
WITH held AS (
    SELECT s.schedule_id FROM schedules AS s
    WHERE s.schedule_id = ANY ($1::uuid[]) AND s.state = 'active' AND s.fire_at <= rota_now()
        AND NOT EXISTS (
            SELECT FROM occurrences AS r WHERE r.shard = s.shard AND r.schedule_id = s.schedule_id OFFSET 0)
    ORDER BY s.schedule_id FOR UPDATE OF s SKIP LOCKED
), written AS (
    UPDATE schedules AS s SET state = 'finished', updated_at = rota_now()
    FROM held WHERE s.schedule_id = held.schedule_id
    RETURNING s.schedule_id, s.tenant_id, s.version
), counted AS (
    INSERT INTO tenant_usage AS u (tenant_id, slot, n_schedules)
    SELECT tenant_id, pg_backend_pid() % 16, -count(*) FROM written GROUP BY tenant_id ORDER BY tenant_id
    ON CONFLICT (tenant_id, slot) DO UPDATE SET n_schedules = u.n_schedules + EXCLUDED.n_schedules
)
SELECT schedule_id, tenant_id, version FROM written ORDER BY schedule_id;

-- name: schedule_pause_ended (n)
SELECT schedule_id, tenant_id, version FROM schedules
WHERE paused_until <= rota_now() AND state = 'paused' ORDER BY paused_until LIMIT $1::integer;
