-- Times are UTC microseconds; ids are UUIDs of 16 bytes. The views at the end show both as text.
-- Checks are written as ORs: for an IN list SQLite would build a table of its own with every row that is written.

-- What a partition is of, besides its day. Rows are added and never changed; the ids stay inside the store.
CREATE TABLE series (
    series_id INTEGER NOT NULL PRIMARY KEY,
    source TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    query_name TEXT NOT NULL,
    -- Numbers that stand for the source and for the customer in other tables' indexes. The first is the id of the source's first
    -- series. The second is source_no * 2^32 plus the id of the customer's first series: customers of a source lie side by side.
    source_no INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    UNIQUE (source, customer_id, query_name)
) STRICT;

-- A partition is a series and a period. A period is a day, counted from 1970-01-01.
CREATE TABLE partitions (
    series_id INTEGER NOT NULL,
    period INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    record_count INTEGER,
    -- Of the series; here so that partitions_due can lead with it.
    source_no INTEGER NOT NULL,
    -- 1 while the control row holds a terminal mark or a pause; here so that partitions_due can leave it out.
    held INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status = 'pending' OR status = 'success' OR status = 'failed'),
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
    current_run_id BLOB,
    error_message TEXT,
    CHECK (status <> 'success' OR current_run_id IS NOT NULL),
    PRIMARY KEY (series_id, period)
) STRICT, WITHOUT ROWID;

-- What automation might retry, in the order in which backoff lets it go.
CREATE INDEX partitions_due ON partitions (source_no, attempt_count, updated_at, series_id, period)
    WHERE status = 'failed' AND held = 0 AND error_class <> 'final';
CREATE INDEX partitions_open ON partitions (series_id, period) WHERE status <> 'success';

CREATE TABLE partition_control (
    series_id INTEGER NOT NULL,
    period INTEGER NOT NULL,
    -- Of the series; here so that the indexes can lead with them.
    source_no INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    queued_at INTEGER,
    not_before INTEGER,
    terminal_at INTEGER,
    paused_at INTEGER,
    -- 1 while a reprocess is asked for, and how many attempts at it were rejected.
    reprocess INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    lane TEXT CHECK (lane = 'fresh' OR lane = 'retry' OR lane = 'backfill'),
    active_run_id BLOB,
    active_task_id BLOB,
    terminal_by TEXT,
    terminal_why TEXT,
    paused_by TEXT,
    paused_why TEXT,
    PRIMARY KEY (series_id, period)
) STRICT, WITHOUT ROWID;

-- What can be claimed: a step down the index finds the next customer.
CREATE INDEX partition_control_claimable
    ON partition_control (lane, scope, queued_at, series_id, period)
    WHERE lane IS NOT NULL AND active_run_id IS NULL AND paused_at IS NULL;
CREATE INDEX partition_control_active ON partition_control (source_no) WHERE active_run_id IS NOT NULL;
-- A rejected reprocess waits for its next attempt.
CREATE INDEX partition_control_rejected ON partition_control (source_no, rejected, series_id, period)
    WHERE rejected > 0 AND lane IS NULL AND paused_at IS NULL;

CREATE TABLE runs (
    run_id BLOB NOT NULL PRIMARY KEY,
    workload TEXT NOT NULL CHECK (workload = 'extract' OR workload = 'ingest' OR workload = 'process'),
    category TEXT NOT NULL,
    -- The partition of an extraction.
    series_id INTEGER,
    period INTEGER,
    -- The upload of an ingestion.
    subject TEXT,
    external_id TEXT,
    payload TEXT,
    state TEXT NOT NULL CHECK (state = 'storing' OR state = 'queued' OR state = 'running' OR state = 'waiting' OR state = 'done' OR state = 'dead'),
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    submitted_at INTEGER NOT NULL,
    next_retry_at INTEGER,
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
    error_message TEXT,
    error_traceback TEXT,
    task_id BLOB,
    worker TEXT,
    started_at INTEGER,
    last_heartbeat INTEGER,
    lease_until INTEGER,
    completed_at INTEGER,
    ended_by TEXT CHECK (ended_by = 'completed' OR ended_by = 'failed' OR ended_by = 'abandoned' OR ended_by = 'released' OR ended_by = 'cancelled'),
    verdict TEXT CHECK (verdict = 'passed' OR verdict = 'needs_review' OR verdict = 'failed'),
    metrics TEXT
) STRICT;

CREATE INDEX runs_queued ON runs (workload, category, submitted_at, run_id) WHERE state = 'queued';
CREATE INDEX runs_waiting ON runs (workload, next_retry_at) WHERE state = 'waiting';
CREATE INDEX runs_running ON runs (lease_until) WHERE state = 'running';
CREATE INDEX runs_dead ON runs (completed_at) WHERE state = 'dead';
CREATE UNIQUE INDEX runs_external ON runs (workload, category, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX runs_of_partition ON runs (series_id, period, run_id) WHERE workload = 'extract';
-- Never two attempts of one partition in flight at once.
CREATE UNIQUE INDEX runs_one_active ON runs (series_id, period) WHERE workload = 'extract' AND state = 'running';

CREATE TABLE run_failures (
    run_id BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    error_class TEXT NOT NULL,
    error_message TEXT NOT NULL,
    error_traceback TEXT,
    worker TEXT,
    delay INTEGER,
    stop TEXT,
    PRIMARY KEY (run_id, failed_at, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_failures_recent ON run_failures (failed_at);

-- An empty customer_id holds back the whole source.
CREATE TABLE cooldowns (
    source TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    until INTEGER NOT NULL,
    why TEXT,
    PRIMARY KEY (source, customer_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    seq INTEGER NOT NULL PRIMARY KEY,
    op_id BLOB NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    command TEXT NOT NULL,
    filters TEXT NOT NULL,
    flags TEXT NOT NULL,
    reason TEXT,
    hash BLOB NOT NULL
) STRICT;

CREATE TABLE operation_changes (
    seq INTEGER NOT NULL PRIMARY KEY,
    op_id BLOB NOT NULL,
    source TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    query_name TEXT NOT NULL,
    logical_date TEXT NOT NULL,
    before TEXT,
    after TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE INDEX operation_changes_of ON operation_changes (op_id, seq);

CREATE TABLE audit_head (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO audit_head VALUES (1, 0, zeroblob(32));

CREATE VIEW partition_state AS
SELECT s.source, s.customer_id, s.query_name, date(p.period + 2440587.5) AS logical_date, p.status, lower(substr(hex(p.current_run_id), 1, 8) || '-' || substr(hex(p.current_run_id), 9, 4) || '-' || substr(hex(p.current_run_id), 13, 4) || '-' || substr(hex(p.current_run_id), 17, 4) || '-' || substr(hex(p.current_run_id), 21)) AS current_run_id,
    p.record_count, p.attempt_count, p.error_class, p.error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', p.created_at / 1000000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', p.updated_at / 1000000.0, 'unixepoch') AS updated_at,
    c.lane, strftime('%Y-%m-%dT%H:%M:%fZ', c.queued_at / 1000000.0, 'unixepoch') AS queued_at,
    c.terminal_by, c.paused_by, lower(substr(hex(c.active_run_id), 1, 8) || '-' || substr(hex(c.active_run_id), 9, 4) || '-' || substr(hex(c.active_run_id), 13, 4) || '-' || substr(hex(c.active_run_id), 17, 4) || '-' || substr(hex(c.active_run_id), 21)) AS active_run_id
FROM partitions p
JOIN series s ON s.series_id = p.series_id
LEFT JOIN partition_control c ON c.series_id = p.series_id AND c.period = p.period;

CREATE VIEW run_status AS
SELECT lower(substr(hex(run_id), 1, 8) || '-' || substr(hex(run_id), 9, 4) || '-' || substr(hex(run_id), 13, 4) || '-' || substr(hex(run_id), 17, 4) || '-' || substr(hex(run_id), 21)) AS run_id, workload, category, source, customer_id, query_name,
    date(period + 2440587.5) AS logical_date, subject, state, attempt, retry_count,
    strftime('%Y-%m-%dT%H:%M:%fZ', submitted_at / 1000000.0, 'unixepoch') AS submitted_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_retry_at / 1000000.0, 'unixepoch') AS next_retry_at,
    error_class, error_message, worker,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_heartbeat / 1000000.0, 'unixepoch') AS last_heartbeat,
    strftime('%Y-%m-%dT%H:%M:%fZ', completed_at / 1000000.0, 'unixepoch') AS completed_at,
    verdict, metrics
FROM runs LEFT JOIN series USING (series_id);
