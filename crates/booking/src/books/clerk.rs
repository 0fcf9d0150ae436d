//! Where the ledger and the store are kept in step.

use lighthaul_calendar::Topology;
use lighthaul_io::crypto::identity;
use tracing::warn;

use super::config::Config;
use super::follow::Unfit;
use super::ledger::Ledger;
use super::memory::Memory;
use crate::error::{Error, Result};
use crate::store::{Mark, Store, Writer};
use crate::word::Moment;

/// A ledger, and the store that has what is true.
#[derive(Debug)]
pub(super) struct Clerk {
    pub(super) store: Box<dyn Store>,
    pub(super) ledger: Ledger,
    pub(super) now: Moment,
    /// Whether this instance was the one that writes when the store was asked last.
    pub(super) is_writer: bool,
    /// The number of the last batch that the ledger has from the store, or the store from it.
    pub(super) news: u64,
    /// Whether the ledger may have what the store has not.
    is_stale: bool,
    /// The farthest point of the store's history that was seen.
    memory: Memory,
}

impl Clerk {
    pub(super) fn new(store: Box<dyn Store>, topology: Topology, config: Config) -> Result<Self> {
        let memory = Memory::open(config.seen.clone(), config.accept_restored)?;
        Ok(Self {
            store,
            memory,
            ledger: Ledger::new(config, topology)?,
            now: Moment(0),
            is_writer: false,
            news: 0,
            is_stale: true,
        })
    }

    /// Changes the ledger, after what is due, and the store; if the store cannot be changed, nothing has happened.
    pub(super) fn change<T>(
        &mut self,
        act: impl FnOnce(&mut Ledger, Moment) -> Result<T>,
    ) -> Result<T> {
        self.lead()?;
        let now = self.now;
        self.is_stale = true;
        self.ledger.tick(now)?;
        let answer = act(&mut self.ledger, now);
        self.ledger.settle(now)?;
        self.ledger.trim();
        self.write()?;
        answer
    }

    /// Sets the time of the books. Small steps back are waited out. After a large one the books are read again from the store,
    /// so that they do not stand still until the old time has come again; changes made in between remain.
    pub(super) fn set_time(&mut self, now: Moment) {
        let back = self.now.0.saturating_sub(now.0);
        if back <= BACK_MAX {
            self.now = self.now.max(now);
            self.memory.sync(self.now);
            return;
        }
        let seconds = back / 1_000_000_000;
        warn!("the clock of this host went back by {seconds} s, to {now}: the books follow it");
        self.now = now;
        self.is_stale = true;
    }

    /// Refuses a topology that has not what the books have promised.
    pub(super) fn check(&mut self) -> Result<()> {
        self.catch_up()?.check()
    }

    /// Makes sure that the ledger can be read.
    pub(super) fn ready(&mut self) -> Result<()> {
        if !self.is_writer || self.is_stale {
            self.is_writer = false;
            self.catch_up()?;
            // who writes does so in the store; what is over is not told again
            self.ledger.forget_unwritten(self.now);
        }
        Ok(())
    }

    /// Makes sure that this is the instance that writes, and has everything.
    fn lead(&mut self) -> Result<()> {
        let was_writer = std::mem::take(&mut self.is_writer);
        if let Writer::At(url) = self.store.elect()? {
            return Err(Error::Elsewhere { url });
        }
        // who begins to write has to know all that does not fit
        self.is_stale |= !was_writer;
        let unfit = self.catch_up()?;
        if let Err(why) = unfit.check() {
            self.is_stale = true;
            return Err(Error::Store(why.to_string()));
        }
        if !unfit.slow.is_empty() {
            self.is_stale = true;
            self.ledger.give_up(self.now, unfit)?;
            self.write()?;
        }
        if !was_writer {
            let epoch = identity::token();
            self.store.begin(&epoch)?;
            let seq = self.news;
            self.memory.keep(Mark { epoch, seq });
        }
        self.is_writer = true;
        Ok(())
    }

    /// Takes over what the store has and the ledger has not.
    fn catch_up(&mut self) -> Result<Unfit> {
        let mark = self.store.mark()?;
        let is_restored = self.memory.check(self.store.as_mut(), &mark)?;
        if !self.is_stale && !is_restored && mark.seq == self.news {
            self.memory.keep(mark);
            return Ok(Unfit::default());
        }
        let is_emptied = self.is_stale || is_restored;
        if is_emptied {
            self.ledger = self.ledger.emptied()?;
        }
        self.is_stale = true;
        let after = if is_emptied { 0 } else { self.news };
        let batch = self.store.changes(after)?;
        self.news = batch.seq;
        let unfit = self.ledger.follow(self.now, batch)?;
        self.ledger.seq = self.ledger.seq.max(self.memory.floor());
        self.memory.keep(mark);
        self.is_stale = false;
        Ok(unfit)
    }

    /// Has the store keep what has changed.
    fn write(&mut self) -> Result<()> {
        if let Some(batch) = self.ledger.take_batch()? {
            self.memory.reserve(batch.seq);
            self.store.append(self.news, &batch)?;
            self.news = batch.seq;
            self.memory.advance(batch.seq);
        }
        self.is_stale = false;
        Ok(())
    }
}

/// The longest step back of the clock that is waited out, in nanoseconds.
const BACK_MAX: u64 = 1_000_000_000;
