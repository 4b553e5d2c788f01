-- name: tenant_insert (tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes, home_region)
INSERT INTO tenants (tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate,
    max_payload_bytes, home_region, created_at)
VALUES ($1::bigint, $2::text, $3::integer, $4::bigint, $5::integer, $6::float8, $7::float8, $8::integer, $9::text,
    rota_now())
ON CONFLICT DO NOTHING
RETURNING tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes,
    home_region, is_suspended, created_at;

-- name: tenant_get (tenant_id)
SELECT tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes,
    home_region, is_suspended, created_at
FROM tenants WHERE tenant_id = $1::bigint;

-- name: tenant_get_named (name)
SELECT tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes,
    home_region, is_suspended, created_at
FROM tenants WHERE name = $1::text;

-- name: tenant_lock (tenant_id)
SELECT tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes,
    home_region, is_suspended, created_at
FROM tenants WHERE tenant_id = $1::bigint FOR NO KEY UPDATE;

-- name: tenant_list (after_name, n)
SELECT tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes,
    home_region, is_suspended, created_at
FROM tenants WHERE name > $1::text ORDER BY name LIMIT $2::integer;

-- name: tenant_update (tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes, home_region, is_suspended)
UPDATE tenants SET name = $2::text, weight = $3::integer, max_schedules = $4::bigint, max_in_flight = $5::integer,
    trigger_rate = $6::float8, catch_up_rate = $7::float8, max_payload_bytes = $8::integer, home_region = $9::text,
    is_suspended = $10::boolean
WHERE tenant_id = $1::bigint
RETURNING tenant_id, name, weight, max_schedules, max_in_flight, trigger_rate, catch_up_rate, max_payload_bytes,
    home_region, is_suspended, created_at;

-- name: tenant_limit_schedules (tenant_id)
-- Only a tenant that has a limit is locked, so that its creates are counted one after the other; those of an
-- unlimited tenant never meet here.
SELECT max_schedules FROM tenants WHERE tenant_id = $1::bigint AND max_schedules IS NOT NULL FOR NO KEY UPDATE;

-- name: tenant_count_schedules (tenant_id)
-- Active and paused ones. Counted in 16 rows, by connection, so that concurrent creates do not wait for one row.
SELECT coalesce(sum(n_schedules), 0)::bigint FROM tenant_usage WHERE tenant_id = $1::bigint;
