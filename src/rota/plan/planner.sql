-- name: cursor_read (owner, shards, generations)
-- The cursors of the shards that are still ours in the generation we know.
SELECT h.shard, h.planned_through, rota_now() AS now
FROM shards AS h JOIN unnest($2::smallint[], $3::bigint[]) AS w (shard, generation) USING (shard, generation)
WHERE h.owner = $1::text;

-- name: cadence_due (through)
-- next_fire_at is a lower bound: whoever may fire up to an instant is among these.
SELECT cadence_id, next_fire_at FROM cadences
WHERE next_fire_at <= $1::timestamptz AND set_aside IS NULL ORDER BY cadence_id;

-- name: cadence_due_more (through, known)
-- Asked again under the shard locks: a cadence whose first schedule was created since the fires were computed.
SELECT cadence_id FROM cadences
WHERE next_fire_at <= $1::timestamptz AND set_aside IS NULL AND cadence_id <> ALL ($2::bigint[]);

-- name: cadence_learn (cadence_ids)
SELECT cadence_id, timing FROM cadences WHERE cadence_id = ANY ($1::bigint[]) AND set_aside IS NULL;

-- name: cadence_advance (through, cadence_ids, next_fire_ats)
-- Everything up to `through` is planned in every shard. An instant that another planner has written for a later cursor
-- is left as it is.
UPDATE cadences AS c SET next_fire_at = w.next_fire_at
FROM unnest($2::bigint[], $3::timestamptz[]) AS w (cadence_id, next_fire_at)
WHERE c.cadence_id = w.cadence_id AND c.next_fire_at <= $1::timestamptz;

-- name: cadence_set_aside (cadence_id, reason)
UPDATE cadences SET set_aside = $2::text WHERE cadence_id = $1::bigint AND set_aside IS NULL;

-- name: cadence_set_aside_schedules (cadence_id, reason)
-- Its schedules tell it too. The list of shards leads through the planning index.
UPDATE schedules SET set_aside = $2::text
WHERE shard = ANY (ARRAY(SELECT g::smallint FROM generate_series(0, 255) AS g)) AND cadence_id = $1::bigint
    AND state = 'active' AND set_aside IS DISTINCT FROM $2::text;

-- name: cursor_lowest ()
SELECT min(planned_through) AS planned_through, rota_now() AS now FROM shards;

-- name: plan_settings (idle_ms, lock_ms)
-- For this transaction alone. A planner that freezes in it must not hold its shards for longer than a lease; plans are
-- made for the very arrays given (a generic plan assumes ten elements and may scan whole shards).
SELECT set_config('idle_in_transaction_session_timeout', $1::text, true),
    set_config('lock_timeout', $2::text, true), set_config('plan_cache_mode', 'force_custom_plan', true),
    set_config('jit', 'off', true), set_config('work_mem', '64MB', true), set_config('enable_seqscan', 'off', true);

-- name: shard_lock_free (shards)
-- Exclusive against API writes. Only those that can be had at once, so that nobody is waited for while others are held.
SELECT s.shard FROM unnest($1::smallint[]) AS s (shard) WHERE pg_try_advisory_xact_lock(7411, s.shard);

-- name: shard_lock (shard)
-- One shard, waited for: writers that come later queue behind, so a busy shard is not put off for ever.
SELECT pg_advisory_xact_lock(7411, $1::integer);

-- name: region_hold (region, generation)
-- Held until commit: a promotion waits for this transaction, and this one finds a promotion that came first.
SELECT generation FROM regions WHERE region = $1::text AND generation = $2::bigint FOR SHARE;

-- name: cursor_advance (owner, shards, generations, planned_from, planned_through)
-- The fence, and the last statement before commit: who is no longer the owner in this generation touches fewer rows
-- than it has shards, and is rolled back with all it inserted. Late, so that renewals hardly ever meet a locked row.
WITH mine AS MATERIALIZED (
    SELECT h.shard FROM shards AS h JOIN unnest($2::smallint[], $3::bigint[]) AS w (shard, generation)
        USING (shard, generation)
    WHERE h.owner = $1::text AND h.planned_through = $4::timestamptz
    ORDER BY h.shard FOR UPDATE OF h
)
UPDATE shards AS h SET planned_through = $5::timestamptz FROM mine WHERE h.shard = mine.shard;

-- name: window_plan (shards, cadence_ids, fire_ats)
-- The heart: fires x schedules, index only. Conflicts are what the API has planned already. The offset is computed for
-- flexible windows only; the rest of the row is copied.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, f.fire_at, s.version, s.tenant_id, s.lane_id, a.available_at, rota_now(),
    a.available_at + p.max_lateness_ms * interval '1 ms', 'timing', p.is_exclusive
FROM unnest($2::bigint[], $3::timestamptz[]) AS f (cadence_id, fire_at)
JOIN schedules AS s ON s.cadence_id = f.cadence_id
JOIN policies AS p ON p.policy_id = s.policy_id
CROSS JOIN LATERAL (SELECT CASE WHEN p.window_ms = 0 THEN greatest(f.fire_at, rota_now())
    ELSE greatest(f.fire_at + rota_window_offset_ms(rota_run_key(s.schedule_id, s.version, f.fire_at), p.window_ms)
        * interval '1 ms', rota_now()) END) AS a (available_at)
WHERE s.shard = ANY ($1::smallint[]) AND s.state = 'active' AND s.cadence_id IS NOT NULL
    AND s.active_from < f.fire_at AND (s.active_until IS NULL OR f.fire_at <= s.active_until)
ON CONFLICT DO NOTHING;

-- name: window_plan_once (shards, after, through)
-- One-shots have their instant with them.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, s.fire_at, s.version, s.tenant_id, s.lane_id, a.available_at, rota_now(),
    a.available_at + p.max_lateness_ms * interval '1 ms', 'timing', p.is_exclusive
FROM schedules AS s
JOIN policies AS p ON p.policy_id = s.policy_id
CROSS JOIN LATERAL (SELECT CASE WHEN p.window_ms = 0 THEN greatest(s.fire_at, rota_now())
    ELSE greatest(s.fire_at + rota_window_offset_ms(rota_run_key(s.schedule_id, s.version, s.fire_at), p.window_ms)
        * interval '1 ms', rota_now()) END) AS a (available_at)
WHERE s.shard = ANY ($1::smallint[]) AND s.state = 'active' AND s.fire_at > $2::timestamptz
    AND s.fire_at <= $3::timestamptz
ON CONFLICT DO NOTHING;
