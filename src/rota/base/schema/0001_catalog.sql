-- The first part of the first schema: what tenants asked for. Read it in the order of the path:
-- tenants -> schedules (cadence: when, lane: where, policy: what if). 0002 goes on with shards and occurrences.
--
-- What identifies "when", "where" and "what if" is stored once and shared: a cadence, a lane and a policy are
-- immutable rows that millions of schedules point to. So planning and claiming join small tables, and a schedule
-- is never updated because it fired.

-- The one clock of the cell. Every statement that judges due-ness or a lease asks this function, never a node.
-- STABLE and inlined: costs nothing. A database on virtual time replaces it (see rota.sim).
CREATE FUNCTION rota_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT now() $$;

-- The text of a run key: schedule id, version, UTC instant. Same form as rota.base.model.RunKey.
CREATE FUNCTION rota_run_key(schedule_id uuid, version integer, scheduled_for timestamptz) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT schedule_id::text || '.' || version::text || '.'
        || to_char(scheduled_for AT TIME ZONE 'UTC', 'YYYYMMDD"T"HH24MISS')
        || CASE WHEN date_trunc('second', scheduled_for) = scheduled_for THEN ''
                ELSE to_char(scheduled_for AT TIME ZONE 'UTC', 'US') END
        || 'Z'
$$;

-- The offset of one occurrence inside its flexible window, in milliseconds: the first 8 bytes of the MD5 of the run
-- key, without the sign bit, modulo the window. Same rule as rota.calendar.window_offset.
CREATE FUNCTION rota_window_offset_ms(run_key text, window_ms bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN window_ms <= 0 THEN 0
                ELSE (('x' || substr(md5(run_key), 1, 16))::bit(64)::bigint & 9223372036854775807) % window_ms END
$$;

CREATE TYPE schedule_state AS ENUM ('active', 'paused', 'finished', 'cancelled');
CREATE TYPE occurrence_trigger AS ENUM ('timing', 'catch_up', 'backfill', 'manual');
CREATE TYPE final_state AS ENUM ('succeeded', 'dead', 'missed', 'cancelled', 'skipped_overlap');
CREATE TYPE attempt_outcome AS ENUM ('succeeded', 'failed', 'rejected', 'timed_out', 'lost', 'interrupted', 'cancelled');

-- ---------------------------------------------------------------- owners: catalog/tenants
CREATE TABLE tenants (
    tenant_id         bigint PRIMARY KEY,              -- random below 2^52: says nothing about how many there are
    name              text NOT NULL UNIQUE,
    weight            integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    max_schedules     bigint,                          -- NULL: no limit
    max_in_flight     integer,
    trigger_rate      double precision,                -- starts per second, all kinds
    catch_up_rate     double precision,                -- starts per second of recovery work
    max_payload_bytes integer NOT NULL DEFAULT 262144,
    home_region       text NOT NULL DEFAULT 'default',
    is_suspended      boolean NOT NULL DEFAULT false,
    created_at        timestamptz NOT NULL DEFAULT now()
);

-- How many schedules a tenant has that are active or paused, written by the statements that write schedules. Counted in
-- 16 rows, by connection, so that concurrent creates of one tenant do not wait for one row; the sum is the count.
CREATE TABLE tenant_usage (
    tenant_id   bigint NOT NULL,
    slot        smallint NOT NULL,
    n_schedules bigint NOT NULL,
    PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 50);

CREATE TABLE api_keys (
    key_id       text PRIMARY KEY,                     -- the public part of the key
    tenant_id    bigint NOT NULL REFERENCES tenants,
    secret_hash  bytea NOT NULL,                       -- SHA-256 of the whole key; keys carry 256 random bits
    name         text NOT NULL DEFAULT '',
    scopes       text[] NOT NULL,                      -- read, write, worker, admin
    is_operator  boolean NOT NULL DEFAULT false,       -- sees the whole cell
    created_at   timestamptz NOT NULL DEFAULT now(),
    revoked_at   timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, key_id);

-- One row a create, run or replay that carried an Idempotency-Key: written in the transaction of its effect.
CREATE TABLE idempotency_keys (
    tenant_id   bigint NOT NULL,
    key         text NOT NULL,
    fingerprint bytea NOT NULL,                        -- SHA-256 of method, path and body
    status      integer NOT NULL,
    response    jsonb NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

-- Secrets that all nodes of the cell share and nobody else: what signs the cursors of listings.
CREATE TABLE cell_secrets (
    name       text PRIMARY KEY,
    secret     bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Who changed what, when and why; automatic actors are named too. Append only.
CREATE TABLE audit_trail (
    audit_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT now(),
    tenant_id   bigint NOT NULL,
    actor_kind  text NOT NULL,                         -- key, cli, keeper, planner, worker, breaker, apply
    actor_id    text NOT NULL,
    action      text NOT NULL,                         -- schedule.pause, occurrence.replay, tenant.set ...
    object_kind text NOT NULL,
    object_id   text NOT NULL,
    reason      text,
    request_id  text,
    node        text,
    before      jsonb,
    after       jsonb
);
CREATE INDEX audit_trail_tenant ON audit_trail (tenant_id, audit_id);
CREATE INDEX audit_trail_object ON audit_trail (tenant_id, object_id, audit_id);
CREATE INDEX audit_trail_actor ON audit_trail (tenant_id, actor_id, audit_id);

-- ---------------------------------------------------------------- when, where, what if: shared, immutable
-- One row a distinct timing. next_fire_at is a lower bound: no fire of it lies between the oldest planned_through of
-- all shards and next_fire_at. NULL: it never fires again.
CREATE TABLE cadences (
    cadence_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest         bytea NOT NULL UNIQUE,              -- SHA-256 of Timing.key()
    timing         jsonb NOT NULL,                     -- Timing.to_json(), exclusions included
    time_zone      text,
    tzdata_version text NOT NULL,
    next_fire_at   timestamptz,
    set_aside      text,                               -- why its fires cannot be computed; its schedules are not planned
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX cadences_next_fire ON cadences (next_fire_at) WHERE set_aside IS NULL;

-- One row a distinct set of policies (window, misfire, overlap, priority, retry).
CREATE TABLE policies (
    policy_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest          bytea NOT NULL UNIQUE,
    document        jsonb NOT NULL,
    window_ms       bigint NOT NULL,
    misfire         text NOT NULL,                     -- skip, fire_once, catch_up
    max_lateness_ms bigint,                            -- NULL: never too late
    max_catch_up    integer NOT NULL,
    is_exclusive    boolean NOT NULL GENERATED ALWAYS AS (document ->> 'overlap' <> 'allow') STORED
);

-- One row a distinct place to wait: whatever can hold work back (tenant, queue, priority, target, key) is part of the
-- lane, so a claim skips a whole lane and never steps over single rows. priority: 0 high, 1 normal, 2 low,
-- 3 recovery (catch-up, backfill, bulk replay). target_key: 'handler:NAME', 'http:HOST:PORT', 'nats'.
CREATE TABLE lanes (
    lane_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        bigint NOT NULL REFERENCES tenants,
    queue            text NOT NULL,
    priority         smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    target_key       text NOT NULL,
    limit_key        text NOT NULL DEFAULT '',
    overlap          text NOT NULL,                    -- allow, skip_if_running, queue_one, cancel_running
    recovery_lane_id bigint REFERENCES lanes,          -- the lane of the same work when it is recovered late
    UNIQUE (tenant_id, queue, priority, target_key, limit_key, overlap)
);

-- A limit on a target ('target:http:HOST:PORT') or on a chosen key ('key:NAME') of one tenant.
CREATE TABLE limits (
    tenant_id       bigint NOT NULL REFERENCES tenants,
    scope           text NOT NULL,                     -- 'target:...', 'key:...', 'tenant', 'catch_up'
    max_concurrency integer,
    rate            double precision,                  -- starts per second
    burst           double precision,
    tokens          double precision NOT NULL DEFAULT 0,
    refilled_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, scope)
);

-- Circuit breaker and retry budget of one tenant's target.
CREATE TABLE breakers (
    tenant_id     bigint NOT NULL REFERENCES tenants,
    target_key    text NOT NULL,
    state         text NOT NULL DEFAULT 'closed',      -- closed, open, half_open
    failures      integer NOT NULL DEFAULT 0,          -- consecutive
    retry_tokens  double precision NOT NULL DEFAULT 10,
    open_until    timestamptz,
    last_error    text,
    changed_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, target_key)
);

-- What is held back as a whole: scope tenant, target, queue or group.
CREATE TABLE pauses (
    tenant_id    bigint NOT NULL REFERENCES tenants,
    scope        text NOT NULL,
    value        text NOT NULL,
    reason       text,
    actor        text NOT NULL,
    paused_at    timestamptz NOT NULL DEFAULT now(),
    paused_until timestamptz,
    PRIMARY KEY (tenant_id, scope, value)
);
CREATE INDEX pauses_until ON pauses (paused_until) WHERE paused_until IS NOT NULL;

-- A list of days that a tenant shares between schedules; resolved into the cadence when a schedule is written.
CREATE TABLE calendars (
    tenant_id  bigint NOT NULL REFERENCES tenants,
    name       text NOT NULL,
    days       jsonb NOT NULL,                         -- ["2026-12-25", {"from": "2026-12-24", "to": "2027-01-02"}]
    version    integer NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

-- ---------------------------------------------------------------- schedules: catalog/schedules
-- The shard of a schedule is the last byte of its id. Fires f with active_from < f <= active_until belong to the
-- current version. max_runs is an active_until: the instant of the last run.
CREATE TABLE schedules (
    schedule_id  uuid PRIMARY KEY,
    shard        smallint NOT NULL,
    tenant_id    bigint NOT NULL,
    version      integer NOT NULL,
    state        schedule_state NOT NULL,
    cadence_id   bigint,                               -- NULL for a one-shot
    fire_at      timestamptz,                          -- the instant of a one-shot
    lane_id      bigint NOT NULL,
    policy_id    bigint NOT NULL,
    active_from  timestamptz NOT NULL,
    active_until timestamptz,
    name         text NOT NULL,
    group_name   text NOT NULL DEFAULT '',
    labels       jsonb NOT NULL DEFAULT '{}',
    calendar_name text,                                -- the day list that its cadence leaves out
    paused_until timestamptz,
    pause_reason text,
    set_aside    text,                                 -- why it is not planned although active
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
-- All that planning reads of a schedule: plan scans this index only.
CREATE INDEX schedules_plan ON schedules (shard, cadence_id, schedule_id)
    INCLUDE (version, tenant_id, lane_id, policy_id, active_from, active_until)
    WHERE state = 'active' AND cadence_id IS NOT NULL;
CREATE INDEX schedules_plan_once ON schedules (shard, fire_at)
    INCLUDE (schedule_id, version, tenant_id, lane_id, policy_id)
    WHERE state = 'active' AND fire_at IS NOT NULL;
CREATE INDEX schedules_tenant ON schedules (tenant_id, schedule_id);
CREATE INDEX schedules_name ON schedules (tenant_id, name, schedule_id);
CREATE INDEX schedules_group ON schedules (tenant_id, group_name, schedule_id) WHERE group_name <> '';
CREATE INDEX schedules_calendar ON schedules (tenant_id, calendar_name, schedule_id) WHERE calendar_name IS NOT NULL;
CREATE INDEX schedules_not_active ON schedules (tenant_id, state, schedule_id) WHERE state <> 'active';
CREATE INDEX schedules_paused_until ON schedules (paused_until) WHERE paused_until IS NOT NULL;
CREATE INDEX schedules_ending ON schedules (active_until) WHERE state = 'active' AND active_until IS NOT NULL;

-- The labels of schedules, one row each as 'key=value': a page of those with a label is one range of the key, however
-- many there are and whoever else uses the same label.
CREATE TABLE schedule_labels (
    tenant_id   bigint NOT NULL,
    label       text NOT NULL,
    schedule_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, label, schedule_id)
);

-- Every version of every schedule, append only: what workers run (target, payload) and what the audit recomputes from.
-- A version is in force from activated_at until the activated_at of the next one.
CREATE TABLE schedule_versions (
    schedule_id  uuid NOT NULL,
    version      integer NOT NULL,
    tenant_id    bigint NOT NULL,
    state        schedule_state NOT NULL,
    cadence_id   bigint,
    fire_at      timestamptz,
    lane_id      bigint NOT NULL,
    policy_id    bigint NOT NULL,
    active_from  timestamptz NOT NULL,
    active_until timestamptz,
    definition   jsonb NOT NULL,                       -- the document as the tenant wrote it, less target and payload
    target       jsonb NOT NULL,
    payload      jsonb,
    activated_at timestamptz NOT NULL,
    actor        text NOT NULL,
    reason       text,
    PRIMARY KEY (schedule_id, version)
);
