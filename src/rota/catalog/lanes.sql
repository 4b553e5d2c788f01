-- name: lane_find (tenant_ids, queues, priorities, target_keys, limit_keys, overlaps)
-- Found first, so that asking again for a lane that exists burns no identity value.
SELECT l.lane_id, l.tenant_id, l.queue, l.priority, l.target_key, l.limit_key, l.overlap, l.recovery_lane_id
FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::text[], $5::text[], $6::text[])
    AS w (tenant_id, queue, priority, target_key, limit_key, overlap)
JOIN lanes AS l USING (tenant_id, queue, priority, target_key, limit_key, overlap);

-- name: lane_insert (tenant_ids, queues, priorities, target_keys, limit_keys, overlaps, recovery_lane_ids)
-- In key order: two writers that add the same lanes wait for each other and never in a circle.
INSERT INTO lanes (tenant_id, queue, priority, target_key, limit_key, overlap, recovery_lane_id)
SELECT w.tenant_id, w.queue, w.priority, w.target_key, w.limit_key, w.overlap, w.recovery_lane_id
FROM unnest($1::bigint[], $2::text[], $3::smallint[], $4::text[], $5::text[], $6::text[], $7::bigint[])
    AS w (tenant_id, queue, priority, target_key, limit_key, overlap, recovery_lane_id)
ORDER BY w.tenant_id, w.queue, w.priority, w.target_key, w.limit_key, w.overlap
ON CONFLICT (tenant_id, queue, priority, target_key, limit_key, overlap) DO NOTHING;

-- name: lane_get (lane_ids)
SELECT lane_id, tenant_id, queue, priority, target_key, limit_key, overlap, recovery_lane_id
FROM lanes WHERE lane_id = ANY ($1::bigint[]);
