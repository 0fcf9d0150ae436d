//! A store of a test: several instances share it, and it fails when it is told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lighthaul_booking::error::{Error, Result};
use lighthaul_booking::store::{Batch, Fact, Kind, Mark, Store, Writer};

/// What all instances see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf {
    kept: Arc<Mutex<Kept>>,
}

/// One instance's way to it.
#[derive(Debug)]
pub(crate) struct Hand {
    name: &'static str,
    shelf: Shelf,
}

/// How the next writing fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is kept.
    Before,
    /// All is kept, and nobody hears of it.
    Behind,
    /// Nobody says who writes, until that is mended.
    Away,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    writer: &'static str,
    fault: Option<Fault>,
    seq: u64,
    epochs: Vec<(String, u64)>,
    facts: BTreeMap<(Kind, String), (u64, String)>,
    events: BTreeMap<u64, String>,
}

impl Shelf {
    /// The way of an instance, which may write if it is called `writer`.
    pub(crate) fn hand(&self, name: &'static str) -> Box<dyn Store> {
        Box::new(Hand {
            name,
            shelf: self.clone(),
        })
    }

    /// From now on this instance writes.
    pub(crate) fn elect(&self, name: &'static str) {
        self.kept().writer = name;
    }

    /// The next writing fails.
    pub(crate) fn fail(&self, fault: Fault) {
        self.kept().fault = Some(fault);
    }

    /// A copy of all that is kept, for a backup or a server that lags.
    pub(crate) fn copy(&self) -> Self {
        let kept = self.kept().clone();
        Self {
            kept: Arc::new(Mutex::new(kept)),
        }
    }

    /// Is as a copy was.
    pub(crate) fn restore(&self, copy: &Self) {
        let old = copy.kept().clone();
        *self.kept() = old;
    }

    /// Nothing fails any more.
    pub(crate) fn heal(&self) {
        self.kept().fault = None;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }
}

impl Store for Hand {
    fn elect(&mut self) -> Result<Writer> {
        if self.shelf.kept().fault == Some(Fault::Away) {
            return Err(Error::Store("the shelf is away".to_owned()));
        }
        let writer = self.shelf.kept().writer;
        let is_here = writer == self.name;
        Ok(if is_here {
            Writer::Here
        } else {
            Writer::At(writer.to_owned())
        })
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        let mut kept = self.shelf.kept();
        let fault = kept.fault.take();
        let broken = || Err(Error::Store("the shelf broke".to_owned()));
        if fault == Some(Fault::Before) || kept.seq != after || kept.writer != self.name {
            return broken();
        }
        kept.seq = batch.seq;
        for Fact { kind, id, doc } in batch.facts.clone() {
            match doc {
                Some(doc) => kept.facts.insert((kind, id), (batch.seq, doc)),
                None => kept.facts.remove(&(kind, id)),
            };
        }
        kept.events.extend(batch.events.iter().cloned());
        fault.map_or(Ok(()), |_| broken())
    }

    fn mark(&mut self) -> Result<Mark> {
        let kept = self.shelf.kept();
        let epoch = kept.epochs.last().map(|(epoch, _)| epoch.clone());
        Ok(Mark {
            epoch: epoch.unwrap_or_default(),
            seq: kept.seq,
        })
    }

    fn reach(&mut self, epoch: &str) -> Result<Option<u64>> {
        let kept = self.shelf.kept();
        let mut epochs = kept.epochs.iter();
        let found = epochs.find(|(name, _)| name == epoch);
        let next = epochs.next().map_or(kept.seq, |(_, seq)| *seq);
        Ok(found.map(|_| next))
    }

    fn begin(&mut self, epoch: &str) -> Result<()> {
        let mut kept = self.shelf.kept();
        let seq = kept.seq;
        kept.epochs.push((epoch.to_owned(), seq));
        Ok(())
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        let kept = self.shelf.kept();
        let behind = kept.facts.iter().filter(|(_, (seq, _))| *seq > after);
        let facts =
            behind.map(|((kind, id), (_, doc))| Fact::new(*kind, id.clone(), Some(doc.clone())));
        Ok(Batch {
            seq: kept.seq,
            facts: facts.collect(),
            ..Batch::default()
        })
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        let kept = self.shelf.kept();
        let behind = kept.events.range(after + 1..).take(most);
        Ok(behind.map(|(seq, doc)| (*seq, doc.clone())).collect())
    }
}
