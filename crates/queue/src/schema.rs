//! Tables of a queue.
//!
//! Triggers keep two sums: jobs that wait for a worker, by priority and owner (`backlog`), and jobs that run, by owner
//! (`owner`). So a claim reads few rows, however many jobs there are. States are numbers of `JobState`.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use lighthaul_io::host::durable::make_folders;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::{Error, Result, failed};

/// Opens the file at `path`, which is created with its directory if `create` is true.
pub(crate) fn open(path: &Path, create: bool) -> Result<Connection> {
    if create {
        make(path).map_err(|why| Error::Failed {
            action: "create",
            path: path.to_owned(),
            why: why.to_string(),
        })?;
    } else if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(BUSY)?;
        Ok(connection)
    });
    let mut connection = opened.map_err(|why| failed("open", path, &why))?;
    let found = check(&mut connection, path)?;
    if found.is_none() && !create {
        return Err(Error::Missing(path.to_owned()));
    }
    let made = lay_out(&mut connection, found);
    made.map_err(|why| failed("create", path, &why))?;
    Ok(connection)
}

/// Creates the file and its directory, readable only by their user.
fn make(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        make_folders(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path).map(drop)
}

/// Refuses a database of a newer format or another program. Returns the format, or none if the database is empty.
fn check(connection: &mut Connection, path: &Path) -> Result<Option<i32>> {
    let found = (|| {
        let transaction = connection.transaction()?;
        let number = |sql| transaction.query_row(sql, [], |row| row.get::<_, i32>(0));
        Ok((
            number("PRAGMA application_id")?,
            number("PRAGMA user_version")?,
            number("SELECT COUNT(*) FROM sqlite_master")?,
        ))
    })();
    let path = path.to_owned();
    match found.map_err(|why| failed("read", &path, &why))? {
        (0, 0, 0) => Ok(None),
        (APPLICATION, found @ 1..=FORMAT, _) => Ok(Some(found)),
        (APPLICATION, found, _) => Err(Error::Newer {
            path,
            found,
            supported: FORMAT,
        }),
        _ => Err(Error::Foreign(path)),
    }
}

fn lay_out(connection: &mut Connection, found: Option<i32>) -> rusqlite::Result<()> {
    if found != Some(FORMAT) {
        // two programs may create or change the file at once: the second finds the tables
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(TABLES)?;
        let series = "SELECT COUNT(*) FROM pragma_table_info('job') WHERE name = 'series'";
        if transaction.query_row(series, [], |row| row.get::<_, i32>(0))? == 0 {
            transaction.execute_batch(SERIES)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", FORMAT)?;
        transaction.commit()?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Mark of a file that this program has created, `lhqu`.
const APPLICATION: i32 = 0x6c68_7175;
/// Version of the tables.
const FORMAT: i32 = 2;
/// Statement that adds the column that the first version lacks.
const SERIES: &str =
    "ALTER TABLE job ADD COLUMN series INTEGER; UPDATE job SET series = not_before;";
/// Longest wait for another process that writes.
const BUSY: Duration = Duration::from_secs(30);
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    directory BLOB NOT NULL,
    priority INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    retries INTEGER NOT NULL,
    waits INTEGER NOT NULL DEFAULT 0,
    not_before INTEGER NOT NULL,
    series INTEGER,
    start_by INTEGER,
    every INTEGER,
    worker TEXT,
    lease INTEGER,
    cancel INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER,
    bytes_total INTEGER,
    submitted INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    exit INTEGER,
    text TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS job_queued ON job (priority, owner, id) WHERE state = 1;
CREATE INDEX IF NOT EXISTS job_waiting ON job (not_before) WHERE state = 0 AND waits = 0;
CREATE INDEX IF NOT EXISTS job_start_by ON job (start_by) WHERE state <= 1 AND start_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_lease ON job (lease) WHERE state = 2;
CREATE INDEX IF NOT EXISTS job_ended ON job (ended) WHERE state >= 3;
CREATE TABLE IF NOT EXISTS dependency (
    after INTEGER NOT NULL,
    job INTEGER NOT NULL,
    PRIMARY KEY (after, job)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS dependency_job ON dependency (job);
CREATE TABLE IF NOT EXISTS event (
    job INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    job INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, attempt, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS backlog (
    priority INTEGER NOT NULL,
    owner TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (priority, owner)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS owner (
    name TEXT PRIMARY KEY,
    running INTEGER NOT NULL DEFAULT 0,
    share INTEGER NOT NULL DEFAULT 1,
    served INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS job_inserted AFTER INSERT ON job WHEN new.state = 1 BEGIN
    INSERT INTO backlog VALUES (new.priority, new.owner, 1)
        ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER IF NOT EXISTS job_enters AFTER UPDATE OF state ON job WHEN new.state = 1 AND old.state <> 1 BEGIN
    INSERT INTO backlog VALUES (new.priority, new.owner, 1)
        ON CONFLICT DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER IF NOT EXISTS job_leaves AFTER UPDATE OF state ON job WHEN old.state = 1 AND new.state <> 1 BEGIN
    UPDATE backlog SET jobs = jobs - 1 WHERE priority = old.priority AND owner = old.owner;
    DELETE FROM backlog WHERE priority = old.priority AND owner = old.owner AND jobs = 0;
END;
CREATE TRIGGER IF NOT EXISTS job_starts AFTER UPDATE OF state ON job WHEN new.state = 2 AND old.state <> 2 BEGIN
    INSERT INTO owner (name, running) VALUES (new.owner, 1)
        ON CONFLICT DO UPDATE SET running = running + 1;
END;
CREATE TRIGGER IF NOT EXISTS job_stops AFTER UPDATE OF state ON job WHEN old.state = 2 AND new.state <> 2 BEGIN
    UPDATE owner SET running = running - 1 WHERE name = old.owner;
END;
";
