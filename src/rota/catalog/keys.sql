-- name: key_insert (key_id, tenant_id, secret_hash, name, scopes, is_operator)
INSERT INTO api_keys (key_id, tenant_id, secret_hash, name, scopes, is_operator, created_at)
VALUES ($1::text, $2::bigint, $3::bytea, $4::text, $5::text[], $6::boolean, rota_now())
ON CONFLICT (key_id) DO NOTHING
RETURNING key_id, tenant_id, name, scopes, is_operator, created_at, revoked_at;

-- name: key_authenticate (key_id)
SELECT k.tenant_id, k.key_id, k.secret_hash, k.scopes, k.is_operator, k.revoked_at, t.is_suspended
FROM api_keys AS k JOIN tenants AS t USING (tenant_id) WHERE k.key_id = $1::text;

-- name: key_get (tenant_id, key_id)
SELECT key_id, tenant_id, name, scopes, is_operator, created_at, revoked_at FROM api_keys
WHERE key_id = $2::text AND tenant_id = $1::bigint;

-- name: key_list (tenant_id, after_id, n)
SELECT key_id, tenant_id, name, scopes, is_operator, created_at, revoked_at FROM api_keys
WHERE tenant_id = $1::bigint AND key_id > $2::text ORDER BY key_id LIMIT $3::integer;

-- name: key_revoke (tenant_id, key_id)
UPDATE api_keys SET revoked_at = coalesce(revoked_at, rota_now())
WHERE key_id = $2::text AND ($1::bigint IS NULL OR tenant_id = $1::bigint)
RETURNING key_id, tenant_id, name, scopes, is_operator, created_at, revoked_at;
