-- name: migration_lock
-- One migrator at a time; gone with the transaction, so a killed one holds nothing.
SELECT pg_advisory_xact_lock(7410, 0);

-- name: migration_limits
-- A lock that is not had quickly is given up and asked for again: waiting in the queue would stop all traffic behind it.
SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '0', true);

-- name: migration_table_create
CREATE TABLE IF NOT EXISTS schema_migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: migration_table_exists
SELECT to_regclass('schema_migrations') IS NOT NULL;

-- name: migration_list
SELECT number, name, applied_at FROM schema_migrations ORDER BY number;

-- name: migration_record (number, name)
INSERT INTO schema_migrations (number, name) VALUES ($1, $2);
