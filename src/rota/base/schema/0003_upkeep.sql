-- The third part of the first schema: what the keepers need. Day partitions as functions (a table's name cannot be a
-- parameter of a statement), duties that one node does for all, and indexes for retention.

-- A duty is done by one keeper at a time: a lease with an end, never a lock that outlives its holder's mind.
CREATE TABLE duties (
    duty        text PRIMARY KEY,
    owner       text,
    lease_until timestamptz,
    done_at     timestamptz,                           -- when it was last done in full
    state       jsonb NOT NULL DEFAULT '{}'            -- where to go on, and the last result
);

-- How many leases the same worker held when this one was lost: a crash of one worker is shared blame.
ALTER TABLE attempts ADD COLUMN lost_with integer;

-- Days that are no longer, or not yet, a partition: found by day, aged out by when they finished.
CREATE INDEX finished_occurrences_default_day ON finished_occurrences_default (scheduled_for);
CREATE INDEX finished_occurrences_default_age ON finished_occurrences_default (finished_at);
CREATE INDEX attempts_default_day ON attempts_default (scheduled_for);
CREATE INDEX attempts_default_age ON attempts_default (finished_at);
CREATE INDEX missed_ranges_age ON missed_ranges (recorded_at);
CREATE INDEX nodes_lease ON nodes (lease_until);
-- The audit finds what was changed lately without reading every version; block ranges cost a bulk insert nothing.
CREATE INDEX schedule_versions_recent ON schedule_versions USING brin (activated_at) WITH (pages_per_range = 16);

CREATE FUNCTION rota_partition_name(parent text, day date) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT parent || to_char(day, '"_"YYYYMMDD')
$$;

-- The days of a parent that are partitions, ascending.
CREATE FUNCTION rota_partition_days(parent text) RETURNS SETOF date LANGUAGE sql STABLE AS $$
    SELECT to_date(right(c.relname, 8), 'YYYYMMDD')
    FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = parent::regclass AND c.relname ~ ('^' || parent || '_\d{8}$')
    ORDER BY 1
$$;

-- Makes the partition of one UTC day; false when it is there. Rows of that day that wait in the default partition move
-- in first, most of them before anything is locked; then, for what came in meanwhile and for the attaching, writers are
-- kept from the parent (a row that was routed to the default partition and waits there would be refused afterwards) and
-- readers from the default partition. Parent before child is the lock order of every reader and writer. The caller sets
-- lock_timeout and tries again: whoever waits for a lock makes everybody behind it wait.
CREATE FUNCTION rota_make_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    child text := rota_partition_name(parent, day);
    spare text := parent || '_default';
    day_from timestamptz := day::timestamp AT TIME ZONE 'UTC';
    day_until timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
    move text;
BEGIN
    IF to_regclass(child) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (scheduled_for >= %L AND scheduled_for < %L)',
        child, child || '_day', day_from, day_until);
    move := format('WITH moved AS (DELETE FROM %I WHERE scheduled_for >= %L AND scheduled_for < %L RETURNING *) '
        'INSERT INTO %I SELECT * FROM moved', spare, day_from, day_until, child);
    EXECUTE move;
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE ROW EXCLUSIVE MODE', parent);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', spare);
    EXECUTE move;
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, day_from, day_until);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', child, child || '_day');
    RETURN true;
END $$;

-- Drops the partition of one day; false when there is none. A default partition rules out DETACH ... CONCURRENTLY, so
-- this takes the parent's lock for an instant: the caller sets lock_timeout and tries again.
CREATE FUNCTION rota_drop_partition(parent text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    child text := rota_partition_name(parent, day);
BEGIN
    IF to_regclass(child) IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    EXECUTE format('DROP TABLE %I', child);
    RETURN true;
END $$;

-- The first days, so that a new cell never starts without.
SELECT rota_make_partition(p.parent, (rota_now() AT TIME ZONE 'UTC')::date + d)
FROM (VALUES ('finished_occurrences'), ('attempts')) AS p (parent), generate_series(-1, 7) AS d;
