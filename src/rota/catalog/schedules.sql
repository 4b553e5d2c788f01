-- name: schedule_insert (tenant_id, ids, names, groups, labels, calendars, cadence_ids, fire_ats, lane_ids, policy_ids, active_froms, active_untils, definitions, targets, payloads, actor, reason)
-- Schedules, their first versions, their labels and the tenant's count, in one statement whatever their number. An id
-- that exists is left as it is and not returned. Id order is the lock order.
WITH wanted AS MATERIALIZED (
    SELECT w.*, w.labels_text::jsonb AS labels
    FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::timestamptz[],
        $9::bigint[], $10::bigint[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::text[], $15::text[])
        AS w (schedule_id, name, group_name, labels_text, calendar_name, cadence_id, fire_at, lane_id, policy_id,
            active_from, active_until, definition, target, payload)
    ORDER BY w.schedule_id
), written AS (
    INSERT INTO schedules (schedule_id, shard, tenant_id, version, state, cadence_id, fire_at, lane_id, policy_id,
        active_from, active_until, name, group_name, labels, calendar_name, created_at, updated_at)
    SELECT schedule_id, get_byte(uuid_send(schedule_id), 15), $1::bigint, 1, 'active', cadence_id, fire_at, lane_id,
        policy_id, active_from, active_until, name, group_name, labels, calendar_name, rota_now(), rota_now()
    FROM wanted
    ON CONFLICT (schedule_id) DO NOTHING
    RETURNING schedule_id
), versions AS (
    INSERT INTO schedule_versions (schedule_id, version, tenant_id, state, cadence_id, fire_at, lane_id, policy_id,
        active_from, active_until, definition, target, payload, activated_at, actor, reason)
    SELECT schedule_id, 1, $1::bigint, 'active', cadence_id, fire_at, lane_id, policy_id, active_from, active_until,
        definition::jsonb, target::jsonb, payload::jsonb, rota_now(), $16::text, $17::text
    FROM wanted JOIN written USING (schedule_id)
), labelled AS (
    INSERT INTO schedule_labels (tenant_id, label, schedule_id)
    SELECT $1::bigint, l.key || '=' || l.value, schedule_id
    FROM wanted JOIN written USING (schedule_id), jsonb_each_text(wanted.labels) AS l
    WHERE wanted.labels <> '{}'
), counted AS (
    INSERT INTO tenant_usage AS u (tenant_id, slot, n_schedules)
    SELECT $1::bigint, pg_backend_pid() % 16, count(*) FROM written HAVING count(*) > 0
    ON CONFLICT (tenant_id, slot) DO UPDATE SET n_schedules = u.n_schedules + EXCLUDED.n_schedules
)
SELECT schedule_id FROM written;

-- name: schedule_replace (tenant_id, ids, expected_versions, states, names, groups, labels, calendars, cadence_ids, fire_ats, lane_ids, policy_ids, active_froms, active_untils, definitions, targets, payloads, actor, reason)
-- A new version of each that still has the expected one; who is not returned was changed in between. A pause that
-- holds goes on, with its reason.
WITH wanted AS MATERIALIZED (
    SELECT w.*, w.labels_text::jsonb AS labels
    FROM unnest($2::uuid[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[],
        $10::timestamptz[], $11::bigint[], $12::bigint[], $13::timestamptz[], $14::timestamptz[], $15::text[],
        $16::text[], $17::text[])
        AS w (schedule_id, expected, state, name, group_name, labels_text, calendar_name, cadence_id, fire_at, lane_id,
            policy_id, active_from, active_until, definition, target, payload)
), old AS MATERIALIZED (
    SELECT schedule_id, state FROM schedules
    WHERE schedule_id = ANY ($2::uuid[]) AND tenant_id = $1::bigint
    ORDER BY schedule_id FOR UPDATE
), written AS (
    UPDATE schedules AS s SET version = s.version + 1, state = w.state::schedule_state, cadence_id = w.cadence_id,
        fire_at = w.fire_at, lane_id = w.lane_id, policy_id = w.policy_id, active_from = w.active_from,
        active_until = w.active_until, name = w.name, group_name = w.group_name, labels = w.labels,
        calendar_name = w.calendar_name, set_aside = NULL, updated_at = rota_now()
    FROM wanted AS w JOIN old USING (schedule_id)
    WHERE s.schedule_id = w.schedule_id AND s.version = w.expected
    RETURNING s.schedule_id, s.version, s.state, old.state AS old_state
), versions AS (
    INSERT INTO schedule_versions (schedule_id, version, tenant_id, state, cadence_id, fire_at, lane_id, policy_id,
        active_from, active_until, definition, target, payload, activated_at, actor, reason)
    SELECT schedule_id, n.version, $1::bigint, n.state, cadence_id, fire_at, lane_id, policy_id, active_from,
        active_until, definition::jsonb, target::jsonb, payload::jsonb, rota_now(), $18::text, $19::text
    FROM wanted JOIN written AS n USING (schedule_id)
), counted AS (
    INSERT INTO tenant_usage AS u (tenant_id, slot, n_schedules)
    SELECT $1::bigint, pg_backend_pid() % 16,
        sum((state IN ('active', 'paused'))::integer - (old_state IN ('active', 'paused'))::integer)
    FROM written HAVING bool_or((state IN ('active', 'paused')) <> (old_state IN ('active', 'paused')))
    ON CONFLICT (tenant_id, slot) DO UPDATE SET n_schedules = u.n_schedules + EXCLUDED.n_schedules
)
SELECT schedule_id, version FROM written;

-- name: schedule_relabel (tenant_id, ids)
-- After a replacement: the label rows follow the labels. What they were is in the version before.
WITH now_has AS MATERIALIZED (
    SELECT s.schedule_id, l.key || '=' || l.value AS label
    FROM schedules AS s, jsonb_each_text(s.labels) AS l
    WHERE s.schedule_id = ANY ($2::uuid[]) AND s.tenant_id = $1::bigint
), had AS MATERIALIZED (
    SELECT s.schedule_id, l.key || '=' || l.value AS label
    FROM schedules AS s
    JOIN schedule_versions AS v ON v.schedule_id = s.schedule_id AND v.version = s.version - 1,
        jsonb_each_text(coalesce(v.definition -> 'labels', '{}')) AS l
    WHERE s.schedule_id = ANY ($2::uuid[]) AND s.tenant_id = $1::bigint
), gone AS (
    DELETE FROM schedule_labels AS o
    USING (SELECT schedule_id, label FROM had EXCEPT SELECT schedule_id, label FROM now_has) AS g
    WHERE o.tenant_id = $1::bigint AND o.label = g.label AND o.schedule_id = g.schedule_id
)
INSERT INTO schedule_labels (tenant_id, label, schedule_id)
SELECT $1::bigint, label, schedule_id FROM (SELECT schedule_id, label FROM now_has EXCEPT SELECT schedule_id, label
    FROM had) AS n
ORDER BY label, schedule_id
ON CONFLICT DO NOTHING;

-- name: schedule_change_state (tenant_id, ids, expected_versions, state, active_froms, active_untils, paused_until, pause_reason, actor, reason)
-- A new version that differs in its state alone: the rule, the target and the payload are those of the version before.
-- An expected version that is NULL stands for whichever it has.
WITH wanted AS MATERIALIZED (
    SELECT w.* FROM unnest($2::uuid[], $3::integer[], $5::timestamptz[], $6::timestamptz[])
        AS w (schedule_id, expected, active_from, active_until)
), old AS MATERIALIZED (
    SELECT schedule_id, state FROM schedules
    WHERE schedule_id = ANY ($2::uuid[]) AND ($1::bigint IS NULL OR tenant_id = $1::bigint)
    ORDER BY schedule_id FOR UPDATE
), written AS (
    UPDATE schedules AS s SET version = s.version + 1, state = $4::schedule_state, active_from = w.active_from,
        active_until = w.active_until, paused_until = $7::timestamptz, pause_reason = $8::text, updated_at = rota_now()
    FROM wanted AS w JOIN old USING (schedule_id)
    WHERE s.schedule_id = w.schedule_id AND s.version = coalesce(w.expected, s.version)
    RETURNING s.*, old.state AS old_state
), versions AS (
    INSERT INTO schedule_versions (schedule_id, version, tenant_id, state, cadence_id, fire_at, lane_id, policy_id,
        active_from, active_until, definition, target, payload, activated_at, actor, reason)
    SELECT n.schedule_id, n.version, n.tenant_id, n.state, n.cadence_id, n.fire_at, n.lane_id, n.policy_id,
        n.active_from, n.active_until, v.definition, v.target, v.payload, rota_now(), $9::text, $10::text
    FROM written AS n JOIN schedule_versions AS v ON v.schedule_id = n.schedule_id AND v.version = n.version - 1
), counted AS (
    INSERT INTO tenant_usage AS u (tenant_id, slot, n_schedules)
    SELECT tenant_id, pg_backend_pid() % 16,
        sum((state IN ('active', 'paused'))::integer - (old_state IN ('active', 'paused'))::integer)
    FROM written GROUP BY tenant_id
    HAVING bool_or((state IN ('active', 'paused')) <> (old_state IN ('active', 'paused')))
    ORDER BY tenant_id
    ON CONFLICT (tenant_id, slot) DO UPDATE SET n_schedules = u.n_schedules + EXCLUDED.n_schedules
)
SELECT schedule_id, version FROM written;

-- name: schedule_hold_calendars (tenant_id, names)
-- Shared by the writers of schedules that use a day list: who changes the list waits for them, and then sees what they
-- wrote. Name order is the lock order.
SELECT name, version FROM calendars WHERE tenant_id = $1::bigint AND name = ANY ($2::text[]) ORDER BY name FOR SHARE;

-- name: schedule_set_aside (ids, reasons)
-- Not a change by its owner, so no version: why a schedule is not planned although it is active.
UPDATE schedules AS s SET set_aside = w.reason
FROM unnest($1::uuid[], $2::text[]) AS w (schedule_id, reason)
WHERE s.schedule_id = w.schedule_id AND s.set_aside IS DISTINCT FROM w.reason;

-- name: schedule_lock (tenant_id, ids)
-- Locked first and read afterwards by a new statement: a row that was waited for is then seen with its new version.
-- Id order is the lock order.
SELECT schedule_id FROM schedules
WHERE schedule_id = ANY ($2::uuid[]) AND ($1::bigint IS NULL OR tenant_id = $1::bigint)
ORDER BY schedule_id FOR UPDATE;
