-- name: lane_heads (after, n)
-- Lanes that hold rows, with when their first row is due: one index descent a lane, never a scan of a lane. The caller
-- goes round: it asks on behind the last lane it was given.
WITH RECURSIVE heads AS (
    (SELECT lane_id, available_at, 1 AS n FROM occurrences
     WHERE lease_until IS NULL AND lane_id > $1::bigint
     ORDER BY lane_id, available_at, schedule_id LIMIT 1)
    UNION ALL
    SELECT o.lane_id, o.available_at, h.n + 1
    FROM heads AS h CROSS JOIN LATERAL (
        SELECT lane_id, available_at FROM occurrences
        WHERE lease_until IS NULL AND lane_id > h.lane_id
        ORDER BY lane_id, available_at, schedule_id LIMIT 1
    ) AS o
    WHERE h.n < $2::integer
)
SELECT lane_id, CASE WHEN isfinite(available_at) THEN extract(epoch FROM available_at - rota_now())::double precision
         ELSE 1e9 END AS due_in_s
FROM heads;

-- name: lane_heads_of_tenant (tenant_id, after, n)
-- The same for the lanes of one tenant.
SELECT l.lane_id, CASE WHEN isfinite(o.available_at) THEN extract(epoch FROM o.available_at - rota_now())::double precision
    ELSE 1e9 END AS due_in_s
FROM lanes AS l CROSS JOIN LATERAL (
    SELECT available_at FROM occurrences WHERE lane_id = l.lane_id AND lease_until IS NULL
    ORDER BY available_at, schedule_id LIMIT 1
) AS o
WHERE l.tenant_id = $1::bigint AND l.lane_id > $2::bigint
ORDER BY l.lane_id LIMIT $3::integer;

-- name: lane_read (lane_ids)
-- What a lane is; immutable, so it is read once.
SELECT lane_id, tenant_id, queue, priority, target_key, limit_key, overlap FROM lanes WHERE lane_id = ANY ($1::bigint[]);

-- name: hold_read (tenant_ids)
-- All that holds lanes of these tenants back or shapes their share: weights and quotas, pauses, limits, breakers.
SELECT t.tenant_id, t.weight, t.max_in_flight, t.trigger_rate, t.catch_up_rate, t.is_suspended,
    (SELECT array_agg(p.scope || ':' || p.value) FROM pauses AS p
     WHERE p.tenant_id = t.tenant_id AND (p.paused_until IS NULL OR p.paused_until > rota_now())) AS pauses,
    (SELECT array_agg(l.scope) FROM limits AS l WHERE l.tenant_id = t.tenant_id) AS limits,
    (SELECT array_agg(b.target_key) FROM breakers AS b
     WHERE b.tenant_id = t.tenant_id AND b.state = 'open' AND b.open_until > rota_now()) AS open,
    (SELECT array_agg(b.target_key) FROM breakers AS b
     WHERE b.tenant_id = t.tenant_id AND b.state <> 'closed' AND (b.state <> 'open' OR b.open_until <= rota_now()))
        AS half_open
FROM tenants AS t WHERE t.tenant_id = ANY ($1::bigint[]);

-- name: limit_lock (tenant_ids, scopes)
-- The limits that the next statement counts against, locked so that two claims cannot both take the last place. One
-- that somebody else counts on just now is skipped: its lanes wait for the next claim.
SELECT tenant_id, scope, max_concurrency, rate,
    least(coalesce(burst, greatest(rate, 1)), tokens + coalesce(rate, 0)
        * extract(epoch FROM rota_now() - refilled_at))::double precision AS tokens
FROM limits WHERE (tenant_id, scope) IN (SELECT * FROM unnest($1::bigint[], $2::text[]))
ORDER BY tenant_id, scope FOR UPDATE SKIP LOCKED;

-- name: limit_ensure (tenant_ids, scopes, rates)
-- Token buckets of quotas that tenants carry themselves (trigger rate, catch-up rate, in flight).
INSERT INTO limits (tenant_id, scope, rate, burst, tokens)
SELECT tenant_id, scope, rate, greatest(rate, 1), greatest(rate, 1)
FROM unnest($1::bigint[], $2::text[], $3::double precision[]) AS w (tenant_id, scope, rate)
ON CONFLICT (tenant_id, scope) DO UPDATE SET rate = EXCLUDED.rate, burst = greatest(EXCLUDED.rate, 1)
WHERE limits.rate IS DISTINCT FROM EXCLUDED.rate;

-- name: limit_spend (tenant_ids, scopes, tokens)
UPDATE limits AS l SET tokens = w.tokens, refilled_at = rota_now()
FROM unnest($1::bigint[], $2::text[], $3::double precision[]) AS w (tenant_id, scope, tokens)
WHERE l.tenant_id = w.tenant_id AND l.scope = w.scope;

-- name: running_count
-- Live leases a lane, from the lease rows alone, so that nothing leaks when a worker dies.
SELECT lane_id, count(*) AS n FROM occurrences WHERE lease_until IS NOT NULL GROUP BY lane_id;
