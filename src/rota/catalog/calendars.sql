-- name: calendar_get (tenant_id, names)
SELECT tenant_id, name, days, version, updated_at FROM calendars
WHERE tenant_id = $1::bigint AND name = ANY ($2::text[]);

-- name: calendar_put (tenant_id, name, days)
INSERT INTO calendars AS c (tenant_id, name, days, version, updated_at)
VALUES ($1::bigint, $2::text, $3::text::jsonb, 1, rota_now())
ON CONFLICT (tenant_id, name) DO UPDATE SET days = EXCLUDED.days, version = c.version + 1, updated_at = rota_now()
RETURNING c.tenant_id, c.name, c.days, c.version, c.updated_at;

-- name: calendar_list (tenant_id, after_name, n)
SELECT tenant_id, name, days, version, updated_at FROM calendars
WHERE tenant_id = $1::bigint AND name > $2::text ORDER BY name LIMIT $3::integer;

-- name: calendar_delete (tenant_id, name)
DELETE FROM calendars WHERE tenant_id = $1::bigint AND name = $2::text
RETURNING tenant_id, name, days, version, updated_at;

-- name: calendar_lock (tenant_id, name)
-- A writer of the list waits for the writers of schedules that use it, and they for it.
SELECT version FROM calendars WHERE tenant_id = $1::bigint AND name = $2::text FOR UPDATE;

-- name: calendar_schedules (tenant_id, name, after_id, n)
SELECT schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND calendar_name = $2::text AND schedule_id > $3::uuid
    AND state IN ('active', 'paused')
ORDER BY schedule_id LIMIT $4::integer;
