-- name: schedule_finish (n)
-- Active schedules whose last instant is planned and has nothing unfinished. Not a change by the owner: the version
-- stays. Locked rows are being changed by somebody: they are looked at again later. The count of a tenant's schedules
-- moves with it.
WITH ended AS (
    SELECT s.schedule_id FROM schedules AS s JOIN shards AS h ON h.shard = s.shard
    WHERE s.state = 'active' AND s.active_until <= rota_now() AND h.planned_through >= s.active_until
        AND NOT EXISTS (SELECT FROM occurrences AS o WHERE o.shard = s.shard AND o.schedule_id = s.schedule_id)
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

-- name: schedule_finish_once (n)
-- The same for one-shots, shard by shard so that those far ahead are never read. Only with a trace of its one run: a
-- one-shot that left none stays active, where the audit finds it. What a change of the schedule cancelled is no trace.
WITH ended AS (
    SELECT s.schedule_id FROM shards AS h, LATERAL (
        SELECT o.schedule_id FROM schedules AS o
        WHERE o.shard = h.shard AND o.state = 'active' AND o.fire_at <= least(h.planned_through, rota_now())
            AND NOT EXISTS (SELECT FROM occurrences AS r WHERE r.shard = o.shard AND r.schedule_id = o.schedule_id)
            AND (EXISTS (SELECT FROM finished_occurrences AS f
                    WHERE f.schedule_id = o.schedule_id AND f.scheduled_for = o.fire_at
                        AND (f.version = o.version OR f.state <> 'cancelled'))
                OR EXISTS (SELECT FROM dead_letters AS d
                    WHERE d.shard = o.shard AND d.schedule_id = o.schedule_id AND d.scheduled_for = o.fire_at)
                OR EXISTS (SELECT FROM missed_ranges AS m
                    WHERE m.shard = o.shard AND m.schedule_id = o.schedule_id AND m.first_at <= o.fire_at
                        AND m.last_at >= o.fire_at))
        ORDER BY o.fire_at LIMIT $1::integer OFFSET 0) AS s
    LIMIT $1::integer
), held AS (
    SELECT s.schedule_id FROM schedules AS s JOIN ended USING (schedule_id)
    WHERE s.state = 'active' AND s.fire_at <= rota_now()
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
