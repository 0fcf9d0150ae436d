//! Stored rates of a host and probes of its paths, in an `SQLite` file.
//!
//! Each interval is a row of one table, and each probe one of another. [`History::append`] drops rows that are too old,
//! and the oldest ones of a file that is too large. The file is in WAL mode, so several monitors and readers can use it
//! at once; a writer waits up to [`BUSY`] for another. A file that is damaged, of a newer format or of another program
//! is refused, and nothing is written to it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_database::{FileFault, SqliteFile};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use serde::Serialize;

use crate::path::PathSample;
use crate::rates::Rates;

/// Stored rates and probes.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    connection: Connection,
}

/// Stored row.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Rates of an interval.
    Rates(Box<Rates>),
    /// Probe of a path.
    Path(PathSample),
}

/// Bounds of a history.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// Age at which rows are dropped.
    pub age: Duration,
    /// Bytes of rows and index, above which the oldest rows are dropped.
    pub bytes_max: u64,
}

/// Fault of a history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file that is no history, or is damaged.
    #[error(
        "cannot use the history {}: the file is damaged or not an SQLite database ({why}); remove it, or name another file with --store",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// A file that a newer version has written.
    #[error(
        "cannot use the history {}: its format is {found}, and this version reads only {}; update lighthaul, or name another file with --store",
        path.display(),
        FORMAT
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: i32,
    },
    /// A database of another program.
    #[error(
        "cannot use the history {}: it is a database of another program; name another file with --store",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A file that does not exist.
    #[error(
        "cannot read the history {}: no sample is stored yet; run `lighthaul monitor` first, or name another file with --store",
        .0.display()
    )]
    Missing(PathBuf),
    /// A file that cannot be read or written.
    #[error(
        "cannot {action} the history {}: {why}; name another file with --store, or add --no-store",
        path.display()
    )]
    Failed {
        /// Verb of the failed action.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
}

impl History {
    /// Opens a history to append to. The file and its directory are created if they do not exist.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        Self::connect(path, true)
    }

    /// Opens a history that exists.
    pub fn existing(path: &Path) -> Result<Self, HistoryError> {
        Self::connect(path, false)
    }

    fn connect(path: &Path, create: bool) -> Result<Self, HistoryError> {
        let (connection, _) = FILE
            .open(path, create)
            .map_err(|fault| refused(path, fault))?;
        let mut history = Self {
            path: path.to_owned(),
            connection,
        };
        // the file of an earlier version lacks the table of probes
        history.with("create", |connection| patiently(|| lay_out(connection)))?;
        Ok(history)
    }

    /// Appends the rates of an interval, and drops rows that `retention` does not keep.
    pub fn append(&mut self, rates: &Rates, retention: Retention) -> Result<(), HistoryError> {
        self.insert(INSERT_RATES, rates.time_s, rates, retention)
    }

    /// Appends the result of a probe, and drops rows that `retention` does not keep.
    pub fn append_path(
        &mut self,
        sample: &PathSample,
        retention: Retention,
    ) -> Result<(), HistoryError> {
        self.insert(INSERT_PATH, sample.time_s, sample, retention)
    }

    fn insert(
        &mut self,
        insert: &str,
        time_s: f64,
        value: &impl Serialize,
        retention: Retention,
    ) -> Result<(), HistoryError> {
        let time = millis(time_s);
        let text = serde_json::to_string(value).unwrap_or_default();
        let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
        self.with("write", |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction
                .prepare_cached(insert)?
                .execute(params![time, text])?;
            for delete in DELETE_OLD {
                transaction
                    .prepare_cached(delete)?
                    .execute([time.saturating_sub(age)])?;
            }
            while bytes(&transaction)? > retention.bytes_max {
                let mut dropped = 0;
                for drop in DROP_OLDEST {
                    let mut drop = transaction.prepare_cached(drop)?;
                    dropped += drop.execute([ROWS_DROPPED])?;
                }
                if dropped < ROWS_DROPPED as usize {
                    break;
                }
            }
            transaction.commit()?;
            // pages of dropped rows go back to the file system
            let mut vacuum = connection.prepare_cached(VACUUM)?;
            let mut rows = vacuum.query([])?;
            // each step returns one page
            while rows.next()?.is_some() {}
            Ok(())
        })
    }

    /// Passes rows since `from`, in seconds since 1970, to `visit`, in order, until it breaks.
    ///
    /// Rows that are appended meanwhile are left out.
    pub fn each<B>(
        &mut self,
        from: f64,
        mut visit: impl FnMut(Record) -> ControlFlow<B>,
    ) -> Result<Option<B>, HistoryError> {
        let path = self.path.clone();
        let read = |why: rusqlite::Error| failed("read", &path, &why);
        let mut rows = self.connection.prepare_cached(SELECT).map_err(read)?;
        let mut rows = rows.query([millis(from)]).map_err(read)?;
        while let Some(row) = rows.next().map_err(read)? {
            let (is_path, text): (bool, String) =
                (row.get(0).map_err(read)?, row.get(1).map_err(read)?);
            let record = if is_path {
                serde_json::from_str(&text).map(Record::Path)
            } else {
                serde_json::from_str(&text).map(Record::Rates)
            };
            let record = record.map_err(|why| HistoryError::Damaged {
                path: path.clone(),
                why: why.to_string(),
            })?;
            if let ControlFlow::Break(end) = visit(record) {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Executes an action on the file. Incomplete transactions are rolled back.
    fn with<T>(
        &mut self,
        action: &'static str,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, HistoryError> {
        act(&mut self.connection).map_err(|why| failed(action, &self.path, &why))
    }
}

/// Repeats an action while another process locks the file. `SQLite` itself does not wait for the change to WAL mode.
fn patiently<T>(mut act: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let clock = Clock::start();
    loop {
        match act() {
            Err(why)
                if why.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && clock.now() < Instant::ZERO + BUSY =>
            {
                pause(PAUSE);
            }
            done => return done,
        }
    }
}

/// Creates the tables, unless another monitor did.
fn lay_out(connection: &mut Connection) -> rusqlite::Result<()> {
    // this has an effect on an empty file only, and before WAL mode
    connection.execute_batch("PRAGMA auto_vacuum = INCREMENTAL")?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    FILE.mark(&transaction)?;
    transaction.commit()
}

/// Returns the bytes of the file that are in use.
fn bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let used = number("PRAGMA page_count")? - number("PRAGMA freelist_count")?;
    Ok(used
        .saturating_mul(number("PRAGMA page_size")?)
        .cast_unsigned())
}

fn millis(seconds: f64) -> i64 {
    (seconds * 1e3).round() as i64
}

/// Returns the fault of a file that cannot be opened.
fn refused(path: &Path, fault: FileFault) -> HistoryError {
    let path = path.to_owned();
    match fault {
        FileFault::Create(why) => HistoryError::Failed {
            action: "create",
            path,
            why: why.to_string(),
        },
        FileFault::Missing => HistoryError::Missing(path),
        FileFault::Newer(found) => HistoryError::Newer { path, found },
        FileFault::Foreign => HistoryError::Foreign(path),
        FileFault::Failed(action, why) => failed(action, &path, &why),
    }
}

/// Returns the fault of a file.
fn failed(action: &'static str, path: &Path, why: &rusqlite::Error) -> HistoryError {
    let path = path.to_owned();
    let code = why.sqlite_error_code();
    let is_damaged = matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch)
    );
    let why = match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another process has locked it for too long".to_owned()
        }
        _ => why.to_string(),
    };
    if is_damaged {
        HistoryError::Damaged { path, why }
    } else {
        HistoryError::Failed { action, path, why }
    }
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS samples (id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, rates TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS samples_by_time ON samples (time_ms);
    CREATE TABLE IF NOT EXISTS paths (id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, sample TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS paths_by_time ON paths (time_ms);
";
const INSERT_RATES: &str = "INSERT INTO samples (time_ms, rates) VALUES (?1, ?2)";
const INSERT_PATH: &str = "INSERT INTO paths (time_ms, sample) VALUES (?1, ?2)";
/// Rows of both tables; the first column is true for probes.
const SELECT: &str = "
    SELECT is_path, text FROM (
        SELECT 0 AS is_path, time_ms, id, rates AS text FROM samples WHERE time_ms >= ?1
        UNION ALL SELECT 1, time_ms, id, sample FROM paths WHERE time_ms >= ?1
    ) ORDER BY time_ms, is_path, id";
const DELETE_OLD: [&str; 2] = [
    "DELETE FROM samples WHERE time_ms < ?1",
    "DELETE FROM paths WHERE time_ms < ?1",
];
const DROP_OLDEST: [&str; 2] = [
    "DELETE FROM samples WHERE id IN (SELECT id FROM samples ORDER BY time_ms, id LIMIT ?1)",
    "DELETE FROM paths WHERE id IN (SELECT id FROM paths ORDER BY time_ms, id LIMIT ?1)",
];
/// Returns up to 64 unused pages.
const VACUUM: &str = "PRAGMA incremental_vacuum(64)";
/// Rows that are dropped at once from a file that is too large.
const ROWS_DROPPED: u32 = 64;
/// Mark and format of the file; the mark is `lhmo`.
const FILE: SqliteFile = SqliteFile {
    application: 0x6c68_6d6f,
    format: FORMAT,
    patience: BUSY,
};
/// Version of the tables and of the rates in them.
const FORMAT: i32 = 1;
/// Time between two attempts to create the tables.
const PAUSE: Duration = Duration::from_millis(10);
/// Longest wait for another process that writes.
pub const BUSY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    const ALL: Retention = Retention {
        age: Duration::from_hours(24 * 7),
        bytes_max: 1 << 30,
    };

    fn scratch(name: &str) -> PathBuf {
        let name = format!("lighthaul-history-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::remove_dir_all(&folder).ok();
        folder
    }

    fn at(time_s: f64) -> Rates {
        Rates {
            time_s,
            ..Rates::default()
        }
    }

    fn time(record: &Record) -> f64 {
        match record {
            Record::Rates(rates) => rates.time_s,
            Record::Path(sample) => sample.time_s,
        }
    }

    fn probed(time_s: f64, host: &str) -> PathSample {
        PathSample {
            time_s,
            host: host.to_owned(),
            ..PathSample::default()
        }
    }

    fn times(history: &mut History, from: f64) -> Vec<f64> {
        let mut times = Vec::new();
        let end: Option<()> = history
            .each(from, |record| {
                times.push(time(&record));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(end, None);
        times
    }

    #[test]
    fn rates_are_read_back_in_their_order() {
        let folder = scratch("order");
        let path = folder.join("a/monitor.db");
        let mut history = History::open(&path).unwrap();
        for time in [1000.0, 1002.5, 1001.25] {
            history.append(&at(time), ALL).unwrap();
        }
        let mut other = History::existing(&path).unwrap();
        assert_eq!(times(&mut other, 0.0), [1000.0, 1001.25, 1002.5]);
        assert_eq!(times(&mut other, 1001.0), [1001.25, 1002.5]);
        let first = other.each(0.0, |record| ControlFlow::Break(time(&record)));
        assert_eq!(first.unwrap(), Some(1000.0));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn old_rows_are_dropped() {
        let folder = scratch("age");
        let path = folder.join("monitor.db");
        let mut history = History::open(&path).unwrap();
        let short = Retention {
            age: Duration::from_secs(10),
            ..ALL
        };
        for time in [100.0, 105.0, 112.0] {
            history.append(&at(time), short).unwrap();
        }
        assert_eq!(times(&mut history, 0.0), [105.0, 112.0]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn oldest_rows_of_a_large_file_are_dropped() {
        let folder = scratch("size");
        let path = folder.join("monitor.db");
        let mut history = History::open(&path).unwrap();
        let small = Retention {
            bytes_max: 100_000,
            ..ALL
        };
        for time in 0..500 {
            history.append(&at(f64::from(time)), small).unwrap();
        }
        let times = times(&mut history, 0.0);
        assert!(times.len() > 20 && times.len() < 400, "{}", times.len());
        assert_eq!(times.last(), Some(&499.0));
        history
            .connection
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= 110_000);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn probes_are_kept_among_the_rates_and_as_long() {
        let folder = scratch("paths");
        let path = folder.join("monitor.db");
        let mut history = History::open(&path).unwrap();
        let short = Retention {
            age: Duration::from_secs(10),
            ..ALL
        };
        history.append_path(&probed(100.0, "old"), short).unwrap();
        history.append(&at(106.0), short).unwrap();
        history.append_path(&probed(105.0, "far"), short).unwrap();
        history.append(&at(112.0), short).unwrap();
        let mut found = Vec::new();
        let end: Option<()> = history
            .each(0.0, |record| {
                found.push(record);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(end, None);
        let rates = |time| Record::Rates(Box::new(at(time)));
        let expected = [
            Record::Path(probed(105.0, "far")),
            rates(106.0),
            rates(112.0),
        ];
        assert_eq!(found, expected);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn oldest_probes_of_a_large_file_are_dropped() {
        let folder = scratch("many-paths");
        let path = folder.join("monitor.db");
        let mut history = History::open(&path).unwrap();
        let small = Retention {
            bytes_max: 100_000,
            ..ALL
        };
        for time in 0..600 {
            let sample = probed(f64::from(time), &"h".repeat(200));
            history.append_path(&sample, small).unwrap();
        }
        let times = times(&mut history, 0.0);
        assert!(times.len() > 20 && times.len() < 500, "{}", times.len());
        assert_eq!(times.last(), Some(&599.0));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn file_without_probes_is_read_and_continued() {
        let folder = scratch("earlier");
        let path = folder.join("monitor.db");
        let mut history = History::open(&path).unwrap();
        history.append(&at(5.0), ALL).unwrap();
        let sql = "DROP TABLE paths";
        history.connection.execute_batch(sql).unwrap();
        let mut read = History::existing(&path).unwrap();
        assert_eq!(times(&mut read, 0.0), [5.0]);
        history.append_path(&probed(6.0, "far"), ALL).unwrap();
        assert_eq!(times(&mut read, 0.0), [5.0, 6.0]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn concurrent_writers_lose_no_rows() {
        let folder = scratch("writers");
        let path = folder.join("monitor.db");
        thread::scope(|scope| {
            for first in [0, 1000] {
                let path = &path;
                scope.spawn(move || {
                    let mut history = History::open(path).unwrap();
                    for time in first..first + 100 {
                        history.append(&at(f64::from(time)), ALL).unwrap();
                    }
                });
            }
        });
        let mut history = History::existing(&path).unwrap();
        assert_eq!(times(&mut history, 0.0).len(), 200);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn damaged_newer_and_foreign_files_are_refused_and_not_changed() {
        let folder = scratch("refused");
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        fs::write(
            path("text"),
            "not a database at all, but long enough to look at".repeat(40),
        )
        .unwrap();
        let database = |name: &str, sql: &str| {
            let connection = Connection::open(path(name)).unwrap();
            connection.execute_batch(sql).unwrap();
        };
        database("foreign", "CREATE TABLE other (a)");
        drop(History::open(&path("newer")).unwrap());
        database("newer", "PRAGMA user_version = 2");
        for (name, words) in [
            ("text", "is damaged"),
            ("foreign", "of another program"),
            ("newer", "its format is 2"),
        ] {
            let before = fs::read(path(name)).unwrap();
            for opened in [History::open(&path(name)), History::existing(&path(name))] {
                let why = opened.unwrap_err().to_string();
                assert!(
                    why.contains(words) && why.contains("--store"),
                    "{name}: {why}"
                );
            }
            assert_eq!(fs::read(path(name)).unwrap(), before, "{name}");
        }
        let none = History::existing(&path("none")).unwrap_err();
        assert!(
            none.to_string().contains("no sample is stored yet"),
            "{none}"
        );
        assert!(!path("none").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn malformed_row_is_reported_as_damage() {
        let folder = scratch("row");
        let path = folder.join("monitor.db");
        let mut history = History::open(&path).unwrap();
        let sql = "INSERT INTO samples (time_ms, rates) VALUES (5, '{\"time_s\": 1}')";
        history.connection.execute_batch(sql).unwrap();
        let read = history.each(0.0, |_| ControlFlow::<()>::Continue(()));
        let why = read.unwrap_err().to_string();
        assert!(why.contains("is damaged"), "{why}");
        fs::remove_dir_all(folder).unwrap();
    }
}
