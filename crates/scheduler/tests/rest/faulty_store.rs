//! Store in memory that fails on demand.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use lighthaul_booking::error::{Result, SqliteFault, StoreError};
use lighthaul_booking::store::sqlite::Sqlite;
use lighthaul_booking::store::{Batch, EventSize, Position, Store, Writer};

/// Works, cannot be written, or cannot be used at all.
pub(crate) type Health = Arc<AtomicU8>;
pub(crate) const WORKS: u8 = 0;
pub(crate) const FULL: u8 = 1;
pub(crate) const AWAY: u8 = 2;

/// Store in memory with faults. It may look like one that other instances can open.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    inner: Sqlite,
    health: Health,
    is_exclusive: bool,
}

impl FaultyStore {
    /// Returns a store that works as long as its health says so.
    pub(crate) fn new(health: &Health, is_exclusive: bool) -> Self {
        Self {
            inner: Sqlite::in_memory().unwrap(),
            health: Arc::clone(health),
            is_exclusive,
        }
    }

    fn check(&self, is_write: bool) -> Result<()> {
        let health = self.health.load(Ordering::Relaxed);
        if health == AWAY || health == FULL && is_write {
            let fault = StoreError::Sqlite {
                action: "use",
                path: PathBuf::from("books"),
                why: "a test asked for this fault".to_owned(),
                fault: SqliteFault::DiskFull,
            };
            return Err(fault.into());
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn elect(&mut self) -> Result<Writer> {
        self.check(false)?;
        self.inner.elect()
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        self.check(true)?;
        self.inner.append(after, batch)
    }

    fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    fn position(&mut self) -> Result<Position> {
        self.check(false)?;
        self.inner.position()
    }

    fn epoch_end(&mut self, epoch: &str) -> Result<Option<u64>> {
        self.check(false)?;
        self.inner.epoch_end(epoch)
    }

    fn begin_epoch(&mut self, epoch: &str) -> Result<()> {
        self.check(true)?;
        self.inner.begin_epoch(epoch)
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        self.check(false)?;
        self.inner.changes(after)
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        self.check(false)?;
        self.inner.events(after, most)
    }

    fn event_sizes(&mut self) -> Result<Vec<EventSize>> {
        self.check(false)?;
        self.inner.event_sizes()
    }
}
