-- The second part of the first schema: who plans which shard, what is planned, what came of it.

-- ---------------------------------------------------------------- who plans what: coord, plan
CREATE TABLE nodes (
    node_id         text PRIMARY KEY,                  -- one process incarnation: host, pid, random
    region          text NOT NULL DEFAULT 'default',
    roles           text[] NOT NULL,
    lease_until     timestamptz NOT NULL,
    clock_offset_ms double precision NOT NULL DEFAULT 0,
    program_version text NOT NULL DEFAULT '',
    started_at      timestamptz NOT NULL DEFAULT now()
);

-- 256 rows; the only cursor. Everything up to planned_through is planned. A write for a shard carries its generation.
CREATE TABLE shards (
    shard           smallint PRIMARY KEY,
    planned_through timestamptz NOT NULL,
    owner           text,
    generation      bigint NOT NULL DEFAULT 0,
    lease_until     timestamptz
) WITH (fillfactor = 50);
INSERT INTO shards (shard, planned_through) SELECT s, now() FROM generate_series(0, 255) AS s;

-- Which region may plan in this cell, and in which term.
CREATE TABLE regions (
    cell       text PRIMARY KEY DEFAULT 'cell' CHECK (cell = 'cell'),
    region     text NOT NULL,
    generation bigint NOT NULL,
    promoted_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO regions (region, generation) VALUES ('default', 1);

CREATE TABLE backfills (
    backfill_id  uuid PRIMARY KEY,
    tenant_id    bigint NOT NULL,
    schedule_id  uuid NOT NULL,
    version      integer NOT NULL,
    range_from   timestamptz NOT NULL,
    range_until  timestamptz NOT NULL,
    planned_through timestamptz NOT NULL,
    rate         double precision NOT NULL,            -- occurrences per second
    n_planned    bigint NOT NULL DEFAULT 0,
    state        text NOT NULL DEFAULT 'running',      -- running, done, cancelled
    created_at   timestamptz NOT NULL DEFAULT now(),
    actor        text NOT NULL
);
CREATE INDEX backfills_running ON backfills (created_at) WHERE state = 'running';
CREATE INDEX backfills_tenant ON backfills (tenant_id, created_at, backfill_id);

-- ---------------------------------------------------------------- occurrences that are not finished: hot and small
-- A row is scheduled until available_at, then enqueued (nothing is written for it: the queue IS this table), running
-- while lease_until is set, retry_wait when failures > 0 and available_at lies ahead.
CREATE TABLE occurrences (
    shard         smallint NOT NULL,
    schedule_id   uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    version       integer NOT NULL,
    tenant_id     bigint NOT NULL,
    lane_id       bigint NOT NULL,
    available_at  timestamptz NOT NULL,                -- never before it was written; infinity: held by a pause
    planned_at    timestamptz NOT NULL,
    expires_at    timestamptz,                         -- not started by then: missed, too late
    trigger       occurrence_trigger NOT NULL DEFAULT 'timing',
    is_exclusive  boolean NOT NULL DEFAULT false,      -- its lane has an overlap policy other than allow
    attempt       integer NOT NULL DEFAULT 0,          -- leases taken, given-back ones not counted
    failures      integer NOT NULL DEFAULT 0,
    losses        integer NOT NULL DEFAULT 0,          -- leases that ran out or were interrupted
    token         bigint NOT NULL DEFAULT 0,           -- fencing token: grows with every lease
    lease_until   timestamptz,
    worker        text,
    started_at    timestamptz,
    cancel_requested_at timestamptz,
    PRIMARY KEY (shard, schedule_id, scheduled_for, version)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2);
-- occurrence_claim: the front of each lane. schedule_id breaks ties so that a claim can go on from where it stopped.
CREATE INDEX occurrences_ready ON occurrences (lane_id, available_at, schedule_id) WHERE lease_until IS NULL;
-- Overlap: the constraint is the guarantee that two occurrences of an exclusive schedule never run at once.
CREATE UNIQUE INDEX occurrences_one_running ON occurrences (schedule_id) WHERE lease_until IS NOT NULL AND is_exclusive;
-- occurrence_rescue
CREATE INDEX occurrences_leased ON occurrences (lease_until) WHERE lease_until IS NOT NULL;

CREATE TABLE dead_letters (
    shard         smallint NOT NULL,
    schedule_id   uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    version       integer NOT NULL,
    tenant_id     bigint NOT NULL,
    lane_id       bigint NOT NULL,
    planned_at    timestamptz NOT NULL,
    trigger       occurrence_trigger NOT NULL,
    attempt       integer NOT NULL,
    failures      integer NOT NULL,
    losses        integer NOT NULL,
    token         bigint NOT NULL,
    started_at    timestamptz,
    died_at       timestamptz NOT NULL,
    reason        text NOT NULL,                       -- attempts_exhausted, rejected, deadline, interrupted, poison
    last_error    text,
    worker        text,
    PRIMARY KEY (shard, schedule_id, scheduled_for, version)
);
CREATE INDEX dead_letters_tenant ON dead_letters (tenant_id, scheduled_for, schedule_id);
CREATE INDEX dead_letters_age ON dead_letters (died_at);

-- ---------------------------------------------------------------- finished: appended once, dropped by day
-- One row a finished occurrence. The attempt that ended it is part of the row; the attempts before are in attempts.
-- Partitioned by scheduled_for, so that the key is the run key whatever the partition.
CREATE TABLE finished_occurrences (
    shard         smallint NOT NULL,
    schedule_id   uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    version       integer NOT NULL,
    tenant_id     bigint NOT NULL,
    state         final_state NOT NULL,
    trigger       occurrence_trigger NOT NULL,
    reason        text,
    planned_at    timestamptz,
    available_at  timestamptz,
    started_at    timestamptz,
    finished_at   timestamptz NOT NULL,
    attempt       integer NOT NULL DEFAULT 0,
    failures      integer NOT NULL DEFAULT 0,
    losses        integer NOT NULL DEFAULT 0,
    worker        text,
    status        integer,                             -- HTTP status of the answer, if there was one
    result        text,                                -- what the handler returned or the target answered, cut
    PRIMARY KEY (schedule_id, scheduled_for, version)
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX finished_occurrences_tenant ON finished_occurrences (tenant_id, scheduled_for, schedule_id);
CREATE INDEX finished_occurrences_odd ON finished_occurrences (tenant_id, state, scheduled_for, schedule_id)
    WHERE state <> 'succeeded';
CREATE TABLE finished_occurrences_default PARTITION OF finished_occurrences DEFAULT;

-- Attempts that did not succeed. Partitioned like their occurrences.
CREATE TABLE attempts (
    schedule_id   uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    version       integer NOT NULL,
    number        integer NOT NULL,
    token         bigint NOT NULL,
    tenant_id     bigint NOT NULL,
    outcome       attempt_outcome NOT NULL,
    worker        text,
    started_at    timestamptz,
    finished_at   timestamptz NOT NULL,
    status        integer,
    error_class   text,
    error         text,
    retry_at      timestamptz,
    PRIMARY KEY (schedule_id, scheduled_for, version, token)
) PARTITION BY RANGE (scheduled_for);
CREATE TABLE attempts_default PARTITION OF attempts DEFAULT;

-- Occurrences that were due but not run, in bounded space: one row a schedule and outage, whatever their number.
CREATE TABLE missed_ranges (
    shard       smallint NOT NULL,
    schedule_id uuid NOT NULL,
    version     integer NOT NULL,
    first_at    timestamptz NOT NULL,                  -- scheduled_for of the first and last of them
    last_at     timestamptz NOT NULL,
    n_missed    bigint NOT NULL,
    tenant_id   bigint NOT NULL,
    reason      text NOT NULL,                         -- misfire_skip, fire_once, catch_up_limit, too_late, paused
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (shard, schedule_id, version, first_at)
);
CREATE INDEX missed_ranges_tenant ON missed_ranges (tenant_id, last_at);
