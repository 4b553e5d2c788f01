-- name: duty_take (duty, owner, lease_s)
-- Free, run out or already ours: taken for so many seconds. No row: somebody else's.
INSERT INTO duties AS d (duty, owner, lease_until)
VALUES ($1::text, $2::text, rota_now() + make_interval(secs => $3::double precision))
ON CONFLICT (duty) DO UPDATE SET owner = EXCLUDED.owner, lease_until = EXCLUDED.lease_until
WHERE d.owner IS NULL OR d.owner = EXCLUDED.owner OR d.lease_until <= rota_now()
RETURNING d.state;

-- name: duty_write (duty, owner, lease_s, state, is_done)
-- Only by its holder: a keeper that was frozen past its lease writes nothing.
UPDATE duties SET state = $4::jsonb, lease_until = rota_now() + make_interval(secs => $3::double precision),
    done_at = CASE WHEN $5::boolean THEN rota_now() ELSE done_at END
WHERE duty = $1::text AND owner = $2::text AND lease_until > rota_now();

-- name: duty_leave (duty, owner)
UPDATE duties SET owner = NULL, lease_until = NULL WHERE duty = $1::text AND owner = $2::text;

-- name: duty_read (duty)
SELECT owner, lease_until, done_at, state FROM duties WHERE duty = $1::text;
