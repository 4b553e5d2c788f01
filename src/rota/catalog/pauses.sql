-- name: pause_put (tenant_id, scope, value, reason, actor, paused_until)
INSERT INTO pauses AS p (tenant_id, scope, value, reason, actor, paused_at, paused_until)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text, rota_now(), $6::timestamptz)
ON CONFLICT (tenant_id, scope, value) DO UPDATE SET reason = EXCLUDED.reason, actor = EXCLUDED.actor,
    paused_until = EXCLUDED.paused_until
RETURNING p.tenant_id, p.scope, p.value, p.reason, p.actor, p.paused_at, p.paused_until;

-- name: pause_delete (tenant_id, scope, value)
DELETE FROM pauses WHERE tenant_id = $1::bigint AND scope = $2::text AND value = $3::text
RETURNING tenant_id, scope, value, reason, actor, paused_at, paused_until;

-- name: pause_list (tenant_id)
-- What has run out is no pause any more, whether or not the keeper has removed it.
SELECT tenant_id, scope, value, reason, actor, paused_at, paused_until FROM pauses
WHERE tenant_id = $1::bigint AND (paused_until IS NULL OR paused_until > rota_now())
ORDER BY scope, value;

-- name: pause_expire (n)
DELETE FROM pauses WHERE (tenant_id, scope, value) IN (
    SELECT tenant_id, scope, value FROM pauses WHERE paused_until <= rota_now()
    ORDER BY paused_until LIMIT $1::integer FOR UPDATE SKIP LOCKED)
RETURNING tenant_id, scope, value, reason, actor, paused_at, paused_until;
