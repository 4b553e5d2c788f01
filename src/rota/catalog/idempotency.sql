-- name: idempotency_claim (tenant_id, keys, fingerprints)
-- The unique key makes a second request with the same key wait until the first one has ended: then it either finds
-- the answer (no row here) or, when the first was rolled back, takes its place. Key order is the lock order.
INSERT INTO idempotency_keys AS i (tenant_id, key, fingerprint, status, response, created_at)
SELECT $1::bigint, w.key, w.fingerprint, 0, 'null', rota_now()
FROM unnest($2::text[], $3::bytea[]) AS w (key, fingerprint)
ORDER BY w.key
ON CONFLICT (tenant_id, key) DO NOTHING
RETURNING i.key;

-- name: idempotency_read (tenant_id, keys)
SELECT key, fingerprint, status, response FROM idempotency_keys
WHERE tenant_id = $1::bigint AND key = ANY ($2::text[]);

-- name: idempotency_store (tenant_id, keys, statuses, responses)
-- No index holds these columns: the update stays in the page (HOT).
UPDATE idempotency_keys AS i SET status = w.status, response = w.response::jsonb
FROM unnest($2::text[], $3::integer[], $4::text[]) AS w (key, status, response)
WHERE i.tenant_id = $1::bigint AND i.key = w.key;

-- name: idempotency_retire (older_than, n)
DELETE FROM idempotency_keys WHERE (tenant_id, key) IN (
    SELECT tenant_id, key FROM idempotency_keys WHERE created_at < $1::timestamptz
    ORDER BY created_at LIMIT $2::integer FOR UPDATE SKIP LOCKED);
