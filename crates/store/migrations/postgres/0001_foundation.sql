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
    -- The columns of 8 bytes stand together, so that nothing is lost between them and those of 4.
    record_count BIGINT,
    version INTEGER NOT NULL DEFAULT 1,
    attempt_count INTEGER NOT NULL DEFAULT 0,
    -- attempt_count less what was granted: what the policy counts. Here so that partitions_due and partitions_group can have it.
    spent INTEGER NOT NULL DEFAULT 0,
    -- Of the series; here so that partitions_due can lead with it.
    source_no INTEGER NOT NULL,
    -- 1 while the control row holds a terminal mark or a pause; here so that partitions_due can leave it out. Null in all other
    -- rows, which are nearly all: on PostgreSQL that takes 8 bytes less than a 0.
    held SMALLINT,
    status TEXT NOT NULL CHECK (status IN ('pending', 'success', 'failed')),
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_group BIGINT,
    current_run_id UUID,
    error_message TEXT,
    CHECK (status <> 'success' OR current_run_id IS NOT NULL),
    PRIMARY KEY (series_id, period)
);

-- What automation might retry, in the order in which backoff lets it go.
CREATE INDEX partitions_due ON partitions (source_no, spent, updated_at, series_id, period, created_at)
    WHERE status = 'failed' AND held IS NULL AND error_class <> 'final';
CREATE INDEX partitions_open ON partitions (series_id, period) WHERE status <> 'success';
-- What is failed now and has one cause; every column that its counts need.
CREATE INDEX partitions_group ON partitions (error_group, series_id, period, source_no, held, spent, created_at)
    WHERE status = 'failed' AND error_group IS NOT NULL;
-- For the overview, which counts ranges of indexes: successes by day, errors that are final, and what persons withhold.
CREATE INDEX partitions_success ON partitions (source_no, period) WHERE status = 'success';
CREATE INDEX partitions_final ON partitions (source_no, spent, created_at) WHERE status = 'failed' AND held IS NULL AND error_class = 'final';

CREATE TABLE partition_control (
    series_id INTEGER NOT NULL,
    period INTEGER NOT NULL,
    -- Of the series; here so that the indexes can lead with them.
    source_no INTEGER NOT NULL,
    scope BIGINT NOT NULL,
    queued_at BIGINT,
    not_before BIGINT,
    -- How long sources' hints have made this request wait without an attempt.
    rate_limit_waited BIGINT NOT NULL DEFAULT 0,
    terminal_at BIGINT,
    paused_at BIGINT,
    -- 1 while a reprocess is asked for, and how many attempts at it were rejected.
    reprocess SMALLINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    -- Attempts that persons gave beyond the policy's.
    granted BIGINT NOT NULL DEFAULT 0,
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
CREATE INDEX partition_control_rejected ON partition_control (source_no, rejected, granted, series_id, period)
    WHERE rejected > 0 AND lane IS NULL AND paused_at IS NULL;
CREATE INDEX partition_control_paused ON partition_control (source_no, series_id, period) WHERE paused_at IS NOT NULL;
CREATE INDEX partition_control_marked ON partition_control (source_no) WHERE terminal_at IS NOT NULL AND paused_at IS NULL;

-- A run is a row of run_specs, of which only named_at changes, and stands in exactly one of five others: as a row of run_waiting, run_queue,
-- run_claims or run_ends, or as an id in a row of run_bundles. The view runs shows both as one. Run ids sort by submission.
CREATE TABLE run_specs (
    run_id UUID NOT NULL PRIMARY KEY,
    submitted_at BIGINT NOT NULL,
    not_before BIGINT,
    -- The partition of an extraction.
    series_id INTEGER,
    period INTEGER,
    -- When its external id was last submitted again, to the hour: it is not forgotten while its submitter names it.
    named_at BIGINT,
    max_attempts BIGINT,
    workload TEXT COLLATE "C" NOT NULL CHECK (workload IN ('extract', 'ingest', 'process')),
    category TEXT COLLATE "C" NOT NULL,
    -- The upload of an ingestion.
    subject TEXT COLLATE "C",
    external_id TEXT COLLATE "C",
    payload TEXT
);
CREATE UNIQUE INDEX run_specs_external ON run_specs (workload, category, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX run_specs_of_partition ON run_specs (series_id, period, run_id) WHERE workload = 'extract';

-- What waits: for its input (storing), or for a time. error_group is that of the failure after which it waits.
CREATE TABLE run_waiting (
    workload TEXT COLLATE "C" NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    run_id UUID NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('storing', 'waiting')),
    due_at BIGINT,
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited BIGINT NOT NULL DEFAULT 0,
    next_retry_at BIGINT,
    started_at BIGINT,
    last_heartbeat BIGINT,
    -- Until when the worker of a claim that was cancelled may still be at it.
    lease_until BIGINT,
    task_id UUID,
    error_group BIGINT,
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    PRIMARY KEY (workload, category, run_id)
);
CREATE INDEX run_waiting_due ON run_waiting (workload, due_at, run_id) WHERE state = 'waiting';
CREATE INDEX run_waiting_storing ON run_waiting (workload) WHERE state = 'storing';
CREATE INDEX run_waiting_group ON run_waiting (error_group, workload, category, run_id, error_class)
    WHERE error_group IS NOT NULL AND workload <> 'extract';

-- What can be claimed now, oldest first.
CREATE TABLE run_queue (
    workload TEXT COLLATE "C" NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    run_id UUID NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited BIGINT NOT NULL DEFAULT 0,
    next_retry_at BIGINT,
    started_at BIGINT,
    last_heartbeat BIGINT,
    task_id UUID,
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    PRIMARY KEY (workload, category, run_id)
);

-- What runs. A claim moves a row here, and the row is the fence.
CREATE TABLE run_claims (
    workload TEXT COLLATE "C" NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    run_id UUID NOT NULL,
    lease_until BIGINT NOT NULL,
    -- The partition of an extraction.
    series_id INTEGER,
    period INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited BIGINT NOT NULL DEFAULT 0,
    next_retry_at BIGINT,
    started_at BIGINT,
    last_heartbeat BIGINT,
    task_id UUID,
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    -- Of an outside worker: how it calls its claim, and whether it has not spoken since the claim was sent to it.
    claim_id TEXT,
    awaits_ack INTEGER NOT NULL DEFAULT 0,
    -- How far it says it is.
    progress TEXT,
    PRIMARY KEY (workload, category, run_id)
);
CREATE INDEX run_claims_of_claim ON run_claims (worker, claim_id) WHERE claim_id IS NOT NULL;
-- Never two attempts of one partition in flight at once.
CREATE UNIQUE INDEX run_claims_one_active ON run_claims (series_id, period) WHERE series_id IS NOT NULL;

-- Jobs that one claim took together for their first attempt: a row for up to 64 of them, instead of a row of run_claims each. Their ids
-- stand in `runs`, 16 bytes each; a job whose claim ends is taken out. Between first_run and last_run lie the jobs it was made of.
CREATE TABLE run_bundles (
    task_id UUID NOT NULL,
    first_run UUID NOT NULL,
    last_run UUID NOT NULL,
    started_at BIGINT NOT NULL,
    last_heartbeat BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    worker TEXT NOT NULL,
    runs BYTEA NOT NULL,
    PRIMARY KEY (task_id, first_run)
);
CREATE INDEX run_bundles_of_category ON run_bundles (category, first_run, last_run);

-- What has ended.
CREATE TABLE run_ends (
    workload TEXT COLLATE "C" NOT NULL,
    category TEXT COLLATE "C" NOT NULL,
    run_id UUID NOT NULL,
    completed_at BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('done', 'dead')),
    ended_by TEXT NOT NULL CHECK (ended_by IN ('completed', 'failed', 'abandoned', 'released', 'rate_limited', 'cancelled')),
    verdict TEXT CHECK (verdict IN ('passed', 'needs_review', 'failed')),
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited BIGINT NOT NULL DEFAULT 0,
    next_retry_at BIGINT,
    started_at BIGINT,
    last_heartbeat BIGINT,
    -- Of a run that was cancelled: until when its worker may still be at it.
    lease_until BIGINT,
    task_id UUID,
    error_group BIGINT,
    error_class TEXT CHECK (error_class IN ('final', 'retryable', 'rate_limited')),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    PRIMARY KEY (workload, category, run_id)
);
CREATE INDEX run_ends_dead ON run_ends (workload, category, run_id) WHERE state = 'dead';
CREATE INDEX run_ends_group ON run_ends (error_group, workload, category, run_id, error_class)
    WHERE error_group IS NOT NULL AND workload <> 'extract';

CREATE TABLE run_failures (
    run_id UUID NOT NULL,
    attempt BIGINT NOT NULL,
    failed_at BIGINT NOT NULL,
    error_class TEXT NOT NULL,
    error_group BIGINT,
    error_message TEXT NOT NULL,
    error_traceback TEXT,
    worker TEXT,
    delay BIGINT,
    stop TEXT,
    PRIMARY KEY (run_id, failed_at, attempt)
);
CREATE INDEX run_failures_recent ON run_failures (failed_at);

-- What happened to runs beside failed tries: an answer to a claim that was lost, a result that came too late.
CREATE TABLE run_incidents (
    run_id UUID NOT NULL,
    task_id UUID NOT NULL,
    at BIGINT NOT NULL,
    incident TEXT NOT NULL CHECK (incident IN ('delivery_lost', 'late')),
    worker TEXT,
    -- What the worker said, as JSON.
    detail TEXT,
    PRIMARY KEY (run_id, task_id, incident)
);
CREATE INDEX run_incidents_recent ON run_incidents (incident, at);

-- What outside workers were answered, so that the same report gets the same answer again. Forgotten after a day.
CREATE TABLE task_answers (
    run_id UUID NOT NULL,
    task_id UUID NOT NULL,
    answered_at BIGINT NOT NULL,
    report TEXT NOT NULL CHECK (report IN ('complete', 'fail', 'release')),
    answer TEXT NOT NULL,
    PRIMARY KEY (run_id, task_id)
);
CREATE INDEX task_answers_old ON task_answers (answered_at);

-- An uploaded archive: where its bytes lie in the sink, and whose run parses them. What was parsed has ids of
-- upload_no * 2^32 plus its place in the upload, so that the rows of one upload lie side by side in every table.
CREATE TABLE uploads (
    upload_no INTEGER NOT NULL PRIMARY KEY,
    run_id UUID NOT NULL UNIQUE,
    bytes BIGINT NOT NULL,
    -- The version of the parser that made the rows, once there are any.
    parser INTEGER,
    sha256 TEXT COLLATE "C" NOT NULL,
    object TEXT NOT NULL,
    -- The earlier run of the same bytes.
    same_as UUID,
    -- When its run was forgotten; what was parsed is taken away from then on, and this row last.
    forgotten_at BIGINT
);
CREATE INDEX uploads_of_content ON uploads (sha256, upload_no);
CREATE INDEX uploads_forgotten ON uploads (upload_no) WHERE forgotten_at IS NOT NULL;

-- Names of configuration files without their ending. Rows are added and never changed.
CREATE TABLE confs (
    conf_id INTEGER NOT NULL PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE
);

CREATE TABLE files (
    file_id BIGINT NOT NULL PRIMARY KEY,
    conf_id INTEGER NOT NULL,
    bytes BIGINT NOT NULL,
    first_stanza BIGINT NOT NULL,
    stanzas INTEGER NOT NULL,
    first_setting BIGINT NOT NULL,
    settings INTEGER NOT NULL,
    layer TEXT NOT NULL CHECK (layer IN ('default', 'local', 'user', 'other')),
    -- The whole way to it; an archive inside the upload stands in it like a folder.
    path TEXT NOT NULL,
    -- What makes the file count as a parse error.
    fault TEXT CHECK (fault IN ('dangling_header', 'encoding', 'link')),
    fault_line INTEGER,
    fault_count INTEGER,
    fault_message TEXT
);
CREATE INDEX files_of_conf ON files (conf_id, file_id);

CREATE TABLE stanzas (
    stanza_id BIGINT NOT NULL PRIMARY KEY,
    file_id BIGINT NOT NULL,
    first_setting BIGINT NOT NULL,
    settings INTEGER NOT NULL,
    line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    -- NULL for the settings before the first header. Of a long name its beginning and its hash, to fit into an index. A row
    -- goes in with the last of its settings.
    name TEXT COLLATE "C",
    long_name TEXT COLLATE "C"
);
CREATE UNIQUE INDEX stanzas_of_name ON stanzas (name, file_id);

CREATE TABLE settings (
    setting_id BIGINT NOT NULL PRIMARY KEY,
    stanza_id BIGINT NOT NULL,
    conf_id INTEGER NOT NULL,
    line INTEGER NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL
);
CREATE INDEX settings_of_key ON settings (substr(key, 1, 64), substr(value, 1, 64), conf_id, setting_id);
CREATE INDEX settings_of_value ON settings (substr(value, 1, 64), conf_id, setting_id);

-- Which words the values of a block of 512 settings hold: a word is a hash of 32 bits, a block is setting_id / 512.
CREATE TABLE words (
    word INTEGER NOT NULL,
    block BIGINT NOT NULL,
    PRIMARY KEY (word, block)
);

-- One row for each cause of failures that was ever met. Its id is a hash of the template and the class; partitions, runs and
-- failed tries carry it as error_group.
CREATE TABLE failure_groups (
    group_id BIGINT NOT NULL PRIMARY KEY,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    error_class TEXT NOT NULL,
    template TEXT NOT NULL,
    sample TEXT NOT NULL
);

-- What workers leave alone: a source, a customer of it, or a query of that customer. An empty customer_id stands for all customers,
-- an empty query_name for all queries. Until a moment, or, without one, until it is lifted.
CREATE TABLE holds (
    hold_id UUID NOT NULL UNIQUE,
    source TEXT COLLATE "C" NOT NULL,
    customer_id TEXT COLLATE "C" NOT NULL,
    query_name TEXT COLLATE "C" NOT NULL CHECK (query_name = '' OR customer_id <> ''),
    kind TEXT COLLATE "C" NOT NULL CHECK (kind = 'cooldown' OR kind = 'operator' OR kind = 'breaker'),
    since BIGINT NOT NULL,
    until BIGINT,
    by TEXT NOT NULL,
    why TEXT,
    -- Of a breaker: what tripped it, when one attempt goes ahead to find out, how long the wait before that was, and that attempt.
    trip TEXT CHECK (trip = 'final' OR trip = 'group' OR trip = 'unusable'),
    error_group BIGINT,
    probe_at BIGINT,
    probe_every BIGINT,
    canary_run_id UUID,
    CHECK ((kind = 'breaker') = (trip IS NOT NULL) AND (trip IS NULL) = (probe_at IS NULL) AND (trip IS NULL) = (probe_every IS NULL)),
    PRIMARY KEY (source, customer_id, query_name, kind)
);

-- Workers, daemons and servers: who is there, by which configuration, and what each serves.
CREATE TABLE processes (
    process_id UUID NOT NULL PRIMARY KEY,
    started_at BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    last_claim BIGINT,
    pid BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('worker', 'daemon', 'server', 'outside')),
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    -- A fingerprint of the configuration, and what the process serves by it, as JSON.
    config TEXT NOT NULL,
    serves TEXT NOT NULL,
    -- Whether an outside worker was asked to take on nothing more; every answer to it says so.
    drain INTEGER NOT NULL DEFAULT 0
);

-- What other programs and browsers sign in with. Only hashes are kept; the text was shown once. A token of a worker may be limited to
-- categories (a JSON list).
CREATE TABLE tokens (
    token_id UUID NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- To the minute.
    last_used_at BIGINT,
    revoked_at BIGINT,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
    name TEXT COLLATE "C" NOT NULL,
    created_by TEXT NOT NULL,
    last_four TEXT NOT NULL,
    categories TEXT,
    hash BYTEA NOT NULL UNIQUE
);
CREATE UNIQUE INDEX tokens_in_use ON tokens (name) WHERE revoked_at IS NULL;

-- Browsers that are signed in: by a token, or by the link that a server printed when it was first started.
CREATE TABLE sessions (
    hash BYTEA NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    -- To the minute.
    last_seen BIGINT NOT NULL,
    token_id UUID,
    role TEXT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL
);
CREATE INDEX sessions_of ON sessions (actor);

-- What the last verdicts of a source, or of a customer of it, have in common: so many in a row were final, so many had one cause. An
-- empty customer_id stands for all customers. A success ends the streak and takes the row away.
CREATE TABLE streaks (
    source TEXT COLLATE "C" NOT NULL,
    customer_id TEXT COLLATE "C" NOT NULL,
    finals BIGINT NOT NULL,
    error_group BIGINT,
    alike BIGINT NOT NULL,
    PRIMARY KEY (source, customer_id)
);

-- Failure groups that people were told of and that are not over: since when, with how many, and what else was told.
CREATE TABLE episodes (
    group_id BIGINT NOT NULL PRIMARY KEY,
    opened_at BIGINT NOT NULL,
    opened_with BIGINT NOT NULL,
    grown_at BIGINT,
    exhausted_at BIGINT,
    -- Of which sources and categories its failures were, as lists in JSON: who hears of the beginning hears of the end.
    sources TEXT NOT NULL,
    categories TEXT NOT NULL
);

-- What people are told, written in the transaction of what it tells of. addressed_at says when it was given to receivers.
CREATE TABLE notifications (
    notification_id UUID NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    addressed_at BIGINT,
    -- As JSON, with the head of the audit trail at that moment.
    notice TEXT NOT NULL,
    audit_head TEXT NOT NULL
);
CREATE INDEX notifications_new ON notifications (notification_id) WHERE addressed_at IS NULL;

-- One row for each receiver of a notification. While it is being sent, due_at is the end of the sender's lease and task_id its fence.
CREATE TABLE deliveries (
    notification_id UUID NOT NULL,
    receiver TEXT COLLATE "C" NOT NULL,
    -- Notifications of one subject reach a receiver in their order.
    subject TEXT COLLATE "C" NOT NULL,
    due_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    delivered_at BIGINT,
    task_id UUID,
    error TEXT,
    PRIMARY KEY (notification_id, receiver)
);
CREATE INDEX deliveries_due ON deliveries (receiver, due_at) WHERE delivered_at IS NULL;
CREATE INDEX deliveries_open ON deliveries (receiver, subject, notification_id) WHERE delivered_at IS NULL;

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

-- What an operation changed: a partition, a run, or a hold.
CREATE TABLE operation_changes (
    seq BIGINT NOT NULL PRIMARY KEY,
    -- The number of the operation's own row.
    operation_seq BIGINT NOT NULL,
    series_id INTEGER,
    period INTEGER,
    run_id UUID,
    hold_id UUID,
    before TEXT,
    after TEXT NOT NULL,
    hash BYTEA NOT NULL,
    CHECK ((series_id IS NULL) = (period IS NULL)),
    CHECK ((series_id IS NOT NULL AND run_id IS NULL AND hold_id IS NULL) OR (series_id IS NULL AND (run_id IS NULL) <> (hold_id IS NULL)))
);
CREATE INDEX operation_changes_of ON operation_changes (operation_seq, seq);

-- A dry run that is kept for a day and binds: what it found, and which operation was made of it.
CREATE TABLE plans (
    plan_id UUID NOT NULL PRIMARY KEY,
    made_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    matched BIGINT NOT NULL,
    would_change BIGINT NOT NULL,
    op_id UUID,
    actor TEXT NOT NULL,
    -- What is to be done, why, and by which filter; how many by which reason are left alone, and some of what would change. JSON.
    task TEXT NOT NULL,
    filters TEXT NOT NULL,
    by_reason TEXT NOT NULL,
    sample TEXT NOT NULL
);
CREATE INDEX plans_expired ON plans (expires_at);

-- What a plan or an operation is about, one row each, and what became of it. The subject is a partition's key or a run's id, as JSON.
CREATE TABLE bulk_items (
    list_id UUID NOT NULL,
    seq BIGINT NOT NULL,
    -- As the plan saw it.
    version BIGINT,
    subject TEXT NOT NULL,
    outcome TEXT CHECK (outcome IN ('changed', 'skipped', 'failed')),
    reason TEXT,
    was TEXT,
    becomes TEXT,
    PRIMARY KEY (list_id, seq)
);

-- Operations that are done in steps, whoever does the next one. The row of the audit trail comes with the first change.
CREATE TABLE bulk_operations (
    op_id UUID NOT NULL PRIMARY KEY,
    -- Where its items are.
    list_id UUID NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    matched BIGINT NOT NULL,
    changed BIGINT NOT NULL DEFAULT 0,
    skipped BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    -- How far it is, and who may do the next step until when.
    done_to BIGINT NOT NULL DEFAULT 0,
    holder UUID,
    held_until BIGINT NOT NULL DEFAULT 0,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    undo_of UUID,
    verb TEXT NOT NULL,
    -- What is to be done, and what the audit trail keeps of the request. JSON.
    task TEXT NOT NULL,
    operation TEXT NOT NULL,
    by_reason TEXT NOT NULL,
    fault TEXT
);
CREATE INDEX bulk_operations_open ON bulk_operations (held_until) WHERE state = 'running';

-- Which requests were answered, so that one that is sent again changes nothing more. Forgotten after a day.
CREATE TABLE idempotency_keys (
    actor TEXT NOT NULL,
    route TEXT NOT NULL,
    name TEXT NOT NULL,
    body_hash BYTEA NOT NULL,
    holder UUID NOT NULL,
    begun_at BIGINT NOT NULL,
    held_until BIGINT NOT NULL,
    -- running: nothing is changed yet; changed: in the transaction of the change; done: with its answer.
    state TEXT NOT NULL CHECK (state IN ('running', 'changed', 'done')),
    answer TEXT,
    PRIMARY KEY (actor, route, name)
);
CREATE INDEX idempotency_keys_old ON idempotency_keys (begun_at);

CREATE TABLE audit_head (
    one SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL
);
INSERT INTO audit_head VALUES (1, 0, decode(repeat('00', 32), 'hex'));

-- Whose time counts. On SQLite it is the steady clock of the host plus `ahead`, as long as the host runs (`boot`); on PostgreSQL the
-- server's own. jumped_at and jumped_by say when that clock was last set, and by how many microseconds.
CREATE TABLE clock (
    one SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    ahead BIGINT,
    jumped_at BIGINT,
    jumped_by BIGINT,
    boot TEXT
);
INSERT INTO clock (one) VALUES (1);

-- The raw sink that this database writes to, by the id in the sink's own marker. No row until it is first written.
CREATE TABLE raw_sink (
    one SMALLINT NOT NULL PRIMARY KEY CHECK (one = 1),
    adopted_at BIGINT NOT NULL,
    sink_id UUID NOT NULL
);

CREATE VIEW partition_state AS
SELECT s.source, s.customer_id, s.query_name, (date '1970-01-01' + p.period)::text AS logical_date, p.status, p.current_run_id,
    p.record_count, p.attempt_count, p.error_class, p.error_message,
    to_char(to_timestamp(p.created_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS created_at,
    to_char(to_timestamp(p.updated_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS updated_at,
    c.lane, to_char(to_timestamp(c.queued_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS queued_at,
    coalesce(c.granted, 0) AS granted, c.terminal_by, c.paused_by, c.active_run_id
FROM partitions p
JOIN series s ON s.series_id = p.series_id
LEFT JOIN partition_control c ON c.series_id = p.series_id AND c.period = p.period;

CREATE VIEW runs AS
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, w.state AS state, w.version, w.attempt, w.retry_count, w.rate_limit_waited, w.next_retry_at, w.started_at, w.last_heartbeat, w.task_id, w.error_class, w.error_message, w.error_traceback, w.worker, w.metrics,
    w.lease_until, 0 AS awaits_ack, CAST(NULL AS BIGINT) AS completed_at, CAST(NULL AS TEXT) AS ended_by, CAST(NULL AS TEXT) AS verdict
FROM run_waiting w
JOIN run_specs s ON s.run_id = w.run_id AND s.workload = w.workload AND s.category = w.category
UNION ALL
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, 'queued', q.version, q.attempt, q.retry_count, q.rate_limit_waited, q.next_retry_at, q.started_at, q.last_heartbeat, q.task_id, q.error_class, q.error_message, q.error_traceback, q.worker, q.metrics,
    CAST(NULL AS BIGINT), 0, CAST(NULL AS BIGINT), CAST(NULL AS TEXT), CAST(NULL AS TEXT)
FROM run_queue q
JOIN run_specs s ON s.run_id = q.run_id AND s.workload = q.workload AND s.category = q.category
UNION ALL
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, 'running', c.version, c.attempt, c.retry_count, c.rate_limit_waited, c.next_retry_at, c.started_at, c.last_heartbeat, c.task_id, c.error_class, c.error_message, c.error_traceback, c.worker, c.metrics,
    c.lease_until, c.awaits_ack, CAST(NULL AS BIGINT), CAST(NULL AS TEXT), CAST(NULL AS TEXT)
FROM run_claims c
JOIN run_specs s ON s.run_id = c.run_id AND s.workload = c.workload AND s.category = c.category
UNION ALL
SELECT s.run_id, 'process', s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, 'running', 2, 1, 0, 0, CAST(NULL AS BIGINT), b.started_at, b.last_heartbeat, b.task_id, CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), b.worker, CAST(NULL AS TEXT),
    b.lease_until, 0, CAST(NULL AS BIGINT), CAST(NULL AS TEXT), CAST(NULL AS TEXT)
FROM run_bundles b
JOIN run_specs s ON s.category = b.category AND s.run_id >= b.first_run AND s.run_id <= b.last_run AND s.workload = 'process'
    AND position(uuid_send(s.run_id) IN b.runs) > 0
UNION ALL
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, e.state, e.version, e.attempt, e.retry_count, e.rate_limit_waited, e.next_retry_at, e.started_at, e.last_heartbeat, e.task_id, e.error_class, e.error_message, e.error_traceback, e.worker, e.metrics,
    e.lease_until, 0, e.completed_at, e.ended_by, e.verdict
FROM run_ends e
JOIN run_specs s ON s.run_id = e.run_id AND s.workload = e.workload AND s.category = e.category;

CREATE VIEW run_status AS
SELECT run_id, workload, category, source, customer_id, query_name,
    (date '1970-01-01' + period)::text AS logical_date, subject, external_id, state, attempt, retry_count,
    to_char(to_timestamp(submitted_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS submitted_at,
    to_char(to_timestamp(not_before / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS not_before,
    to_char(to_timestamp(next_retry_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS next_retry_at,
    error_class, error_message, worker,
    to_char(to_timestamp(started_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS started_at,
    to_char(to_timestamp(last_heartbeat / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS last_heartbeat,
    to_char(to_timestamp(completed_at / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS completed_at,
    verdict, metrics
FROM runs LEFT JOIN series USING (series_id);

-- Queues leave many dead rows behind, and what looks for the next one steps over them until they are swept.
ALTER TABLE run_queue SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE run_claims SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE run_bundles SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE run_waiting SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE partition_control SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
