//! Durable records of a domain in an `SQLite` file.
//!
//! [`RecordStore`] locks the file while it is open. A batch is one transaction, and the disk has it before
//! [`RecordStore::append`] returns (WAL mode, `synchronous = FULL`). Each row has a checksum. A file that is damaged,
//! of another program, of another domain or of a newer format is refused, and nothing is written to it.
//!
//! Each start begins an epoch with the next number, which the log and the status name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, checksum};
use lighthaul_base::Instant;
use lighthaul_io::host::durable::make_folders;
use lighthaul_stargate::{DomainId, Key, PortId, Record, Segment};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};

/// `SQLite` file of the records of one domain.
#[derive(Debug)]
pub struct RecordStore {
    path: PathBuf,
    /// Device and inode of the file, and of its write-ahead log, when it was opened.
    files: [Option<(u64, u64)>; 2],
    log: PathBuf,
    connection: Connection,
    epoch: u64,
}

/// Fault of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// File that is damaged.
    #[error(
        "cannot use the store {}: it is damaged ({why}); restore it from a backup, or remove it: \
         neighbors then release its reservations",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        why: String,
    },
    /// Database of another program.
    #[error(
        "cannot use the store {}: it is a database of another program; name another file with store",
        .0.display()
    )]
    Foreign(PathBuf),
    /// File that a newer version has written.
    #[error(
        "cannot use the store {}: its format is {found}, and this version reads only {}; update lighthaul",
        path.display(),
        FORMAT
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: i32,
    },
    /// File of another domain.
    #[error(
        "cannot use the store {}: it belongs to domain {found}, and this is domain {me}; correct domain, or name \
         another file with store",
        path.display()
    )]
    OtherDomain {
        /// Path of the file.
        path: PathBuf,
        /// Domain that wrote the file.
        found: u32,
        /// This domain.
        me: u32,
    },
    /// File that another process uses.
    #[error(
        "cannot use the store {}: another process has locked it; stop the other service of this domain",
        .0.display()
    )]
    Locked(PathBuf),
    /// File or log that was removed or replaced while it was open.
    #[error(
        "cannot write the store {}: the file or its -wal file was removed or replaced; put the original files back and \
         start the service again",
        .0.display()
    )]
    Replaced(PathBuf),
    /// Disk that is full.
    #[error(
        "cannot write the store {}: the disk is full; free space there and start the service again",
        .0.display()
    )]
    Full(PathBuf),
    /// File that cannot be read or written.
    #[error(
        "cannot {action} the store {}: {why}; check the path and its permissions",
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

impl RecordStore {
    /// Opens a file, and returns its records. The file and its directory are created if they do not exist.
    pub fn open(path: &Path, me: DomainId) -> Result<(Self, Vec<Record>), StoreError> {
        make(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags);
        let connection = connection.map_err(|why| failed("open", path, &why))?;
        let mut store = Self {
            path: path.to_owned(),
            files: [None; 2],
            log: log_of(path),
            connection,
            epoch: 0,
        };
        store.with("open", |connection| {
            // EXCLUSIVE locks out other processes; FULL syncs each commit to the disk, also with WAL
            connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;")
        })?;
        store.check_format()?;
        store.with("open", |connection| {
            connection
                .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;")
        })?;
        store.check_pages()?;
        store.begin_epoch(me)?;
        // the log exists from the first transaction on, and stays while the file is locked
        store.files = store.files_now();
        let records = store.read()?;
        Ok((store, records))
    }

    /// Writes records with the routes of their paths, all or none, and returns when they are on disk.
    pub fn append(
        &mut self,
        records: &[Record],
        routes: &BTreeMap<Key, Vec<u8>>,
    ) -> Result<(), StoreError> {
        if self.files != self.files_now() {
            return Err(StoreError::Replaced(self.path.clone()));
        }
        self.with("write", |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for record in records {
                match record {
                    Record::Put(stored) => {
                        let (key, octets) = (octets_of(stored.key), record.encode());
                        transaction.prepare_cached(UPSERT)?.execute(params![
                            key,
                            octets,
                            sum(&key, &octets)
                        ])?;
                    }
                    Record::Forget(key) => {
                        let key = octets_of(*key);
                        transaction.prepare_cached(DELETE)?.execute(params![key])?;
                        transaction
                            .prepare_cached(DELETE_ROUTES)?
                            .execute(params![key])?;
                    }
                }
            }
            for (key, routes) in routes {
                let key = octets_of(*key);
                transaction
                    .prepare_cached(UPSERT_ROUTES)?
                    .execute(params![key, routes])?;
            }
            transaction.commit()
        })
    }

    /// Returns the stored routes of `records`. Those of an earlier version have none.
    pub fn routes(&mut self, records: &[Record]) -> Result<BTreeMap<Key, Vec<u8>>, StoreError> {
        self.with("read", |connection| {
            let mut select = connection.prepare(SELECT_ROUTES)?;
            let mut found = BTreeMap::new();
            for record in records {
                let Record::Put(stored) = record else {
                    continue;
                };
                let mut rows = select.query(params![octets_of(stored.key)])?;
                if let Some(row) = rows.next()? {
                    found.insert(stored.key, row.get(0)?);
                }
            }
            Ok(found)
        })
    }

    /// Returns the devices that may have circuits, by their interfaces, with the pairs of ports of the circuits.
    pub fn devices(&mut self) -> Result<BTreeMap<String, BTreeSet<Segment>>, StoreError> {
        self.with("read", |connection| {
            let mut select = connection.prepare(SELECT_DEVICES)?;
            let mut rows = select.query([])?;
            let mut devices: BTreeMap<String, BTreeSet<Segment>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let segment = Segment {
                    ingress: PortId(row.get(1)?),
                    egress: PortId(row.get(2)?),
                };
                devices.entry(row.get(0)?).or_default().insert(segment);
            }
            Ok(devices)
        })
    }

    /// Adds devices that may get circuits, and returns when they are on disk.
    pub fn add_devices(&mut self, circuits: &[(&str, Segment)]) -> Result<(), StoreError> {
        self.with("write", |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (interface, segment) in circuits {
                let ports = (segment.ingress.0, segment.egress.0);
                transaction
                    .prepare_cached(INSERT_DEVICE)?
                    .execute(params![interface, ports.0, ports.1])?;
            }
            transaction.commit()
        })
    }

    /// Forgets a device, which has no circuit any more.
    pub fn forget_device(&mut self, interface: &str) -> Result<(), StoreError> {
        self.with("write", |connection| {
            connection.execute(DELETE_DEVICE, [interface]).map(drop)
        })
    }

    /// Returns the last time that was noted; none in a store that has noted none.
    pub fn last_seen(&mut self) -> Result<Option<Instant>, StoreError> {
        self.with("read", |connection| {
            let found = connection.query_row(SELECT_SEEN, [], |row| row.get::<_, i64>(0));
            let nanos = found.optional()?.map(i64::cast_unsigned);
            Ok(nanos.map(Instant::from_nanos))
        })
    }

    /// Notes that the service runs at `now`, in wall-clock time.
    pub fn note_seen(&mut self, now: Instant) -> Result<(), StoreError> {
        let nanos = now.as_nanos().cast_signed();
        self.with("write", |connection| {
            connection.execute(UPSERT_SEEN, [nanos]).map(drop)
        })
    }

    fn files_now(&self) -> [Option<(u64, u64)>; 2] {
        [&self.path, &self.log].map(|path| number_of(path))
    }

    /// Returns the number of starts with this file, the present one included.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Refuses a database of another format or program.
    fn check_format(&mut self) -> Result<(), StoreError> {
        let (id, format, tables) = self.with("read", |connection| {
            let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i32>(0));
            Ok((
                number("PRAGMA application_id")?,
                number("PRAGMA user_version")?,
                number("SELECT COUNT(*) FROM sqlite_master")?,
            ))
        })?;
        let path = self.path.clone();
        match (id, format, tables) {
            (0, 0, 0) | (APPLICATION, FORMAT, _) => Ok(()),
            (APPLICATION, found, _) => Err(StoreError::Newer { path, found }),
            _ => Err(StoreError::Foreign(path)),
        }
    }

    /// Refuses a file with damaged pages.
    fn check_pages(&mut self) -> Result<(), StoreError> {
        let found = self.with("read", |connection| {
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        })?;
        if found == "ok" {
            return Ok(());
        }
        let path = self.path.clone();
        Err(StoreError::Damaged { path, why: found })
    }

    /// Creates missing tables, compares the domain, and counts the start.
    fn begin_epoch(&mut self, me: DomainId) -> Result<(), StoreError> {
        let (found, epoch) = self.with("write", |connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute_batch(TABLES)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", FORMAT)?;
            transaction.execute(INSERT_DOMAIN, params![me.0])?;
            transaction.execute(NEXT_EPOCH, params![me.0])?;
            let about = transaction.query_row(SELECT_DOMAIN, [], |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?))
            })?;
            transaction.commit()?;
            Ok(about)
        })?;
        if found != me.0 {
            let (path, me) = (self.path.clone(), me.0);
            return Err(StoreError::OtherDomain { path, found, me });
        }
        self.epoch = epoch.cast_unsigned();
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Record>, StoreError> {
        let rows = self.with("read", |connection| {
            let mut select = connection.prepare(SELECT)?;
            let rows = select.query_map([], |row| {
                let octets = (row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?);
                Ok((octets, row.get::<_, i64>(2)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let records = rows.into_iter().map(|((key, octets), written)| {
            let damaged = |why: &str| StoreError::Damaged {
                path: self.path.clone(),
                why: why.to_owned(),
            };
            if sum(&key, &octets) != written {
                return Err(damaged("the checksum of a reservation differs"));
            }
            let record = Record::decode(&octets);
            let record = record.map_err(|_| damaged("a reservation does not decode"))?;
            match &record {
                Record::Put(stored) if octets_of(stored.key)[..] == key[..] => Ok(record),
                Record::Put(_) | Record::Forget(_) => Err(damaged("a reservation has another key")),
            }
        });
        records.collect()
    }

    /// Executes an action on the file. Incomplete transactions are rolled back.
    fn with<T>(
        &mut self,
        action: &'static str,
        act: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        act(&mut self.connection).map_err(|why| failed(action, &self.path, &why))
    }
}

/// Creates the directory and a file that only its owner can read, unless they exist.
fn make(path: &Path) -> Result<(), StoreError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), make_folders).and_then(|()| {
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(path);
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map(drop),
        }
    });
    made.map_err(|why| StoreError::Failed {
        action: "create",
        path: path.to_owned(),
        why: why.to_string(),
    })
}

/// Returns the path of the write-ahead log, which is beside the file that a symbolic link names.
fn log_of(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut log = path.into_os_string();
    log.push("-wal");
    log.into()
}

/// Returns the device and inode of a file, or `None` if it does not exist.
fn number_of(path: &Path) -> Option<(u64, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.dev(), about.ino()))
}

/// Returns the key of a row.
fn octets_of(key: Key) -> [u8; KEY_LEN] {
    let mut octets = [0; KEY_LEN];
    octets[..4].copy_from_slice(&key.source.0.to_be_bytes());
    octets[4..20].copy_from_slice(&key.id.0.to_be_bytes());
    octets[20..].copy_from_slice(&[key.attempt, key.leg]);
    octets
}

fn sum(key: &[u8], octets: &[u8]) -> i64 {
    let sum = checksum(CrcAlgorithm::Crc64Nvme, &[key, octets].concat());
    sum.cast_signed()
}

/// Returns the fault of a file and the remedy.
fn failed(action: &'static str, path: &Path, why: &rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    let code = why.sqlite_error_code();
    let why = why.to_string();
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked(path),
        Some(ErrorCode::DiskFull) => StoreError::Full(path),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch) => {
            StoreError::Damaged { path, why }
        }
        _ => StoreError::Failed { action, path, why },
    }
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS domain (id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, epoch INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, record BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS routes (key BLOB PRIMARY KEY, routes BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS devices (
        interface TEXT NOT NULL, ingress INTEGER NOT NULL, egress INTEGER NOT NULL, PRIMARY KEY (interface, ingress, egress)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY CHECK (id = 1), nanos INTEGER NOT NULL);
";
const INSERT_DOMAIN: &str = "INSERT OR IGNORE INTO domain (id, number, epoch) VALUES (1, ?1, 0)";
const NEXT_EPOCH: &str = "UPDATE domain SET epoch = epoch + 1 WHERE number = ?1";
const SELECT_DOMAIN: &str = "SELECT number, epoch FROM domain WHERE id = 1";
const SELECT: &str = "SELECT key, record, sum FROM records ORDER BY key";
const UPSERT: &str = "INSERT OR REPLACE INTO records (key, record, sum) VALUES (?1, ?2, ?3)";
const SELECT_ROUTES: &str = "SELECT routes FROM routes WHERE key = ?1";
const UPSERT_ROUTES: &str = "INSERT OR REPLACE INTO routes (key, routes) VALUES (?1, ?2)";
const DELETE_ROUTES: &str = "DELETE FROM routes WHERE key = ?1";
const SELECT_DEVICES: &str = "SELECT interface, ingress, egress FROM devices";
const INSERT_DEVICE: &str =
    "INSERT OR IGNORE INTO devices (interface, ingress, egress) VALUES (?1, ?2, ?3)";
const SELECT_SEEN: &str = "SELECT nanos FROM seen WHERE id = 1";
const UPSERT_SEEN: &str = "INSERT OR REPLACE INTO seen (id, nanos) VALUES (1, ?1)";
const DELETE_DEVICE: &str = "DELETE FROM devices WHERE interface = ?1";
const DELETE: &str = "DELETE FROM records WHERE key = ?1";
/// Length of the key of a row: source domain, correlation ID, attempt, leg.
const KEY_LEN: usize = 22;
/// Number in the header of the file that names its program: `lhdo`.
const APPLICATION: i32 = 0x6c68_646f;
/// Version of the tables and of the records in them.
const FORMAT: i32 = 1;
