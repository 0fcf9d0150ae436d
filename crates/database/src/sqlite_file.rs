//! `SQLite` file that belongs to one program, readable only by its user.
//!
//! A file that is damaged, of a newer format or of another program is refused, and nothing is written to it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use lighthaul_io::host::durable::make_folders;
use rusqlite::{Connection, OpenFlags};

/// Mark and format of the files of a program.
#[derive(Clone, Copy, Debug)]
pub struct SqliteFile {
    /// Mark of the program, `application_id` in the header.
    pub application: i32,
    /// Latest format, `user_version` in the header. Earlier formats are read, too.
    pub format: i32,
    /// Longest wait for another process that writes.
    pub patience: Duration,
}

/// Fault of a file.
#[derive(Debug)]
pub enum FileFault {
    /// The file or its directory cannot be created.
    Create(io::Error),
    /// The file does not exist, or is empty.
    Missing,
    /// A newer version has written the file, in this format.
    Newer(i32),
    /// The file is a database of another program.
    Foreign,
    /// Action that failed.
    Failed(&'static str, rusqlite::Error),
}

impl SqliteFile {
    /// Opens the file at `path`, which is created with its directory if `create` is true. Returns its format, or none
    /// if it has no tables yet.
    pub fn open(self, path: &Path, create: bool) -> Result<(Connection, Option<i32>), FileFault> {
        if create {
            make(path).map_err(FileFault::Create)?;
        } else if !path.exists() {
            return Err(FileFault::Missing);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(path, flags).and_then(|connection| {
            connection.busy_timeout(self.patience)?;
            Ok(connection)
        });
        let mut connection = opened.map_err(|why| FileFault::Failed("open", why))?;
        let found = self.check(&mut connection)?;
        if found.is_none() && !create {
            return Err(FileFault::Missing);
        }
        Ok((connection, found))
    }

    /// Refuses a database of a newer format or of another program. Returns the format, or none if it is empty.
    fn check(self, connection: &mut Connection) -> Result<Option<i32>, FileFault> {
        let found = (|| {
            let transaction = connection.transaction()?;
            let number = |sql| transaction.query_row(sql, [], |row| row.get::<_, i32>(0));
            Ok((
                number("PRAGMA application_id")?,
                number("PRAGMA user_version")?,
                number("SELECT COUNT(*) FROM sqlite_master")?,
            ))
        })();
        match found.map_err(|why| FileFault::Failed("read", why))? {
            (0, 0, 0) => Ok(None),
            (id, found, _) if id == self.application => {
                let is_known = (1..=self.format).contains(&found);
                is_known
                    .then_some(Some(found))
                    .ok_or(FileFault::Newer(found))
            }
            _ => Err(FileFault::Foreign),
        }
    }

    /// Marks the file as one of this program, in the latest format.
    pub fn mark(self, connection: &Connection) -> rusqlite::Result<()> {
        connection.pragma_update(None, "application_id", self.application)?;
        connection.pragma_update(None, "user_version", self.format)
    }
}

/// Creates the file and its directory, unless they exist.
fn make(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), make_folders)?;
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path).map(drop)
}
