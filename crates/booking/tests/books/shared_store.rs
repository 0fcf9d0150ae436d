//! Store for tests, which several instances share and which can fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use lighthaul_booking::error::{Result, ServerFault, StoreError};
use lighthaul_booking::store::{
    Batch, Document, DocumentKind, EventDocument, EventSize, Position, Store, Writer,
};

/// State that all instances share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedStore {
    kept: Arc<Mutex<Kept>>,
}

/// View of one instance.
#[derive(Debug)]
pub(crate) struct StoreHandle {
    name: &'static str,
    shared_store: SharedStore,
}

/// Failure of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The batch is not stored.
    Before,
    /// The batch is stored, but the call fails.
    Behind,
    /// Elections fail until [`SharedStore::heal`] is called.
    Away,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    writer: &'static str,
    fault: Option<Fault>,
    seq: u64,
    epochs: Vec<(String, u64)>,
    documents: BTreeMap<(DocumentKind, String), (u64, String)>,
    /// Owners and documents.
    events: BTreeMap<u64, (String, String)>,
}

impl SharedStore {
    /// Returns the view of an instance, which may write if its name is `writer`.
    pub(crate) fn handle(&self, name: &'static str) -> Box<dyn Store> {
        Box::new(StoreHandle {
            name,
            shared_store: self.clone(),
        })
    }

    /// Makes this instance the writer.
    pub(crate) fn elect(&self, name: &'static str) {
        self.kept().writer = name;
    }

    /// Makes the next write fail.
    pub(crate) fn fail(&self, fault: Fault) {
        self.kept().fault = Some(fault);
    }

    /// Returns a copy of all data, as a backup or a lagging server has it.
    pub(crate) fn copy(&self) -> Self {
        let kept = self.kept().clone();
        Self {
            kept: Arc::new(Mutex::new(kept)),
        }
    }

    /// Restores a copy.
    pub(crate) fn restore(&self, copy: &Self) {
        let old = copy.kept().clone();
        *self.kept() = old;
    }

    /// Returns the size of all events.
    pub(crate) fn event_bytes(&self) -> usize {
        let kept = self.kept();
        kept.events.values().map(|(_, doc)| doc.len()).sum()
    }

    /// Makes the store answer nothing until the guard is dropped.
    pub(crate) fn hang(&self) -> impl Sized + use<'_> {
        self.kept()
    }

    /// Ends all failures.
    pub(crate) fn heal(&self) {
        self.kept().fault = None;
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }
}

impl Store for StoreHandle {
    fn elect(&mut self) -> Result<Writer> {
        if self.shared_store.kept().fault == Some(Fault::Away) {
            return Err(failed("find the writer at").into());
        }
        let writer = self.shared_store.kept().writer;
        let is_here = writer == self.name;
        Ok(if is_here {
            Writer::This
        } else {
            Writer::Other(writer.to_owned())
        })
    }

    fn append(&mut self, after: u64, batch: &Batch) -> Result<()> {
        let mut kept = self.shared_store.kept();
        let fault = kept.fault.take();
        let broken = || Err(failed("write to").into());
        if fault == Some(Fault::Before) || kept.seq != after || kept.writer != self.name {
            return broken();
        }
        kept.seq = batch.seq;
        for Document { kind, id, doc } in batch.documents.clone() {
            match doc {
                Some(doc) => kept.documents.insert((kind, id), (batch.seq, doc)),
                None => kept.documents.remove(&(kind, id)),
            };
        }
        for EventDocument { seq, owner, doc } in batch.events.clone() {
            kept.events.insert(seq, (owner, doc));
        }
        for seq in &batch.events_gone {
            kept.events.remove(seq);
        }
        fault.map_or(Ok(()), |_| broken())
    }

    fn position(&mut self) -> Result<Position> {
        let kept = self.shared_store.kept();
        let epoch = kept.epochs.last().map(|(epoch, _)| epoch.clone());
        Ok(Position {
            epoch: epoch.unwrap_or_default(),
            seq: kept.seq,
        })
    }

    fn epoch_end(&mut self, epoch: &str) -> Result<Option<u64>> {
        let kept = self.shared_store.kept();
        let mut epochs = kept.epochs.iter();
        let found = epochs.find(|(name, _)| name == epoch);
        let next = epochs.next().map_or(kept.seq, |(_, seq)| *seq);
        Ok(found.map(|_| next))
    }

    fn begin_epoch(&mut self, epoch: &str) -> Result<()> {
        let mut kept = self.shared_store.kept();
        let seq = kept.seq;
        kept.epochs.push((epoch.to_owned(), seq));
        Ok(())
    }

    fn changes(&mut self, after: u64) -> Result<Batch> {
        let kept = self.shared_store.kept();
        let behind = kept.documents.iter().filter(|(_, (seq, _))| *seq > after);
        let documents = behind
            .map(|((kind, id), (_, doc))| Document::new(*kind, id.clone(), Some(doc.clone())));
        Ok(Batch {
            seq: kept.seq,
            documents: documents.collect(),
            ..Batch::default()
        })
    }

    fn events(&mut self, after: u64, most: usize) -> Result<Vec<(u64, String)>> {
        let kept = self.shared_store.kept();
        let behind = kept.events.range(after + 1..).take(most);
        let page = behind.map(|(seq, (_, doc))| (*seq, doc.clone()));
        Ok(page.collect())
    }

    fn event_sizes(&mut self) -> Result<Vec<EventSize>> {
        let kept = self.shared_store.kept();
        let sizes = kept.events.iter().map(|(seq, (owner, doc))| EventSize {
            seq: *seq,
            owner: owner.clone(),
            bytes: doc.len() as u64,
        });
        Ok(sizes.collect())
    }
}

/// Returns the error of a server that cannot be reached.
fn failed(action: &'static str) -> StoreError {
    StoreError::Server {
        action,
        why: "the test stopped it".to_owned(),
        fault: ServerFault::Away,
    }
}
