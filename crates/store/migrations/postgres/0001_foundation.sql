-- Times are UTC microseconds. Keys are compared byte by byte, as on SQLite and in Rust. The views at the end show times as text.

-- What a partition is of, besides its day. Rows are added and never changed; the ids stay inside the store.
CREATE TABLE series (
    series_id INTEGER NOT NULL PRIMARY KEY,
    source TEXT COLLATE "C" NOT NULL,
    customer_id TEXT COLLATE "C" NOT NULL,
    query_name TEXT COLLATE "C" NOT NULL,
    -- Numbers that stand for the source and for the customer in other tables' indexes. The first is the id of the source's first
    -- series. The second is source_no * 2^32 plus the id of the customer's first series: customers of a source lie side by side.
    source_no INTEGER NOT NULL,
    scope BIGINT NOT NULL,
    UNIQUE (source, customer_id, query_name)
);

-- A partition is a series and a period. A period is a day, counted from 1970-01-01.
CREATE TABLE partitions (
    series_id INTEGER NOT NULL,
    period INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    record_count BIGINT,
    -- Of the series; here so that partitions_due can lead with it.
    source_no INTEGER NOT NULL,
    -- 1 while the control row holds a terminal mark or a pause; here so that partitions_due can leave it out.
    held SMALLINT NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status IN ('pending', 'success', 'failed')),
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    current_run_id UUID,
    error_message TEXT,
    CHECK (status <> 'success' OR current_run_id IS NOT NULL),
    PRIMARY KEY (series_id, period)
);

-- What automation might retry, in the order in which backoff lets it go.
CREATE INDEX partitions_due ON partitions (source_no, attempt_count, updated_at, series_id, period)
    WHERE status = 'failed' AND held = 0 AND error_class <> 'final';
CREATE INDEX partitions_open ON partitions (series_id, period) WHERE status <> 'success';

CREATE TABLE partition_control (
    series_id INTEGER NOT NULL,
    period INTEGER NOT NULL,
    -- Of the series; here so that the indexes can lead with them.
    source_no INTEGER NOT NULL,
    scope BIGINT NOT NULL,
    queued_at BIGINT,
    not_before BIGINT,
    terminal_at BIGINT,
    paused_at BIGINT,
    -- 1 while a reprocess is asked for, and how many attempts at it were rejected.
    reprocess SMALLINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    lane TEXT CHECK (lane IN ('fresh', 'retry', 'backfill')),
    active_run_id UUID,
    active_task_id UUID,
    terminal_by TEXT,
    terminal_why TEXT,
    paused_by TEXT,
    paused_why TEXT,
    PRIMARY KEY (series_id, period)
);

-- What can be claimed: a step down the index finds the next customer.
CREATE INDEX partition_control_claimable
    ON partition_control (lane, scope, queued_at, series_id, period)
    WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL;
CREATE INDEX partition_control_active ON partition_control (source_no) WHERE active_run_id IS NOT NULL;
-- A rejected reprocess waits for its next attempt.
CREATE INDEX partition_control_rejected ON partition_control (source_no, rejected, series_id, period)
    WHERE rejected > 0 AND lane IS NULL AND paused_at IS NULL;

CREATE TABLE runs (
    run_id UUID NOT NULL PRIMARY KEY,
    workload TEXT NOT NULL CHECK (workload IN ('extract', 'ingest', 'process')),
    category TEXT COLLATE "C" NOT NULL,
    -- The partition of an extraction.
    series_id INTEGER,
    period INTEGER,
    -- The upload of an ingestion.
    subject TEXT COLLATE "C",
    external_id TEXT,
    payload TEXT,
    state TEXT NOT NULL CHECK (state IN ('storing', 'queued', 'running', 'waiting', 'done', 'dead')),
    attempt BIGINT NOT NULL DEFAULT 0,
    retry_count BIGINT NOT NULL DEFAULT 0,
    submitted_at BIGINT NOT NULL,
    next_retry_at BIGINT,
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_message TEXT,
    error_traceback TEXT,
    task_id UUID,
    worker TEXT,
    started_at BIGINT,
    last_heartbeat BIGINT,
    lease_until BIGINT,
    completed_at BIGINT,
    ended_by TEXT CHECK (ended_by IN ('completed', 'failed', 'abandoned', 'released', 'cancelled')),
    verdict TEXT CHECK (verdict IN ('passed', 'needs_review', 'failed')),
    metrics TEXT
);

CREATE INDEX runs_queued ON runs (workload, category, submitted_at, run_id) WHERE state = 'queued';
CREATE INDEX runs_waiting ON runs (workload, next_retry_at) WHERE state = 'waiting';
CREATE INDEX runs_running ON runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_dead ON runs (completed_at) WHERE state = 'dead';
CREATE UNIQUE INDEX runs_external ON runs (workload, category, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX runs_of_partition ON runs (series_id, period, run_id) WHERE workload = 'extract';
-- Never two attempts of one partition in flight at once.
CREATE UNIQUE INDEX runs_one_active ON runs (series_id, period) WHERE workload = 'extract' AND state = 'running';

CREATE TABLE run_failures (
    run_id UUID NOT NULL,
    attempt BIGINT NOT NULL,
    failed_at BIGINT NOT NULL,
    error_class TEXT NOT NULL,
    error_message TEXT NOT NULL,
    error_traceback TEXT,
    worker TEXT,
    delay BIGINT,
    stop TEXT,
    PRIMARY KEY (run_id, failed_at, attempt)
);
CREATE INDEX run_failures_recent ON run_failures (failed_at);

-- An empty customer_id holds back the whole source.
CREATE TABLE cooldowns (
    source TEXT COLLATE "C" NOT NULL,
    customer_id TEXT COLLATE "C" NOT NULL,
    until BIGINT NOT NULL,
    why TEXT,
    PRIMARY KEY (source, customer_id)
);

CREATE TABLE operations (
    seq BIGINT NOT NULL PRIMARY KEY,
    op_id UUID NOT NULL UNIQUE,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    command TEXT NOT NULL,
    filters TEXT NOT NULL,
    flags TEXT NOT NULL,
    reason TEXT,
    hash BYTEA NOT NULL
);

CREATE TABLE operation_changes (
    seq BIGINT NOT NULL PRIMARY KEY,
    op_id UUID NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    customer_id TEXT COLLATE "C" NOT NULL,
    query_name TEXT COLLATE "C" NOT NULL,
    logical_date TEXT COLLATE "C" NOT NULL,
    before TEXT,
    after TEXT NOT NULL,
    hash BYTEA NOT NULL
);
CREATE INDEX operation_changes_of ON operation_changes (op_id, seq);

CREATE TABLE audit_head (
    one SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL
);
INSERT INTO audit_head VALUES (1, 0, decode(repeat('00', 32), 'hex'));

CREATE VIEW partition_state AS
SELECT s.source, s.customer_id, s.query_name, (date '1970-01-01' + p.period)::text AS logical_date, p.status, p.current_run_id,
    p.record_count, p.attempt_count, p.error_class, p.error_message,
    to_char(to_timestamp(p.created_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS created_at,
    to_char(to_timestamp(p.updated_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS updated_at,
    c.lane, to_char(to_timestamp(c.queued_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS queued_at,
    c.terminal_by, c.paused_by, c.active_run_id
FROM partitions p
JOIN series s ON s.series_id = p.series_id
LEFT JOIN partition_control c ON c.series_id = p.series_id AND c.period = p.period;

CREATE VIEW run_status AS
SELECT run_id, workload, category, source, customer_id, query_name,
    (date '1970-01-01' + period)::text AS logical_date, subject, state, attempt, retry_count,
    to_char(to_timestamp(submitted_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS submitted_at,
    to_char(to_timestamp(next_retry_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS next_retry_at,
    error_class, error_message, worker,
    to_char(to_timestamp(started_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS started_at,
    to_char(to_timestamp(last_heartbeat / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS last_heartbeat,
    to_char(to_timestamp(completed_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS completed_at,
    verdict, metrics
FROM runs LEFT JOIN series USING (series_id);

-- Queues leave many dead rows behind, and what looks for the next one steps over them until they are swept.
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE partition_control SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
