-- name: schedule_in_group (tenant_id, group, state)
SELECT schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND group_name = $2::text AND group_name <> '' AND state = $3::schedule_state
ORDER BY schedule_id;

-- name: missed_put (schedule_id, firsts, lasts, counts, reasons)
-- What a pause kept from running, one row a reason.
INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, recorded_at)
SELECT s.shard, s.schedule_id, s.version, m.first_at, m.last_at, m.n, s.tenant_id, m.reason, rota_now()
FROM unnest($2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::text[]) AS m (first_at, last_at, n, reason)
JOIN schedules AS s ON s.schedule_id = $1::uuid
ON CONFLICT DO NOTHING;
