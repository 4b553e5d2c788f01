-- name: secret_read (name)
SELECT secret FROM cell_secrets WHERE name = $1::text;

-- name: secret_make (name, secret)
-- Whoever is first: all nodes then read the same one.
INSERT INTO cell_secrets (name, secret, created_at) VALUES ($1::text, $2::bytea, rota_now()) ON CONFLICT DO NOTHING;
