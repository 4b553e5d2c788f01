-- name: lease_read (tenant_id, schedule_id, scheduled_for, version, token)
-- The lease that a worker over HTTP names, with all that deciding its outcome takes.
SELECT o.*, v.target, v.payload, v.policy_id, v.definition ->> 'name' AS schedule_name, p.document AS policy,
    false AS is_expired
FROM occurrences AS o
JOIN schedule_versions AS v ON v.schedule_id = o.schedule_id AND v.version = o.version
JOIN policies AS p ON p.policy_id = v.policy_id
WHERE o.shard = get_byte(uuid_send($2::uuid), 15) AND o.schedule_id = $2::uuid AND o.scheduled_for = $3::timestamptz
    AND o.version = $4::integer AND o.tenant_id = $1::bigint AND o.token = $5::bigint AND o.lease_until > rota_now();

-- name: lease_extend (tenant_id, schedule_id, scheduled_for, version, token, lease_s)
UPDATE occurrences SET lease_until = rota_now() + $6::double precision * interval '1 s'
WHERE shard = get_byte(uuid_send($2::uuid), 15) AND schedule_id = $2::uuid AND scheduled_for = $3::timestamptz
    AND version = $4::integer AND tenant_id = $1::bigint AND token = $5::bigint AND lease_until > rota_now()
RETURNING lease_until, cancel_requested_at IS NOT NULL AS is_cancel_requested;
