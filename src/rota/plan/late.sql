-- name: late_pairs (shards, cadence_ids, after, through)
-- Each distinct (cadence, policy) among the schedules that were active in the late window: what has to be decided.
SELECT DISTINCT s.cadence_id, s.policy_id FROM schedules AS s
WHERE s.shard = ANY ($1::smallint[]) AND s.cadence_id = ANY ($2::bigint[]) AND s.state = 'active'
    AND s.active_from < $4::timestamptz AND (s.active_until IS NULL OR s.active_until > $3::timestamptz);

-- name: late_plan (shards, after, through, cadence_ids, policy_ids, fire_ats)
-- What the policies let run, for schedules that were active throughout the late window. It waits in the recovery lane,
-- so that it never takes what new strict work needs.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, f.fire_at, s.version, s.tenant_id, coalesce(l.recovery_lane_id, s.lane_id), rota_now(),
    rota_now(), rota_now() + p.max_lateness_ms * interval '1 ms', 'catch_up', p.is_exclusive
FROM unnest($4::bigint[], $5::bigint[], $6::timestamptz[]) AS f (cadence_id, policy_id, fire_at)
JOIN schedules AS s USING (cadence_id, policy_id)
JOIN policies AS p USING (policy_id)
JOIN lanes AS l ON l.lane_id = s.lane_id
WHERE s.shard = ANY ($1::smallint[]) AND s.state = 'active' AND s.cadence_id IS NOT NULL
    AND s.active_from <= $2::timestamptz AND (s.active_until IS NULL OR s.active_until >= $3::timestamptz)
ON CONFLICT DO NOTHING;

-- name: late_miss (shards, after, through, cadence_ids, policy_ids, first_ats, last_ats, counts, reasons)
-- The rest, as one range a schedule and reason; the answer is what was missed, by reason.
WITH written AS (
    INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, recorded_at)
    SELECT s.shard, s.schedule_id, s.version, m.first_at, m.last_at, m.n_missed, s.tenant_id, m.reason, rota_now()
    FROM unnest($4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[], $8::bigint[], $9::text[])
        AS m (cadence_id, policy_id, first_at, last_at, n_missed, reason)
    JOIN schedules AS s USING (cadence_id, policy_id)
    WHERE s.shard = ANY ($1::smallint[]) AND s.state = 'active' AND s.cadence_id IS NOT NULL
        AND s.active_from <= $2::timestamptz AND (s.active_until IS NULL OR s.active_until >= $3::timestamptz)
    ON CONFLICT DO NOTHING
    RETURNING reason, n_missed
)
SELECT reason, sum(n_missed)::bigint AS n_missed FROM written GROUP BY reason;

-- name: late_partly (shards, cadence_ids, after, through)
-- Schedules that began or ended within the late window: each is decided for its own part of it.
SELECT s.schedule_id, s.cadence_id, s.policy_id, s.active_from, s.active_until FROM schedules AS s
WHERE s.shard = ANY ($1::smallint[]) AND s.cadence_id = ANY ($2::bigint[]) AND s.state = 'active'
    AND s.active_from < $4::timestamptz AND (s.active_until IS NULL OR s.active_until > $3::timestamptz)
    AND (s.active_from > $3::timestamptz OR s.active_until < $4::timestamptz);

-- name: late_once (shards, after, through)
-- One-shots whose time lies in the late window.
SELECT s.schedule_id, s.policy_id, s.fire_at FROM schedules AS s
WHERE s.shard = ANY ($1::smallint[]) AND s.state = 'active' AND s.fire_at > $2::timestamptz
    AND s.fire_at <= $3::timestamptz;
