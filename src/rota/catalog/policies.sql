-- name: policy_find (digests)
-- Found first, so that asking again for a policy that exists burns no identity value.
SELECT digest, policy_id FROM policies WHERE digest = ANY ($1::bytea[]);

-- name: policy_insert (digests, documents, windows_ms, misfires, max_lateness_ms, max_catch_ups)
-- In digest order: two writers that add the same policies wait for each other and never in a circle.
INSERT INTO policies (digest, document, window_ms, misfire, max_lateness_ms, max_catch_up)
SELECT t.digest, t.document::jsonb, t.window_ms, t.misfire, t.max_lateness_ms, t.max_catch_up
FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::integer[])
    AS t (digest, document, window_ms, misfire, max_lateness_ms, max_catch_up)
ORDER BY t.digest
ON CONFLICT (digest) DO NOTHING;

-- name: policy_get (policy_ids)
SELECT policy_id, document FROM policies WHERE policy_id = ANY ($1::bigint[]);
