-- name: audit_record (tenant_ids, kinds, actors, actions, object_kinds, object_ids, reasons, requests, nodes, befores, afters)
-- In the transaction of the change: there is no change without its entry, and no entry without its change.
INSERT INTO audit_trail (at, tenant_id, actor_kind, actor_id, action, object_kind, object_id, reason, request_id, node,
    before, after)
SELECT rota_now(), w.tenant_id, w.actor_kind, w.actor_id, w.action, w.object_kind, w.object_id, w.reason, w.request_id,
    w.node, w.before::jsonb, w.after::jsonb
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
    $9::text[], $10::text[], $11::text[])
    AS w (tenant_id, actor_kind, actor_id, action, object_kind, object_id, reason, request_id, node, before, after);

-- name: audit_list (tenant_id, before_id, n, action)
SELECT audit_id, at, tenant_id, actor_kind, actor_id, action, object_kind, object_id, reason, request_id, node, before,
    after
FROM audit_trail
WHERE tenant_id = $1::bigint AND audit_id < $2::bigint AND ($4::text IS NULL OR action = $4::text)
ORDER BY audit_id DESC LIMIT $3::integer;

-- name: audit_list_of_object (tenant_id, before_id, n, action, object_id)
SELECT audit_id, at, tenant_id, actor_kind, actor_id, action, object_kind, object_id, reason, request_id, node, before,
    after
FROM audit_trail
WHERE tenant_id = $1::bigint AND object_id = $5::text AND audit_id < $2::bigint
    AND ($4::text IS NULL OR action = $4::text)
ORDER BY audit_id DESC LIMIT $3::integer;

-- name: audit_list_of_actor (tenant_id, before_id, n, action, actor_id)
SELECT audit_id, at, tenant_id, actor_kind, actor_id, action, object_kind, object_id, reason, request_id, node, before,
    after
FROM audit_trail
WHERE tenant_id = $1::bigint AND actor_id = $5::text AND audit_id < $2::bigint
    AND ($4::text IS NULL OR action = $4::text)
ORDER BY audit_id DESC LIMIT $3::integer;

-- name: audit_read_creation (tenant_id, schedule_id)
-- Schedules made by the thousand share one entry; who made this one, and why, is in its first version.
SELECT 0::bigint AS audit_id, v.activated_at AS at, v.tenant_id, split_part(v.actor, ':', 1) AS actor_kind,
    substr(v.actor, strpos(v.actor, ':') + 1) AS actor_id, 'schedule.create' AS action, 'schedule' AS object_kind,
    v.schedule_id::text AS object_id, v.reason, NULL::text AS request_id, NULL::text AS node, NULL::jsonb AS before,
    '{"version": 1}'::jsonb AS after
FROM schedule_versions AS v
WHERE v.schedule_id = $2::uuid AND v.version = 1 AND v.tenant_id = $1::bigint AND NOT EXISTS (
    SELECT FROM audit_trail AS a
    WHERE a.tenant_id = $1::bigint AND a.object_id = $2::uuid::text AND a.object_kind = 'schedule'
        AND a.action = 'schedule.create');
