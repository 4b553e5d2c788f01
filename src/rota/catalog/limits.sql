-- name: limit_put (tenant_id, scopes, max_concurrencies, rates, bursts)
-- Written only where it differs: thousands of schedules that name the same limit do not touch its row. A new or
-- changed rate starts with a full bucket. Scope order is the lock order.
INSERT INTO limits AS l (tenant_id, scope, max_concurrency, rate, burst, tokens, refilled_at)
SELECT $1::bigint, w.scope, w.max_concurrency, w.rate, w.burst, coalesce(w.burst, 0), rota_now()
FROM unnest($2::text[], $3::integer[], $4::float8[], $5::float8[]) AS w (scope, max_concurrency, rate, burst)
LEFT JOIN limits AS old ON old.tenant_id = $1::bigint AND old.scope = w.scope
WHERE old.scope IS NULL
    OR (old.max_concurrency, old.rate, old.burst) IS DISTINCT FROM (w.max_concurrency, w.rate, w.burst)
ORDER BY w.scope
ON CONFLICT (tenant_id, scope) DO UPDATE SET max_concurrency = EXCLUDED.max_concurrency, rate = EXCLUDED.rate,
    burst = EXCLUDED.burst, tokens = EXCLUDED.tokens, refilled_at = EXCLUDED.refilled_at
WHERE (l.max_concurrency, l.rate, l.burst)
    IS DISTINCT FROM (EXCLUDED.max_concurrency, EXCLUDED.rate, EXCLUDED.burst);

-- name: limit_list (tenant_id)
SELECT scope, max_concurrency, rate, burst FROM limits WHERE tenant_id = $1::bigint ORDER BY scope;

-- name: limit_delete (tenant_id, scope)
DELETE FROM limits WHERE tenant_id = $1::bigint AND scope = $2::text
RETURNING scope, max_concurrency, rate, burst;
