-- name: shard_lock (shards)
-- Exclusive against API writes of these shards until the end of the transaction; ascending, as everybody locks.
-- A statement of its own: what follows must see what the others have committed.
SELECT pg_advisory_xact_lock(7411, shard) FROM (
    SELECT shard FROM unnest($1::smallint[]) AS u (shard) ORDER BY shard
) AS ordered;

-- name: planner_limits
-- Whoever waits for a lock stops everybody behind it: give up soon and leave the shards for the next tick. The plan of
-- the window statements must not depend on guesses about the arrays: always the covering index.
SELECT set_config('lock_timeout', '2s', true), set_config('enable_seqscan', 'off', true),
    set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'on', true),
    set_config('jit', 'off', true);

-- name: shard_owned (shards, generations, region, region_generation)
-- The shards of which the caller is still the owner in this term, locked until commit, and the cell's time.
SELECT s.shard, s.planned_through, rota_now() AS now
FROM unnest($1::smallint[], $2::bigint[]) AS w (shard, generation)
JOIN shards AS s ON s.shard = w.shard AND s.generation = w.generation
WHERE EXISTS (SELECT FROM regions WHERE region = $3::text AND ($4::bigint IS NULL OR generation = $4::bigint))
ORDER BY s.shard
FOR UPDATE OF s;

-- name: window_plan (shards, cadence_ids, fire_ats)
-- Every schedule of these shards at every fire of its cadence in the window. Index-only on schedules_plan: schedules
-- are looked up by (shard, cadence) and hardly ever change. Rows that exist stay as they are.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, f.fire_at, s.version, s.tenant_id, s.lane_id, w.available_at, rota_now(),
    CASE WHEN p.misfire = 'skip' THEN w.available_at + greatest(p.max_lateness_ms, 5000) * interval '1 ms' END,
    'timing', l.overlap <> 'allow'
FROM unnest($1::smallint[]) AS o (shard)
CROSS JOIN unnest($2::bigint[], $3::timestamptz[]) AS f (cadence_id, fire_at)
JOIN schedules AS s ON s.shard = o.shard AND s.cadence_id = f.cadence_id AND s.state = 'active'
    AND s.active_from < f.fire_at AND (s.active_until IS NULL OR f.fire_at <= s.active_until)
JOIN policies AS p ON p.policy_id = s.policy_id
JOIN lanes AS l ON l.lane_id = s.lane_id
CROSS JOIN LATERAL (
    SELECT greatest(rota_now(), CASE WHEN p.window_ms = 0 THEN f.fire_at ELSE f.fire_at + interval '1 ms'
        * rota_window_offset_ms(rota_run_key(s.schedule_id, s.version, f.fire_at), p.window_ms) END) AS available_at
) AS w
ON CONFLICT DO NOTHING;

-- name: window_plan_once (shards, after, through)
-- One-shots of these shards whose instant lies in the window.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    expires_at, trigger, is_exclusive)
SELECT s.shard, s.schedule_id, s.fire_at, s.version, s.tenant_id, s.lane_id, w.available_at, rota_now(),
    CASE WHEN p.misfire = 'skip' THEN w.available_at + greatest(p.max_lateness_ms, 5000) * interval '1 ms' END,
    'timing', l.overlap <> 'allow'
FROM unnest($1::smallint[]) AS o (shard)
JOIN schedules AS s ON s.shard = o.shard AND s.state = 'active' AND s.fire_at > $2::timestamptz
    AND s.fire_at <= $3::timestamptz
JOIN policies AS p ON p.policy_id = s.policy_id
JOIN lanes AS l ON l.lane_id = s.lane_id
CROSS JOIN LATERAL (
    SELECT greatest(rota_now(), s.fire_at + interval '1 ms'
        * rota_window_offset_ms(rota_run_key(s.schedule_id, s.version, s.fire_at), p.window_ms)) AS available_at
) AS w
ON CONFLICT DO NOTHING;

-- name: window_late_groups (shards, cadence_ids, after, through)
-- The distinct questions that late fires raise: cadence, policy and the part of the window that the version covers.
SELECT s.cadence_id, s.policy_id, greatest(s.active_from, $3::timestamptz) AS since,
    least(s.active_until, $4::timestamptz) AS until
FROM unnest($1::smallint[]) AS o (shard)
CROSS JOIN unnest($2::bigint[]) AS c (cadence_id)
JOIN schedules AS s ON s.shard = o.shard AND s.cadence_id = c.cadence_id AND s.state = 'active'
WHERE greatest(s.active_from, $3::timestamptz) < least(s.active_until, $4::timestamptz)
GROUP BY 1, 2, 3, 4;

-- name: window_plan_late (shards, after, through, cadence_ids, policy_ids, sinces, untils, fire_ats, triggers)
-- Late fires that are run, in the recovery lane when they are caught up, so that they never stand before new work.
INSERT INTO occurrences (shard, schedule_id, scheduled_for, version, tenant_id, lane_id, available_at, planned_at,
    trigger, is_exclusive)
SELECT s.shard, s.schedule_id, d.fire_at, s.version, s.tenant_id,
    CASE WHEN d.trigger = 'catch_up' THEN coalesce(l.recovery_lane_id, l.lane_id) ELSE l.lane_id END,
    greatest(d.fire_at, rota_now()), rota_now(), d.trigger::occurrence_trigger, l.overlap <> 'allow'
FROM unnest($1::smallint[]) AS o (shard)
CROSS JOIN unnest($4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[], $8::timestamptz[], $9::text[])
    AS d (cadence_id, policy_id, since, until, fire_at, trigger)
JOIN schedules AS s ON s.shard = o.shard AND s.cadence_id = d.cadence_id AND s.state = 'active'
    AND s.policy_id = d.policy_id AND greatest(s.active_from, $2::timestamptz) = d.since
    AND least(s.active_until, $3::timestamptz) = d.until
JOIN lanes AS l ON l.lane_id = s.lane_id
ON CONFLICT DO NOTHING;

-- name: window_miss_late (shards, after, through, cadence_ids, policy_ids, sinces, untils, firsts, lasts, counts, reasons)
-- Late fires that are not run: one row a schedule, whatever their number.
INSERT INTO missed_ranges (shard, schedule_id, version, first_at, last_at, n_missed, tenant_id, reason, recorded_at)
SELECT s.shard, s.schedule_id, s.version, d.first_at, d.last_at, d.n, s.tenant_id, d.reason, rota_now()
FROM unnest($1::smallint[]) AS o (shard)
CROSS JOIN unnest($4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[], $8::timestamptz[],
    $9::timestamptz[], $10::bigint[], $11::text[])
    AS d (cadence_id, policy_id, since, until, first_at, last_at, n, reason)
JOIN schedules AS s ON s.shard = o.shard AND s.cadence_id = d.cadence_id AND s.state = 'active'
    AND s.policy_id = d.policy_id AND greatest(s.active_from, $2::timestamptz) = d.since
    AND least(s.active_until, $3::timestamptz) = d.until
ON CONFLICT DO NOTHING;

-- name: shard_advance (shards, generations, through)
-- The cursor moves in the transaction of the rows. The caller checks that every shard was still its own.
UPDATE shards AS s SET planned_through = $3::timestamptz
FROM unnest($1::smallint[], $2::bigint[]) AS w (shard, generation)
WHERE s.shard = w.shard AND s.generation = w.generation AND s.planned_through < $3::timestamptz;

-- name: cadence_due (through)
-- The cadences that may fire in a window. next_fire_at is a lower bound.
SELECT cadence_id, timing, next_fire_at FROM cadences
WHERE set_aside IS NULL AND next_fire_at <= $1::timestamptz
ORDER BY next_fire_at;

-- name: cadence_advance (cadence_ids, next_fire_ats, floor)
-- Only while no shard stands before the floor: a lagging shard still needs the older fires.
UPDATE cadences AS c SET next_fire_at = n.next_fire_at
FROM unnest($1::bigint[], $2::timestamptz[]) AS n (cadence_id, next_fire_at)
WHERE c.cadence_id = n.cadence_id AND c.next_fire_at < coalesce(n.next_fire_at, 'infinity')
    AND NOT EXISTS (SELECT FROM shards WHERE planned_through < $3::timestamptz);

-- name: cadence_set_aside (cadence_id, reason)
UPDATE cadences SET set_aside = $2::text WHERE cadence_id = $1::bigint AND set_aside IS NULL;

-- name: shard_positions (shards, generations)
SELECT s.shard, s.generation, s.planned_through, rota_now() AS now
FROM unnest($1::smallint[], $2::bigint[]) AS w (shard, generation)
JOIN shards AS s ON s.shard = w.shard AND s.generation = w.generation
ORDER BY s.planned_through, s.shard;

-- name: policy_read (policy_ids)
SELECT policy_id, document FROM policies WHERE policy_id = ANY ($1::bigint[]);

-- name: planned_ahead
SELECT extract(epoch FROM min(planned_through) - rota_now())::double precision FROM shards;
