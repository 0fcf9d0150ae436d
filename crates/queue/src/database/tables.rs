//! Tables of a queue in both databases. States are numbers of `JobState`.
//!
//! Indexes of parts of the jobs keep claims fast: each reads few rows, however many jobs there are.

/// Words in which the databases differ.
pub(super) struct Dialect {
    /// Type of the number of a job, which the database counts.
    pub(super) id: &'static str,
    /// Type of octets.
    pub(super) bytes: &'static str,
    /// End of a table whose rows are sorted by its key.
    pub(super) sorted: &'static str,
    /// Format of the tables, where the header of a file does not have it.
    pub(super) format: &'static str,
}

/// Dialect of `SQLite`.
pub(super) const SQLITE: Dialect = Dialect {
    id: "INTEGER PRIMARY KEY AUTOINCREMENT",
    bytes: "BLOB",
    sorted: " WITHOUT ROWID",
    format: "",
};

/// Returns the statements that create the tables which do not exist.
pub(super) fn tables(dialect: &Dialect) -> String {
    let tables = TABLES.replace("{id}", dialect.id);
    let tables = tables.replace("{bytes}", dialect.bytes);
    let tables = tables.replace("{sorted}", dialect.sorted) + dialect.format;
    tables.replace("{format}", &FORMAT.to_string())
}

/// Version of the tables.
pub(super) const FORMAT: i32 = 5;
/// `turn` orders the starts of all jobs, so that owners take turns. `ending` has ended jobs whose dependents do not all
/// know it. `logged` counts the octets of a job's log. `room` has the attempt that makes room for another owner.
/// `most_bytes` is the farthest progress of any attempt.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS job (
    id {id},
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    directory {bytes} NOT NULL,
    priority BIGINT NOT NULL,
    state BIGINT NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    losses BIGINT NOT NULL DEFAULT 0,
    retries BIGINT NOT NULL,
    waits BIGINT NOT NULL DEFAULT 0,
    not_before BIGINT NOT NULL,
    series BIGINT,
    start_by BIGINT,
    every BIGINT,
    worker TEXT,
    lease BIGINT,
    cancel BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT,
    bytes_total BIGINT,
    most_bytes BIGINT NOT NULL DEFAULT 0,
    submitted BIGINT NOT NULL,
    started BIGINT,
    ended BIGINT,
    exit BIGINT,
    text TEXT NOT NULL DEFAULT '',
    turn BIGINT NOT NULL DEFAULT 0,
    logged BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS job_queued ON job (priority, owner, waits, id) WHERE state = 1;
CREATE INDEX IF NOT EXISTS job_running ON job (owner) WHERE state = 2;
CREATE INDEX IF NOT EXISTS job_served ON job (owner, turn) WHERE turn > 0;
CREATE INDEX IF NOT EXISTS job_turn ON job (turn) WHERE turn > 0;
CREATE INDEX IF NOT EXISTS job_owner ON job (owner, id);
CREATE INDEX IF NOT EXISTS job_open ON job (owner, id) WHERE state < 3;
CREATE INDEX IF NOT EXISTS job_kept ON job (owner, ended, id) WHERE state >= 3;
CREATE INDEX IF NOT EXISTS job_logged ON job (owner, id, logged) WHERE logged > 0;
CREATE INDEX IF NOT EXISTS job_logs_kept ON job (owner, ended, id) WHERE logged > 0 AND state >= 3;
CREATE INDEX IF NOT EXISTS job_waiting ON job (not_before) WHERE state = 0 AND waits = 0;
CREATE INDEX IF NOT EXISTS job_held ON job (not_before) WHERE state = 0 AND waits = 1048576;
CREATE INDEX IF NOT EXISTS job_start_by ON job (start_by) WHERE state <= 1 AND start_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_lease ON job (lease) WHERE state = 2;
CREATE INDEX IF NOT EXISTS job_ended ON job (ended) WHERE state >= 3;
CREATE TABLE IF NOT EXISTS dependency (
    after BIGINT NOT NULL,
    job BIGINT NOT NULL,
    PRIMARY KEY (after, job)
){sorted};
CREATE INDEX IF NOT EXISTS dependency_job ON dependency (job);
CREATE TABLE IF NOT EXISTS ending (
    job BIGINT PRIMARY KEY,
    state BIGINT NOT NULL
){sorted};
CREATE TABLE IF NOT EXISTS room (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    job BIGINT NOT NULL,
    attempt BIGINT NOT NULL
){sorted};
CREATE TABLE IF NOT EXISTS event (
    job BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    time BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    state BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, seq)
){sorted};
CREATE TABLE IF NOT EXISTS log (
    job BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, attempt, seq)
){sorted};
CREATE TABLE IF NOT EXISTS owner (
    name TEXT PRIMARY KEY,
    share BIGINT NOT NULL DEFAULT 1
){sorted};
CREATE TABLE IF NOT EXISTS request (
    owner TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    job BIGINT NOT NULL,
    time BIGINT NOT NULL,
    PRIMARY KEY (owner, key)
){sorted};
CREATE INDEX IF NOT EXISTS request_time ON request (time);
";
