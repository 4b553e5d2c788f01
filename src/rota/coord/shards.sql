-- name: node_register (node_id, region, roles, ttl_ms, offset_ms, program_version)
-- A node is alive until lease_until, by the cell's clock. The answer's instant is what the node measures its own clock by.
INSERT INTO nodes AS n (node_id, region, roles, lease_until, clock_offset_ms, program_version, started_at)
VALUES ($1::text, $2::text, $3::text[], rota_now() + $4::float8 * interval '1 ms', $5::float8, $6::text, rota_now())
ON CONFLICT (node_id) DO UPDATE SET lease_until = EXCLUDED.lease_until, clock_offset_ms = EXCLUDED.clock_offset_ms,
    region = EXCLUDED.region, roles = EXCLUDED.roles
RETURNING rota_now();

-- name: node_leave (node_id)
DELETE FROM nodes WHERE node_id = $1::text;

-- name: planner_list ()
-- The live planners of the region in charge, with the time their leases have left.
SELECT n.node_id, extract(epoch FROM n.lease_until - rota_now())::float8 AS left_s
FROM nodes AS n JOIN regions AS r USING (region)
WHERE n.lease_until > rota_now() AND 'planner' = ANY (n.roles);

-- name: region_read ()
SELECT region, generation FROM regions;

-- name: region_promote (region)
-- Waits for plan transactions that hold the old term; those that come later find the new one. Same region: same term.
UPDATE regions SET region = $1::text, generation = generation + 1, promoted_at = rota_now()
WHERE region <> $1::text
RETURNING region, generation;

-- name: shard_renew (owner, shards, generations, ttl_ms)
-- What is returned is still ours. A row that a plan transaction holds just now is not waited for: it keeps its old
-- lease and is renewed the next time.
WITH asked AS MATERIALIZED (
    SELECT w.shard, w.generation FROM unnest($2::smallint[], $3::bigint[]) AS w (shard, generation)
), free AS MATERIALIZED (
    SELECT h.shard FROM shards AS h JOIN asked USING (shard, generation)
    WHERE h.owner = $1::text ORDER BY h.shard FOR UPDATE OF h SKIP LOCKED
), renewed AS (
    UPDATE shards AS h SET lease_until = rota_now() + $4::float8 * interval '1 ms'
    FROM free WHERE h.shard = free.shard
    RETURNING h.shard
)
SELECT h.shard, r.shard IS NOT NULL AS is_renewed
FROM shards AS h JOIN asked USING (shard, generation) LEFT JOIN renewed AS r USING (shard)
WHERE h.owner = $1::text;

-- name: shard_take (owner, shards, ttl_ms)
-- Only what nobody owns or whose lease has run out by the cell's clock. The generation grows: the former owner's plan
-- transactions find no row of theirs.
WITH free AS MATERIALIZED (
    SELECT shard FROM shards
    WHERE shard = ANY ($2::smallint[]) AND (owner IS NULL OR lease_until IS NULL OR lease_until <= rota_now())
    ORDER BY shard FOR UPDATE SKIP LOCKED
)
UPDATE shards AS h SET owner = $1::text, generation = h.generation + 1,
    lease_until = rota_now() + $3::float8 * interval '1 ms'
FROM free WHERE h.shard = free.shard
RETURNING h.shard, h.generation;

-- name: shard_seize (owner, shards, ttl_ms)
-- For a coordinator outside the database, which has decided already: its former owner's lease is not asked.
WITH wanted AS MATERIALIZED (
    SELECT shard FROM shards WHERE shard = ANY ($2::smallint[]) ORDER BY shard FOR UPDATE
)
UPDATE shards AS h SET owner = $1::text, generation = h.generation + 1,
    lease_until = rota_now() + $3::float8 * interval '1 ms'
FROM wanted WHERE h.shard = wanted.shard
RETURNING h.shard, h.generation;

-- name: shard_release (owner, shards)
-- A plan transaction that is under way then finds that the shard is no longer its own, and is rolled back.
WITH mine AS MATERIALIZED (
    SELECT shard FROM shards WHERE shard = ANY ($2::smallint[]) AND owner = $1::text ORDER BY shard FOR UPDATE
)
UPDATE shards AS h SET owner = NULL, lease_until = NULL FROM mine WHERE h.shard = mine.shard;

-- name: shard_owners ()
SELECT shard, owner, generation, lease_until, planned_through FROM shards ORDER BY shard;
