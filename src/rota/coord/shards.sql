-- name: node_renew (node_id, region, roles, lease_s, clock_offset_ms, program_version)
-- Membership is a row with an end, judged by the database's time.
INSERT INTO nodes (node_id, region, roles, lease_until, clock_offset_ms, program_version)
VALUES ($1::text, $2::text, $3::text[], rota_now() + $4::double precision * interval '1 s', $5::double precision, $6::text)
ON CONFLICT (node_id) DO UPDATE SET lease_until = EXCLUDED.lease_until, clock_offset_ms = EXCLUDED.clock_offset_ms
RETURNING rota_now() AS now;

-- name: node_list_planners
-- The live planners. A standby region's planners are members of their own cell only.
SELECT node_id FROM nodes WHERE lease_until > rota_now() AND 'planner' = ANY (roles) ORDER BY node_id;

-- name: node_leave (node_id)
DELETE FROM nodes WHERE node_id = $1::text;

-- name: shard_renew (node_id, keep, lease_s)
-- Only what is still ours: a shard that was taken over has another owner.
UPDATE shards SET lease_until = rota_now() + $3::double precision * interval '1 s'
WHERE owner = $1::text AND shard = ANY ($2::smallint[])
RETURNING shard, generation;

-- name: shard_give_back (node_id, shards)
-- A hand-over that was asked for: free at once, for whoever is assigned.
UPDATE shards SET owner = NULL, lease_until = NULL
WHERE owner = $1::text AND shard = ANY ($2::smallint[]);

-- name: shard_take_over (node_id, wanted, lease_s)
-- What is free, or whose owner let its lease run out by the database's time. A new term begins.
UPDATE shards AS s SET owner = $1::text, generation = s.generation + 1,
    lease_until = rota_now() + $3::double precision * interval '1 s'
FROM (
    SELECT shard FROM shards
    WHERE shard = ANY ($2::smallint[]) AND (owner IS NULL OR lease_until < rota_now())
    ORDER BY shard
    FOR UPDATE SKIP LOCKED
) AS free
WHERE s.shard = free.shard
RETURNING s.shard, s.generation;

-- name: shard_list
SELECT shard, owner, generation, planned_through, lease_until FROM shards ORDER BY shard;

-- name: region_get
SELECT region, generation FROM regions;

-- name: region_promote (region)
-- A new term for a region: planners of any other region write nothing from here on.
UPDATE regions SET region = $1::text, generation = generation + 1, promoted_at = rota_now() RETURNING region, generation;
