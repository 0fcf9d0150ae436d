//! Queue in a file, for workers of one host. It needs no installation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_database::{FileFault, SqliteFile};
use lighthaul_io::host::clock::unix_nanos;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, TransactionBehavior};

use super::contract::{Database, Durability};
use super::row::{Cell, Row};
use super::tables;
use super::value::Value;
use crate::error::{Error, Result};

/// Queue in a file.
#[derive(Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
    connection: Connection,
}

impl Sqlite {
    /// Opens the file at `path`, which is created with its directory if `create` is true.
    pub(super) fn open(path: &Path, create: bool) -> Result<Self> {
        let opened = FILE.open(path, create);
        let (mut connection, found) = opened.map_err(|fault| refused(path, fault))?;
        if let Some(found) = found.filter(|found| *found < tables::FORMAT) {
            return Err(Error::Older {
                path: path.to_owned(),
                found,
                supported: tables::FORMAT,
            });
        }
        let made = lay_out(&mut connection, found);
        made.map_err(|why| failed("create", path, &why))?;
        Ok(Self {
            path: path.to_owned(),
            connection,
        })
    }

    /// Executes an action on the file.
    fn with<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        act(&self.connection).map_err(|why| {
            let action = if self.connection.is_autocommit() {
                "read"
            } else {
                "write"
            };
            failed(action, &self.path, &why)
        })
    }
}

impl Database for Sqlite {
    fn begin(&mut self, durability: Durability) -> Result<()> {
        let mode = match durability {
            Durability::Full => "FULL",
            Durability::Shared | Durability::Relaxed => "NORMAL",
        };
        let begun = self
            .connection
            .pragma_update(None, "synchronous", mode)
            .and_then(|()| self.connection.execute_batch("BEGIN IMMEDIATE"));
        begun.map_err(|why| failed("write", &self.path, &why))
    }

    fn commit(&mut self) -> Result<()> {
        self.with(|connection| connection.execute_batch("COMMIT"))
    }

    fn has_committed(&mut self) -> Result<Option<bool>> {
        // a file always tells the result of a commit
        Ok(Some(false))
    }

    fn roll_back(&mut self) {
        // some failures have rolled back already
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").ok();
        }
    }

    fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        self.with(|connection| {
            let mut statement = prepare(connection, sql, values)?;
            let width = statement.column_count();
            let mut rows = statement.raw_query();
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let cells = (0..width).map(|nth| row.get_ref(nth)?.try_into());
                found.push(Row(cells.collect::<rusqlite::Result<_>>()?));
            }
            Ok(found)
        })
    }

    fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64> {
        self.with(|connection| {
            let changed = prepare(connection, sql, values)?.raw_execute()?;
            Ok(u64::try_from(changed).unwrap_or(u64::MAX))
        })
    }

    fn now(&mut self) -> Result<u64> {
        Ok(unix_nanos() / 1_000_000)
    }

    fn wait_at_most(&mut self, patience: Duration) -> Result<()> {
        self.with(|connection| connection.busy_timeout(patience))
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }
}

fn prepare<'a>(
    connection: &'a Connection,
    sql: &str,
    values: &[Value<'_>],
) -> rusqlite::Result<CachedStatement<'a>> {
    let sql = sql.strip_suffix(" SKIP LOCKED").unwrap_or(sql);
    let sql = sql.strip_suffix(" FOR UPDATE").unwrap_or(sql);
    let mut statement = connection.prepare_cached(sql)?;
    for (nth, value) in values.iter().enumerate() {
        // numbered by the first use in the statement, not by name
        if let Some(place) = statement.parameter_index(&format!("${}", nth + 1))? {
            statement.raw_bind_parameter(place, value)?;
        }
    }
    Ok(statement)
}

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Number(number) => number.map_or(ValueRef::Null, ValueRef::Integer),
            Self::Text(text) => text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())),
            Self::Bytes(octets) => ValueRef::Blob(octets),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

impl TryFrom<ValueRef<'_>> for Cell {
    type Error = rusqlite::Error;

    fn try_from(value: ValueRef<'_>) -> rusqlite::Result<Self> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Number(number),
            ValueRef::Real(number) => Self::Text(number.to_string()),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(octets) => Self::Bytes(octets.to_vec()),
        })
    }
}

fn lay_out(connection: &mut Connection, found: Option<i32>) -> rusqlite::Result<()> {
    if found.is_none() {
        // two programs may create the file at once: the second finds the tables
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(&tables::tables(&tables::SQLITE))?;
        FILE.mark(&transaction)?;
        transaction.commit()?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Returns the fault of a file that cannot be opened.
fn refused(path: &Path, fault: FileFault) -> Error {
    let path = path.to_owned();
    match fault {
        FileFault::Create(why) => Error::Failed {
            action: "create",
            path,
            why: why.to_string(),
        },
        FileFault::Missing => Error::Missing(path),
        FileFault::Newer(found) => Error::Newer {
            path,
            found,
            supported: tables::FORMAT,
        },
        FileFault::Foreign => Error::Foreign(path),
        FileFault::Failed(action, why) => failed(action, &path, &why),
    }
}

/// Returns the fault of an action on the file at `path`.
fn failed(action: &'static str, path: &Path, why: &rusqlite::Error) -> Error {
    let path = path.to_owned();
    match why.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Error::Damaged {
            path,
            why: why.to_string(),
        },
        Some(ErrorCode::DiskFull) => Error::DiskFull { action, path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { action, path },
        _ => Error::Failed {
            action,
            path,
            why: why.to_string(),
        },
    }
}

/// Mark and format of the file; the mark is `lhqu`.
const FILE: SqliteFile = SqliteFile {
    application: 0x6c68_7175,
    format: tables::FORMAT,
    patience: Duration::from_secs(30),
};
/// Interval at which a worker looks for work.
const INTERVAL: Duration = Duration::from_millis(100);
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_of_another_process_may_pass() {
        let name = format!("lighthaul-queue-busy-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut queue = Sqlite::open(&path, true).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        queue.connection.busy_timeout(Duration::ZERO).unwrap();
        let error = queue.begin(Durability::Full).unwrap_err();
        assert!(
            matches!(error, Error::Busy { .. }) && error.may_pass(),
            "{error}"
        );
        assert!(
            error.to_string().contains("another process has locked it"),
            "{error}"
        );
        other.execute_batch("ROLLBACK").unwrap();
        queue.begin(Durability::Full).unwrap();
        for end in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", path.display())).ok();
        }
    }
}
