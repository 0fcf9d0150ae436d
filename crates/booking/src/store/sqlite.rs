//! Store in a local file, for a single instance. It needs no installation.
//!
//! [`Sqlite`] locks the file while it is open, so a second scheduler cannot use it. A batch is one
//! transaction, and the disk has it before [`Store::append`] returns. A file that was replaced or
//! removed meanwhile is noticed, and nothing is written to it.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior, params};

use super::batch::{Batch, Document, DocumentKind, EventDocument};
use super::contract::{EVENTS_BYTES_MAX, EventSize, Position, Store, Writer};
use super::sql;
use crate::error::{Error, Result, SqliteFault, StoreError};

/// `SQLite` file, which is locked while it is open.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    /// Device and inode of the file when it was opened.
    file: Option<(u64, u64)>,
    connection: Connection,
}

impl Sqlite {
    /// Opens a file, which is created if missing.
    pub fn open(path: &Path) -> Result<Self> {
        make(path);
        let (connection, format) = connect(path).map_err(|why| failed("open", path, &why))?;
        check_format(format)?;
        Ok(Self {
            path: path.to_owned(),
            file: number_of(path),
            connection,
        })
    }

    /// Returns a store in memory, for tests.
    pub fn in_memory() -> Result<Self> {
        Self::open(Path::new(IN_MEMORY))
    }

    /// Executes an action on the file. Incomplete transactions are rolled back.
    fn with<T>(
        &mut self,
        action: &'static str,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        act(&mut self.connection).map_err(|why| failed(action, &self.path, &why))
    }
}

impl Store for Sqlite {
    fn elect(&mut self) -> Result<Writer> {
        if self.file != number_of(&self.path) {
            return Err(StoreError::Replaced(self.path.clone()).into());
        }
        Ok(Writer::This)
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        let is_next = self.with("write", |connection| write(connection, after, batch))?;
        let shared = || StoreError::Shared(self.path.clone()).into();
        is_next.then_some(()).ok_or_else(shared)
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn position(&mut self) -> Result<Position> {
        self.with("read", |connection| {
            connection.query_row(sql::SELECT_POSITION, [], |row| {
                Ok(Position {
                    seq: number(row, 0)?,
                    epoch: row.get(1)?,
                })
            })
        })
    }

    fn epoch_end(&mut self, epoch: &str) -> Result<Option<u64>> {
        self.with("read", |connection| {
            let found = connection.query_row(sql::SELECT_EPOCH_END, [epoch], |row| number(row, 0));
            found.optional()
        })
    }

    fn begin_epoch(&mut self, epoch: &str) -> Result<()> {
        self.with("write", |connection| {
            connection.execute(sql::INSERT_EPOCH, [epoch]).map(drop)
        })
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        let (seq, rows) = self.with("read", |connection| {
            let transaction = connection.transaction()?;
            let seq = transaction.query_row(sql::SELECT_SEQ, [], |row| number(row, 0))?;
            let mut documents = transaction.prepare_cached(sql::SELECT_DOCUMENTS)?;
            let rows = documents.query_map(params![after.cast_signed()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            Ok((seq, rows.collect::<rusqlite::Result<Vec<_>>>()?))
        })?;
        let documents = rows
            .into_iter()
            .map(Document::of_row)
            .collect::<Result<_>>()?;
        Ok(Batch {
            seq,
            documents,
            ..Batch::default()
        })
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        self.with("read", |connection| {
            let mut events = connection.prepare_cached(sql::SELECT_EVENTS)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let bytes = EVENTS_BYTES_MAX.cast_signed();
            let rows = events.query_map(params![after.cast_signed(), most, bytes], |row| {
                Ok((number(row, 0)?, row.get(1)?))
            })?;
            rows.collect()
        })
    }

    fn event_sizes(&mut self) -> Result<Vec<EventSize>> {
        self.with("read", |connection| {
            let mut sizes = connection.prepare_cached(SELECT_EVENT_SIZES)?;
            let rows = sizes.query_map([], |row| {
                Ok(EventSize {
                    seq: number(row, 0)?,
                    owner: row.get(1)?,
                    bytes: number(row, 2)?,
                })
            })?;
            rows.collect()
        })
    }
}

impl Document {
    /// Returns the document in a row.
    pub(super) fn of_row((kind, id, doc): (String, String, String)) -> Result<Self> {
        let kind = DocumentKind::of(&kind).ok_or(StoreError::UnknownKind(kind))?;
        Ok(Self {
            kind,
            id,
            doc: Some(doc),
        })
    }
}

/// Writes a batch. Returns false if it is not the next one.
fn write(connection: &mut Connection, after: u64, batch: &Batch) -> rusqlite::Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let seq = batch.seq.cast_signed();
    if transaction
        .prepare_cached(sql::UPDATE_SEQ)?
        .execute(params![seq, after.cast_signed()])?
        != 1
    {
        return Ok(false);
    }
    for document in &batch.documents {
        let kind = document.kind.name();
        match &document.doc {
            Some(doc) => transaction
                .prepare_cached(sql::UPSERT_DOCUMENT)?
                .execute(params![kind, document.id, seq, doc])?,
            None => transaction
                .prepare_cached(sql::DELETE_DOCUMENT)?
                .execute(params![kind, document.id])?,
        };
    }
    for EventDocument { seq, doc, .. } in &batch.events {
        transaction
            .prepare_cached(sql::INSERT_EVENT)?
            .execute(params![seq.cast_signed(), doc])?;
    }
    for seq in &batch.events_gone {
        transaction
            .prepare_cached(DELETE_EVENT)?
            .execute(params![seq.cast_signed()])?;
    }
    transaction.commit().map(|()| true)
}

/// Creates a file that only its owner can read, if it does not exist.
fn make(path: &Path) {
    if path != Path::new(IN_MEMORY) {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        // opening the file reports faults of its path
        options.open(path).ok();
    }
}

/// Returns the device and inode of a file, or `None` if it does not exist.
fn number_of(path: &Path) -> Option<(u64, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// Opens a file and returns its format.
fn connect(path: &Path) -> rusqlite::Result<(Connection, i32)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    // EXCLUSIVE locks out other processes; FULL syncs each commit to the disk, also with WAL
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;",
    )?;
    connection.execute_batch(&format!("BEGIN EXCLUSIVE; {} COMMIT;", sql::TABLES))?;
    let format = connection.query_row(sql::SELECT_FORMAT, [], |row| row.get(0))?;
    Ok((connection, format))
}

/// Refuses a store of another format.
pub(super) fn check_format(format: i32) -> Result<()> {
    if format == sql::FORMAT {
        return Ok(());
    }
    Err(StoreError::Format {
        found: format,
        expected: sql::FORMAT,
    }
    .into())
}

fn number(row: &rusqlite::Row<'_>, nth: usize) -> rusqlite::Result<u64> {
    row.get(nth).map(i64::cast_unsigned)
}

/// Returns the fault of a file and the remedy.
fn failed(action: &'static str, path: &Path, why: &rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    let fault = match why.sqlite_error_code() {
        Some(Code::DiskFull) => SqliteFault::DiskFull,
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => SqliteFault::Locked,
        Some(Code::CannotOpen | Code::PermissionDenied) => SqliteFault::Path,
        Some(Code::ReadOnly) => SqliteFault::ReadOnly,
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => SqliteFault::Corrupt,
        _ => SqliteFault::Other,
    };
    StoreError::Sqlite {
        action,
        path: path.to_owned(),
        why: why.to_string(),
        fault,
    }
    .into()
}

const DELETE_EVENT: &str = "DELETE FROM events WHERE seq = ?1";
const SELECT_EVENT_SIZES: &str =
    "SELECT seq, COALESCE(json_extract(doc, '$.reservation.owner'), ''), OCTET_LENGTH(doc)
    FROM events";
/// Name that `SQLite` uses for a database in memory.
const IN_MEMORY: &str = ":memory:";
