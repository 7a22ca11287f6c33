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
    -- attempt_count less what was granted: what the policy counts. Here so that partitions_due and partitions_group can have it.
    spent INTEGER NOT NULL DEFAULT 0,
    record_count INTEGER,
    -- Of the series; here so that partitions_due can lead with it.
    source_no INTEGER NOT NULL,
    -- 1 while the control row holds a terminal mark or a pause; here so that partitions_due can leave it out. Null in all other
    -- rows, which are nearly all.
    held INTEGER,
    status TEXT NOT NULL CHECK (status = 'pending' OR status = 'success' OR status = 'failed'),
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
    error_group INTEGER,
    current_run_id BLOB,
    error_message TEXT,
    CHECK (status <> 'success' OR current_run_id IS NOT NULL),
    PRIMARY KEY (series_id, period)
) STRICT, WITHOUT ROWID;

-- Where an index's own conditions are AND (… AND …), with the equations last, SQLite does not look at the table for them; for
-- `held IS NULL` it does not where the index has the column.
-- What automation might retry, in the order in which backoff lets it go.
CREATE INDEX partitions_due ON partitions (source_no, spent, updated_at, series_id, period, created_at, error_class, held)
    WHERE error_class <> 'final' AND (status = 'failed' AND held IS NULL);
CREATE INDEX partitions_open ON partitions (series_id, period) WHERE status <> 'success';
-- What is failed now and has one cause; every column that its counts need.
CREATE INDEX partitions_group ON partitions (error_group, series_id, period, source_no, held, spent, created_at)
    WHERE status = 'failed' AND error_group IS NOT NULL;
-- For the overview, which counts ranges of indexes: successes by day, errors that are final, and what persons withhold.
CREATE INDEX partitions_success ON partitions (source_no, period) WHERE status = 'success';
CREATE INDEX partitions_final ON partitions (source_no, spent, created_at, held)
    WHERE status = 'failed' AND (held IS NULL AND error_class = 'final');

CREATE TABLE partition_control (
    series_id INTEGER NOT NULL,
    period INTEGER NOT NULL,
    -- Of the series; here so that the indexes can lead with them.
    source_no INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    queued_at INTEGER,
    not_before INTEGER,
    -- How long sources' hints have made this request wait without an attempt.
    rate_limit_waited INTEGER NOT NULL DEFAULT 0,
    terminal_at INTEGER,
    paused_at INTEGER,
    -- 1 while a reprocess is asked for, and how many attempts at it were rejected.
    reprocess INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    -- Attempts that persons gave beyond the policy's.
    granted INTEGER NOT NULL DEFAULT 0,
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
CREATE INDEX partition_control_rejected ON partition_control (source_no, rejected, granted, series_id, period)
    WHERE rejected > 0 AND lane IS NULL AND paused_at IS NULL;
CREATE INDEX partition_control_paused ON partition_control (source_no, series_id, period) WHERE paused_at IS NOT NULL;
CREATE INDEX partition_control_marked ON partition_control (source_no) WHERE terminal_at IS NOT NULL AND paused_at IS NULL;

-- A run is a row of run_specs, of which only named_at changes, and stands in exactly one of five others: as a row of run_waiting, run_queue,
-- run_claims or run_ends, or as an id in a row of run_bundles. The view runs shows both as one. Run ids sort by submission.
CREATE TABLE run_specs (
    run_id BLOB NOT NULL PRIMARY KEY,
    submitted_at INTEGER NOT NULL,
    not_before INTEGER,
    -- The partition of an extraction.
    series_id INTEGER,
    period INTEGER,
    -- When its external id was last submitted again, to the hour: it is not forgotten while its submitter names it.
    named_at INTEGER,
    max_attempts INTEGER,
    workload TEXT NOT NULL CHECK (workload = 'extract' OR workload = 'ingest' OR workload = 'process'),
    category TEXT NOT NULL,
    -- The upload of an ingestion.
    subject TEXT,
    external_id TEXT,
    payload TEXT
) STRICT;
CREATE UNIQUE INDEX run_specs_external ON run_specs (workload, category, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX run_specs_of_partition ON run_specs (series_id, period, run_id) WHERE workload = 'extract';

-- What waits: for its input (storing), or for a time. error_group is that of the failure after which it waits.
CREATE TABLE run_waiting (
    workload TEXT NOT NULL,
    category TEXT NOT NULL,
    run_id BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state = 'storing' OR state = 'waiting'),
    due_at INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited INTEGER NOT NULL DEFAULT 0,
    next_retry_at INTEGER,
    started_at INTEGER,
    last_heartbeat INTEGER,
    -- Until when the worker of a claim that was cancelled may still be at it.
    lease_until INTEGER,
    task_id BLOB,
    error_group INTEGER,
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    PRIMARY KEY (workload, category, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_waiting_due ON run_waiting (workload, due_at, run_id) WHERE state = 'waiting';
CREATE INDEX run_waiting_storing ON run_waiting (workload) WHERE state = 'storing';
CREATE INDEX run_waiting_group ON run_waiting (error_group, workload, category, run_id, error_class)
    WHERE error_group IS NOT NULL AND workload <> 'extract';

-- What can be claimed now, oldest first.
CREATE TABLE run_queue (
    workload TEXT NOT NULL,
    category TEXT NOT NULL,
    run_id BLOB NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited INTEGER NOT NULL DEFAULT 0,
    next_retry_at INTEGER,
    started_at INTEGER,
    last_heartbeat INTEGER,
    task_id BLOB,
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    PRIMARY KEY (workload, category, run_id)
) STRICT, WITHOUT ROWID;

-- What runs. A claim moves a row here, and the row is the fence.
CREATE TABLE run_claims (
    workload TEXT NOT NULL,
    category TEXT NOT NULL,
    run_id BLOB NOT NULL,
    lease_until INTEGER NOT NULL,
    -- The partition of an extraction.
    series_id INTEGER,
    period INTEGER,
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited INTEGER NOT NULL DEFAULT 0,
    next_retry_at INTEGER,
    started_at INTEGER,
    last_heartbeat INTEGER,
    task_id BLOB,
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
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
) STRICT, WITHOUT ROWID;
CREATE INDEX run_claims_of_claim ON run_claims (worker, claim_id) WHERE claim_id IS NOT NULL;
-- Never two attempts of one partition in flight at once.
CREATE UNIQUE INDEX run_claims_one_active ON run_claims (series_id, period) WHERE series_id IS NOT NULL;

-- Jobs that one claim took together for their first attempt: a row for up to 64 of them, instead of a row of run_claims each. Their ids
-- stand in `runs`, 16 bytes each; a job whose claim ends is taken out. Between first_run and last_run lie the jobs it was made of.
CREATE TABLE run_bundles (
    task_id BLOB NOT NULL,
    first_run BLOB NOT NULL,
    last_run BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    last_heartbeat INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    category TEXT NOT NULL,
    worker TEXT NOT NULL,
    runs BLOB NOT NULL,
    PRIMARY KEY (task_id, first_run)
) STRICT;
CREATE INDEX run_bundles_of_category ON run_bundles (category, first_run, last_run);

-- What has ended.
CREATE TABLE run_ends (
    workload TEXT NOT NULL,
    category TEXT NOT NULL,
    run_id BLOB NOT NULL,
    completed_at INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state = 'done' OR state = 'dead'),
    ended_by TEXT NOT NULL CHECK (ended_by = 'completed' OR ended_by = 'failed' OR ended_by = 'abandoned' OR ended_by = 'released' OR ended_by = 'rate_limited' OR ended_by = 'cancelled'),
    verdict TEXT CHECK (verdict = 'passed' OR verdict = 'needs_review' OR verdict = 'failed'),
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    rate_limit_waited INTEGER NOT NULL DEFAULT 0,
    next_retry_at INTEGER,
    started_at INTEGER,
    last_heartbeat INTEGER,
    -- Of a run that was cancelled: until when its worker may still be at it.
    lease_until INTEGER,
    task_id BLOB,
    error_group INTEGER,
    error_class TEXT CHECK (error_class = 'final' OR error_class = 'retryable' OR error_class = 'rate_limited'),
    error_message TEXT,
    error_traceback TEXT,
    worker TEXT,
    metrics TEXT,
    PRIMARY KEY (workload, category, run_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_ends_dead ON run_ends (workload, category, run_id) WHERE state = 'dead';
CREATE INDEX run_ends_group ON run_ends (error_group, workload, category, run_id, error_class)
    WHERE error_group IS NOT NULL AND workload <> 'extract';

CREATE TABLE run_failures (
    run_id BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    error_class TEXT NOT NULL,
    error_group INTEGER,
    error_message TEXT NOT NULL,
    error_traceback TEXT,
    worker TEXT,
    delay INTEGER,
    stop TEXT,
    PRIMARY KEY (run_id, failed_at, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_failures_recent ON run_failures (failed_at);

-- What happened to runs beside failed tries: an answer to a claim that was lost, a result that came too late.
CREATE TABLE run_incidents (
    run_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    at INTEGER NOT NULL,
    incident TEXT NOT NULL CHECK (incident = 'delivery_lost' OR incident = 'late'),
    worker TEXT,
    -- What the worker said, as JSON.
    detail TEXT,
    PRIMARY KEY (run_id, task_id, incident)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_incidents_recent ON run_incidents (incident, at);

-- What outside workers were answered, so that the same report gets the same answer again. Forgotten after a day.
CREATE TABLE task_answers (
    run_id BLOB NOT NULL,
    task_id BLOB NOT NULL,
    answered_at INTEGER NOT NULL,
    report TEXT NOT NULL CHECK (report = 'complete' OR report = 'fail' OR report = 'release'),
    answer TEXT NOT NULL,
    PRIMARY KEY (run_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_answers_old ON task_answers (answered_at);

-- An uploaded archive: where its bytes lie in the sink, and whose run parses them. What was parsed has ids of
-- upload_no * 2^32 plus its place in the upload, so that the rows of one upload lie side by side in every table.
CREATE TABLE uploads (
    upload_no INTEGER NOT NULL PRIMARY KEY,
    run_id BLOB NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    -- The version of the parser that made the rows, once there are any.
    parser INTEGER,
    sha256 TEXT NOT NULL,
    object TEXT NOT NULL,
    -- The earlier run of the same bytes.
    same_as BLOB,
    -- When its run was forgotten; what was parsed is taken away from then on, and this row last.
    forgotten_at INTEGER
) STRICT;
CREATE INDEX uploads_of_content ON uploads (sha256, upload_no);
CREATE INDEX uploads_forgotten ON uploads (upload_no) WHERE forgotten_at IS NOT NULL;

-- Names of configuration files without their ending. Rows are added and never changed.
CREATE TABLE confs (
    conf_id INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE files (
    file_id INTEGER NOT NULL PRIMARY KEY,
    conf_id INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    first_stanza INTEGER NOT NULL,
    stanzas INTEGER NOT NULL,
    first_setting INTEGER NOT NULL,
    settings INTEGER NOT NULL,
    layer TEXT NOT NULL CHECK (layer = 'default' OR layer = 'local' OR layer = 'user' OR layer = 'other'),
    -- The whole way to it; an archive inside the upload stands in it like a folder.
    path TEXT NOT NULL,
    -- What makes the file count as a parse error.
    fault TEXT CHECK (fault = 'dangling_header' OR fault = 'encoding' OR fault = 'link'),
    fault_line INTEGER,
    fault_count INTEGER,
    fault_message TEXT
) STRICT;
CREATE INDEX files_of_conf ON files (conf_id, file_id);

CREATE TABLE stanzas (
    stanza_id INTEGER NOT NULL PRIMARY KEY,
    file_id INTEGER NOT NULL,
    first_setting INTEGER NOT NULL,
    settings INTEGER NOT NULL,
    line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    -- NULL for the settings before the first header. Of a long name its beginning and its hash, to fit into an index. A row
    -- goes in with the last of its settings.
    name TEXT,
    long_name TEXT
) STRICT;
CREATE UNIQUE INDEX stanzas_of_name ON stanzas (name, file_id);

CREATE TABLE settings (
    setting_id INTEGER NOT NULL PRIMARY KEY,
    stanza_id INTEGER NOT NULL,
    conf_id INTEGER NOT NULL,
    line INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL
) STRICT;
CREATE INDEX settings_of_key ON settings (substr(key, 1, 64), substr(value, 1, 64), conf_id);
CREATE INDEX settings_of_value ON settings (substr(value, 1, 64), conf_id);

-- Which words the values of a block of 512 settings hold: a word is a hash of 32 bits, a block is setting_id / 512.
CREATE TABLE words (
    word INTEGER NOT NULL,
    block INTEGER NOT NULL,
    PRIMARY KEY (word, block)
) STRICT, WITHOUT ROWID;

-- One row for each cause of failures that was ever met. Its id is a hash of the template and the class; partitions, runs and
-- failed tries carry it as error_group.
CREATE TABLE failure_groups (
    group_id INTEGER NOT NULL PRIMARY KEY,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    error_class TEXT NOT NULL,
    template TEXT NOT NULL,
    sample TEXT NOT NULL
) STRICT;

-- What workers leave alone: a source, a customer of it, or a query of that customer. An empty customer_id stands for all customers,
-- an empty query_name for all queries. Until a moment, or, without one, until it is lifted.
CREATE TABLE holds (
    hold_id BLOB NOT NULL UNIQUE,
    source TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    query_name TEXT NOT NULL CHECK (query_name = '' OR customer_id <> ''),
    kind TEXT NOT NULL CHECK (kind = 'cooldown' OR kind = 'operator' OR kind = 'breaker'),
    since INTEGER NOT NULL,
    until INTEGER,
    by TEXT NOT NULL,
    why TEXT,
    -- Of a breaker: what tripped it, when one attempt goes ahead to find out, how long the wait before that was, and that attempt.
    trip TEXT CHECK (trip = 'final' OR trip = 'group' OR trip = 'unusable'),
    error_group INTEGER,
    probe_at INTEGER,
    probe_every INTEGER,
    canary_run_id BLOB,
    CHECK ((kind = 'breaker') = (trip IS NOT NULL) AND (trip IS NULL) = (probe_at IS NULL) AND (trip IS NULL) = (probe_every IS NULL)),
    PRIMARY KEY (source, customer_id, query_name, kind)
) STRICT, WITHOUT ROWID;

-- Workers, daemons and servers: who is there, by which configuration, and what each serves.
CREATE TABLE processes (
    process_id BLOB NOT NULL PRIMARY KEY,
    started_at INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    last_claim INTEGER,
    pid INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind = 'worker' OR kind = 'daemon' OR kind = 'server' OR kind = 'outside'),
    name TEXT NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    -- A fingerprint of the configuration, and what the process serves by it, as JSON.
    config TEXT NOT NULL,
    serves TEXT NOT NULL,
    -- Whether an outside worker was asked to take on nothing more; every answer to it says so.
    drain INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- What other programs and browsers sign in with. Only hashes are kept; the text was shown once. A token of a worker may be limited to
-- categories (a JSON list).
CREATE TABLE tokens (
    token_id BLOB NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- To the minute.
    last_used_at INTEGER,
    revoked_at INTEGER,
    role TEXT NOT NULL CHECK (role = 'viewer' OR role = 'operator' OR role = 'admin' OR role = 'worker'),
    name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    last_four TEXT NOT NULL,
    categories TEXT,
    hash BLOB NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tokens_in_use ON tokens (name) WHERE revoked_at IS NULL;

-- Browsers that are signed in: by a token, or by the link that a server printed when it was first started.
CREATE TABLE sessions (
    hash BLOB NOT NULL PRIMARY KEY,
    created_at INTEGER NOT NULL,
    -- To the minute.
    last_seen INTEGER NOT NULL,
    token_id BLOB,
    role TEXT NOT NULL,
    actor TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of ON sessions (actor);

-- What the last verdicts of a source, or of a customer of it, have in common: so many in a row were final, so many had one cause. An
-- empty customer_id stands for all customers. A success ends the streak and takes the row away.
CREATE TABLE streaks (
    source TEXT NOT NULL,
    customer_id TEXT NOT NULL,
    finals INTEGER NOT NULL,
    error_group INTEGER,
    alike INTEGER NOT NULL,
    PRIMARY KEY (source, customer_id)
) STRICT, WITHOUT ROWID;

-- Failure groups that people were told of and that are not over: since when, with how many, and what else was told.
CREATE TABLE episodes (
    group_id INTEGER NOT NULL PRIMARY KEY,
    opened_at INTEGER NOT NULL,
    opened_with INTEGER NOT NULL,
    grown_at INTEGER,
    exhausted_at INTEGER,
    -- Of which sources and categories its failures were, as lists in JSON: who hears of the beginning hears of the end.
    sources TEXT NOT NULL,
    categories TEXT NOT NULL
) STRICT;

-- What people are told, written in the transaction of what it tells of. addressed_at says when it was given to receivers.
CREATE TABLE notifications (
    notification_id BLOB NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    addressed_at INTEGER,
    -- As JSON, with the head of the audit trail at that moment.
    notice TEXT NOT NULL,
    audit_head TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX notifications_new ON notifications (notification_id) WHERE addressed_at IS NULL;

-- One row for each receiver of a notification. While it is being sent, due_at is the end of the sender's lease and task_id its fence.
CREATE TABLE deliveries (
    notification_id BLOB NOT NULL,
    receiver TEXT NOT NULL,
    -- Notifications of one subject reach a receiver in their order.
    subject TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    delivered_at INTEGER,
    task_id BLOB,
    error TEXT,
    PRIMARY KEY (notification_id, receiver)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (receiver, due_at) WHERE delivered_at IS NULL;
CREATE INDEX deliveries_open ON deliveries (receiver, subject, notification_id) WHERE delivered_at IS NULL;

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

-- What an operation changed: a partition, a run, or a hold.
CREATE TABLE operation_changes (
    seq INTEGER NOT NULL PRIMARY KEY,
    -- The number of the operation's own row.
    operation_seq INTEGER NOT NULL,
    series_id INTEGER,
    period INTEGER,
    run_id BLOB,
    hold_id BLOB,
    before TEXT,
    after TEXT NOT NULL,
    hash BLOB NOT NULL,
    CHECK ((series_id IS NULL) = (period IS NULL)),
    CHECK ((series_id IS NOT NULL AND run_id IS NULL AND hold_id IS NULL) OR (series_id IS NULL AND (run_id IS NULL) <> (hold_id IS NULL)))
) STRICT;
-- SQLite adds seq to it by itself.
CREATE INDEX operation_changes_of ON operation_changes (operation_seq);

-- A dry run that is kept for a day and binds: what it found, and which operation was made of it.
CREATE TABLE plans (
    plan_id BLOB NOT NULL PRIMARY KEY,
    made_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    matched INTEGER NOT NULL,
    would_change INTEGER NOT NULL,
    op_id BLOB,
    actor TEXT NOT NULL,
    -- What is to be done, why, and by which filter; how many by which reason are left alone, and some of what would change. JSON.
    task TEXT NOT NULL,
    filters TEXT NOT NULL,
    by_reason TEXT NOT NULL,
    sample TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX plans_expired ON plans (expires_at);

-- What a plan or an operation is about, one row each, and what became of it. The subject is a partition's key or a run's id, as JSON.
CREATE TABLE bulk_items (
    list_id BLOB NOT NULL,
    seq INTEGER NOT NULL,
    -- As the plan saw it.
    version INTEGER,
    subject TEXT NOT NULL,
    outcome TEXT CHECK (outcome = 'changed' OR outcome = 'skipped' OR outcome = 'failed'),
    reason TEXT,
    was TEXT,
    becomes TEXT,
    PRIMARY KEY (list_id, seq)
) STRICT, WITHOUT ROWID;

-- Operations that are done in steps, whoever does the next one. The row of the audit trail comes with the first change.
CREATE TABLE bulk_operations (
    op_id BLOB NOT NULL PRIMARY KEY,
    -- Where its items are.
    list_id BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    state TEXT NOT NULL CHECK (state = 'running' OR state = 'done' OR state = 'cancelled' OR state = 'failed'),
    matched INTEGER NOT NULL,
    changed INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    -- How far it is, and who may do the next step until when.
    done_to INTEGER NOT NULL DEFAULT 0,
    holder BLOB,
    held_until INTEGER NOT NULL DEFAULT 0,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    undo_of BLOB,
    verb TEXT NOT NULL,
    -- What is to be done, and what the audit trail keeps of the request. JSON.
    task TEXT NOT NULL,
    operation TEXT NOT NULL,
    by_reason TEXT NOT NULL,
    fault TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX bulk_operations_open ON bulk_operations (held_until) WHERE state = 'running';

-- Which requests were answered, so that one that is sent again changes nothing more. Forgotten after a day.
CREATE TABLE idempotency_keys (
    actor TEXT NOT NULL,
    route TEXT NOT NULL,
    name TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    holder BLOB NOT NULL,
    begun_at INTEGER NOT NULL,
    held_until INTEGER NOT NULL,
    -- running: nothing is changed yet; changed: in the transaction of the change; done: with its answer.
    state TEXT NOT NULL CHECK (state = 'running' OR state = 'changed' OR state = 'done'),
    answer TEXT,
    PRIMARY KEY (actor, route, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_old ON idempotency_keys (begun_at);

CREATE TABLE audit_head (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO audit_head VALUES (1, 0, zeroblob(32));

-- Whose time counts. On SQLite it is the steady clock of the host plus `ahead`, as long as the host runs (`boot`); on PostgreSQL the
-- server's own. jumped_at and jumped_by say when that clock was last set, and by how many microseconds.
CREATE TABLE clock (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    ahead INTEGER,
    jumped_at INTEGER,
    jumped_by INTEGER,
    boot TEXT
) STRICT;
INSERT INTO clock (one) VALUES (1);

-- The raw sink that this database writes to, by the id in the sink's own marker. No row until it is first written.
CREATE TABLE raw_sink (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    adopted_at INTEGER NOT NULL,
    sink_id BLOB NOT NULL
) STRICT;

CREATE VIEW partition_state AS
SELECT s.source, s.customer_id, s.query_name, date(p.period + 2440587.5) AS logical_date, p.status, lower(substr(hex(p.current_run_id), 1, 8) || '-' || substr(hex(p.current_run_id), 9, 4) || '-' || substr(hex(p.current_run_id), 13, 4) || '-' || substr(hex(p.current_run_id), 17, 4) || '-' || substr(hex(p.current_run_id), 21)) AS current_run_id,
    p.record_count, p.attempt_count, p.error_class, p.error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', p.created_at / 1000000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', p.updated_at / 1000000.0, 'unixepoch') AS updated_at,
    c.lane, strftime('%Y-%m-%dT%H:%M:%fZ', c.queued_at / 1000000.0, 'unixepoch') AS queued_at,
    coalesce(c.granted, 0) AS granted, c.terminal_by, c.paused_by, lower(substr(hex(c.active_run_id), 1, 8) || '-' || substr(hex(c.active_run_id), 9, 4) || '-' || substr(hex(c.active_run_id), 13, 4) || '-' || substr(hex(c.active_run_id), 17, 4) || '-' || substr(hex(c.active_run_id), 21)) AS active_run_id
FROM partitions p
JOIN series s ON s.series_id = p.series_id
LEFT JOIN partition_control c ON c.series_id = p.series_id AND c.period = p.period;

CREATE VIEW runs AS
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, w.state AS state, w.version, w.attempt, w.retry_count, w.rate_limit_waited, w.next_retry_at, w.started_at, w.last_heartbeat, w.task_id, w.error_class, w.error_message, w.error_traceback, w.worker, w.metrics,
    w.lease_until, 0 AS awaits_ack, NULL AS completed_at, NULL AS ended_by, NULL AS verdict
FROM run_waiting w
JOIN run_specs s ON s.run_id = w.run_id AND s.workload = w.workload AND s.category = w.category
UNION ALL
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, 'queued', q.version, q.attempt, q.retry_count, q.rate_limit_waited, q.next_retry_at, q.started_at, q.last_heartbeat, q.task_id, q.error_class, q.error_message, q.error_traceback, q.worker, q.metrics,
    NULL, 0, NULL, NULL, NULL
FROM run_queue q
JOIN run_specs s ON s.run_id = q.run_id AND s.workload = q.workload AND s.category = q.category
UNION ALL
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, 'running', c.version, c.attempt, c.retry_count, c.rate_limit_waited, c.next_retry_at, c.started_at, c.last_heartbeat, c.task_id, c.error_class, c.error_message, c.error_traceback, c.worker, c.metrics,
    c.lease_until, c.awaits_ack, NULL, NULL, NULL
FROM run_claims c
JOIN run_specs s ON s.run_id = c.run_id AND s.workload = c.workload AND s.category = c.category
UNION ALL
SELECT s.run_id, 'process', s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, 'running', 2, 1, 0, 0, NULL, b.started_at, b.last_heartbeat, b.task_id, NULL, NULL, NULL, b.worker, NULL,
    b.lease_until, 0, NULL, NULL, NULL
FROM run_bundles b
JOIN run_specs s ON s.category = b.category AND s.run_id >= b.first_run AND s.run_id <= b.last_run AND s.workload = 'process'
    AND instr(b.runs, s.run_id) > 0
UNION ALL
SELECT s.run_id, s.workload, s.category, s.series_id, s.period, s.subject, s.external_id, s.payload, s.submitted_at, s.not_before,
    s.max_attempts, e.state, e.version, e.attempt, e.retry_count, e.rate_limit_waited, e.next_retry_at, e.started_at, e.last_heartbeat, e.task_id, e.error_class, e.error_message, e.error_traceback, e.worker, e.metrics,
    e.lease_until, 0, e.completed_at, e.ended_by, e.verdict
FROM run_ends e
JOIN run_specs s ON s.run_id = e.run_id AND s.workload = e.workload AND s.category = e.category;

CREATE VIEW run_status AS
SELECT lower(substr(hex(run_id), 1, 8) || '-' || substr(hex(run_id), 9, 4) || '-' || substr(hex(run_id), 13, 4) || '-' || substr(hex(run_id), 17, 4) || '-' || substr(hex(run_id), 21)) AS run_id, workload, category, source, customer_id, query_name,
    date(period + 2440587.5) AS logical_date, subject, external_id, state, attempt, retry_count,
    strftime('%Y-%m-%dT%H:%M:%fZ', submitted_at / 1000000.0, 'unixepoch') AS submitted_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', not_before / 1000000.0, 'unixepoch') AS not_before,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_retry_at / 1000000.0, 'unixepoch') AS next_retry_at,
    error_class, error_message, worker,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_heartbeat / 1000000.0, 'unixepoch') AS last_heartbeat,
    strftime('%Y-%m-%dT%H:%M:%fZ', completed_at / 1000000.0, 'unixepoch') AS completed_at,
    verdict, metrics
FROM runs LEFT JOIN series USING (series_id);
