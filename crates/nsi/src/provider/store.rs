//! Table of connections, answers and undelivered messages in a local file.
//!
//! All changes of a request are one transaction, which the disk has before the request is answered.

use std::fmt;
use std::path::Path;

use rusqlite::{Connection as Database, TransactionBehavior, params};

/// Open file.
pub(super) struct Store(Database);

/// Changes that are written together: kind, key, and the document unless it is deleted.
pub(super) type Changes = Vec<(DocumentKind, String, Option<String>)>;

/// Kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentKind {
    /// Connection.
    Connection,
    /// Answer to a request.
    Answer,
    /// Message that is not delivered yet.
    Outgoing,
}

impl DocumentKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Answer => "answer",
            Self::Outgoing => "outgoing",
        }
    }
}

impl Store {
    /// Opens a file, which is created if missing.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let database = Database::open(path)?;
        // the lock is taken at once, so that a second scheduler is refused
        database.execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;
             PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS nsi (
                 kind TEXT NOT NULL, key TEXT NOT NULL, document TEXT NOT NULL,
                 PRIMARY KEY (kind, key)) WITHOUT ROWID;",
        )?;
        Ok(Self(database))
    }

    /// Returns the documents of a kind.
    pub(super) fn all(&self, kind: DocumentKind) -> rusqlite::Result<Vec<String>> {
        let mut rows = self
            .0
            .prepare("SELECT document FROM nsi WHERE kind = ?1 ORDER BY key")?;
        let rows = rows.query_map([kind.name()], |row| row.get(0))?;
        rows.collect()
    }

    /// Makes all writes fail, or none.
    #[cfg(test)]
    pub(super) fn set_broken(&self, is_broken: bool) {
        let names = if is_broken {
            ["nsi", "away"]
        } else {
            ["away", "nsi"]
        };
        let [from, to] = names;
        let renamed = self
            .0
            .execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"));
        renamed.unwrap();
    }

    /// Writes changes, all or none.
    pub(super) fn write(&mut self, changes: &Changes) -> rusqlite::Result<()> {
        let transaction = self
            .0
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (kind, key, document) in changes {
            let kind = kind.name();
            match document {
                Some(document) => transaction.execute(
                    "INSERT OR REPLACE INTO nsi (kind, key, document) VALUES (?1, ?2, ?3)",
                    params![kind, key, document],
                )?,
                None => transaction.execute(
                    "DELETE FROM nsi WHERE kind = ?1 AND key = ?2",
                    params![kind, key],
                )?,
            };
        }
        transaction.commit()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}
