-- name: upkeep_try (key, task)
-- One keeper at a time a task; whoever finds it taken goes on with something else. Ends with the transaction.
SELECT pg_try_advisory_xact_lock($1::integer, $2::integer) AS is_mine;

-- name: partition_days (parent)
SELECT rota_partition_days($1::text) AS day;

-- name: partition_today ()
SELECT (rota_now() AT TIME ZONE 'UTC')::date AS today;

-- name: partition_make (parent, day)
SELECT rota_make_partition($1::text, $2::date) AS is_new;

-- name: partition_drop (parent, day)
SELECT rota_drop_partition($1::text, $2::date) AS is_dropped;

-- name: finished_stray_days (from_at, until_at)
-- Days with rows in the default partition: one index look-up a day.
WITH RECURSIVE days AS (
    SELECT (SELECT min(scheduled_for) FROM finished_occurrences_default
            WHERE scheduled_for >= $1::timestamptz AND scheduled_for < $2::timestamptz) AS at
    UNION ALL
    SELECT (SELECT min(f.scheduled_for) FROM finished_occurrences_default AS f
            WHERE f.scheduled_for >= (date_trunc('day', days.at AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC'
                AND f.scheduled_for < $2::timestamptz)
    FROM days WHERE days.at IS NOT NULL
)
SELECT (at AT TIME ZONE 'UTC')::date AS day FROM days WHERE at IS NOT NULL;

-- name: attempt_stray_days (from_at, until_at)
WITH RECURSIVE days AS (
    SELECT (SELECT min(scheduled_for) FROM attempts_default
            WHERE scheduled_for >= $1::timestamptz AND scheduled_for < $2::timestamptz) AS at
    UNION ALL
    SELECT (SELECT min(f.scheduled_for) FROM attempts_default AS f
            WHERE f.scheduled_for >= (date_trunc('day', days.at AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC'
                AND f.scheduled_for < $2::timestamptz)
    FROM days WHERE days.at IS NOT NULL
)
SELECT (at AT TIME ZONE 'UTC')::date AS day FROM days WHERE at IS NOT NULL;
