-- name: cadence_find (digests)
-- Found first, so that asking again for a timing that exists burns no identity value.
SELECT digest, cadence_id, set_aside FROM cadences WHERE digest = ANY ($1::bytea[]);

-- name: cadence_insert (digests, timings, time_zones, tzdata_version, next_fire_ats)
-- In digest order: two writers that add the same timings wait for each other and never in a circle.
INSERT INTO cadences (digest, timing, time_zone, tzdata_version, next_fire_at, created_at)
SELECT t.digest, t.timing::jsonb, t.time_zone, $4::text, t.next_fire_at, rota_now()
FROM unnest($1::bytea[], $2::text[], $3::text[], $5::timestamptz[]) AS t (digest, timing, time_zone, next_fire_at)
ORDER BY t.digest
ON CONFLICT (digest) DO NOTHING;

-- name: cadence_now ()
SELECT rota_now();

-- name: cadence_get (cadence_ids)
SELECT cadence_id, timing, time_zone, tzdata_version, next_fire_at, set_aside
FROM cadences WHERE cadence_id = ANY ($1::bigint[]);
