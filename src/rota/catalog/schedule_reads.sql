-- name: schedule_get (tenant_id, ids)
-- The tenant is part of the look-up, so that nobody reads what is not theirs. NULL: an operator, or the system.
SELECT s.schedule_id, s.shard, s.tenant_id, s.version, s.state, s.cadence_id, s.fire_at, s.lane_id, s.policy_id,
    s.active_from, s.active_until, s.paused_until, s.pause_reason, s.set_aside, s.created_at, s.updated_at,
    v.definition, v.target, v.payload
FROM schedules AS s JOIN schedule_versions AS v USING (schedule_id, version)
WHERE s.schedule_id = ANY ($2::uuid[]) AND ($1::bigint IS NULL OR s.tenant_id = $1::bigint)
ORDER BY s.schedule_id;

-- name: schedule_page (tenant_id, after_id, n, name, group_name, state)
-- Each page block walks one index in id order from the cursor; what else is asked for is filtered on the way.
SELECT schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND schedule_id > $2::uuid AND ($4::text IS NULL OR name = $4::text)
    AND ($5::text IS NULL OR group_name = $5::text) AND ($6::text IS NULL OR state = $6::text::schedule_state)
ORDER BY schedule_id LIMIT $3::integer;

-- name: schedule_page_named (tenant_id, after_id, n, name, group_name, state)
SELECT schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND name = $4::text AND schedule_id > $2::uuid
    AND ($5::text IS NULL OR group_name = $5::text) AND ($6::text IS NULL OR state = $6::text::schedule_state)
ORDER BY schedule_id LIMIT $3::integer;

-- name: schedule_page_grouped (tenant_id, after_id, n, name, group_name, state)
SELECT schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND group_name = $5::text AND group_name <> '' AND schedule_id > $2::uuid
    AND ($4::text IS NULL OR name = $4::text) AND ($6::text IS NULL OR state = $6::text::schedule_state)
ORDER BY schedule_id LIMIT $3::integer;

-- name: schedule_page_not_active (tenant_id, after_id, n, name, group_name, state)
SELECT schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND state = $6::text::schedule_state AND state <> 'active' AND schedule_id > $2::uuid
    AND ($4::text IS NULL OR name = $4::text) AND ($5::text IS NULL OR group_name = $5::text)
ORDER BY schedule_id LIMIT $3::integer;

-- name: schedule_page_labelled (tenant_id, after_id, n, name, group_name, state, label)
-- LATERAL with a LIMIT looks up one schedule a label row; joined freely, the other tenants' schedules would be read, too.
SELECT s.schedule_id
FROM schedule_labels AS l,
    LATERAL (SELECT * FROM schedules AS s WHERE s.schedule_id = l.schedule_id LIMIT 1) AS s
WHERE l.tenant_id = $1::bigint AND l.label = $7::text AND l.schedule_id > $2::uuid
    AND ($4::text IS NULL OR s.name = $4::text) AND ($5::text IS NULL OR s.group_name = $5::text)
    AND ($6::text IS NULL OR s.state = $6::text::schedule_state)
ORDER BY l.schedule_id LIMIT $3::integer;

-- name: schedule_find_named (tenant_id, names)
SELECT name, schedule_id FROM schedules
WHERE tenant_id = $1::bigint AND name = ANY ($2::text[]) AND state IN ('active', 'paused')
ORDER BY name, schedule_id;

-- name: schedule_history (tenant_id, schedule_id, before_version, n)
SELECT version, state, active_from, active_until, definition, target, payload, activated_at, actor, reason
FROM schedule_versions
WHERE schedule_id = $2::uuid AND ($1::bigint IS NULL OR tenant_id = $1::bigint) AND version < $3::integer
ORDER BY version DESC LIMIT $4::integer;
