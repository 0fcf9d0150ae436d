//! Counters and events of a copy, which its tasks share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use lighthaul_copy::watch::{CopyEvent, CopyProgress, Failed};
use lighthaul_files::item::{Changed, Item, ItemKind, Update};
use lighthaul_files::manifest::PATH_SHOWN_MAX;
use lighthaul_files::options::{Action, Detail, Options, Planned};
use lighthaul_session::error::Error;
use lighthaul_session::topic::ITEMS_MAX;

use crate::stores::content_sums;
use crate::stores::decision::{DIFFERENT_SIZE, DIFFERENT_TIME, Decision};

/// Counters of a copy, and the way of its events to the observer.
#[derive(Debug)]
// fields: one for each counter
pub(crate) struct Report {
    events: Sender<CopyEvent>,
    itemize: bool,
    dry_run: Option<Detail>,
    /// Bytes that have arrived, and those that are wanted.
    done: AtomicU64,
    total: AtomicU64,
    /// Requests for data.
    requests: AtomicU64,
    published: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) unchanged: AtomicU64,
    pub(crate) failures: Mutex<Vec<Failed>>,
    /// Failures that the list has no room for.
    more: AtomicU64,
    /// Objects whose checksums were not compared.
    unproven: AtomicU64,
    /// True after the warning about them.
    has_warned: AtomicBool,
}

impl Report {
    pub(crate) fn new(events: Sender<CopyEvent>, options: &Options) -> Self {
        Self {
            events,
            itemize: options.itemize,
            dry_run: options.dry_run,
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            published: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            unchanged: AtomicU64::new(0),
            failures: Mutex::new(Vec::new()),
            more: AtomicU64::new(0),
            unproven: AtomicU64::new(0),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Sends an event to the observer.
    pub(crate) fn tell(&self, event: CopyEvent) {
        self.events.send(event).ok();
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.tell(CopyEvent::Warning(text.into()));
    }

    /// Counts an object whose checksums were not compared, because the store `name` has none.
    pub(crate) fn unproven(&self, name: &str) {
        self.unproven.fetch_add(1, Relaxed);
        self.warn_unproven(name);
    }

    /// Warns once that a store does not compare or report the checksums of all objects.
    pub(crate) fn warn_unproven(&self, name: &str) {
        if !self.has_warned.swap(true, Relaxed) {
            self.warn(format!(
                "{name} does not compare or report the checksums of all objects; for the others, only lengths are compared"
            ));
        }
    }

    /// Returns the number of objects whose checksums were not compared.
    pub(crate) fn count_unproven(&self) -> u64 {
        self.unproven.load(Relaxed)
    }

    /// Counts bytes that will move.
    pub(crate) fn want(&self, bytes: u64) {
        self.total.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes that have moved, in one request.
    pub(crate) fn moved(&self, bytes: u64) {
        self.arrived(bytes);
        self.requests.fetch_add(1, Relaxed);
    }

    /// Counts bytes that have moved, in a part of an answer.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    /// Counts bytes that an earlier run has moved.
    pub(crate) fn held(&self, bytes: u64) {
        self.total.fetch_sub(bytes, Relaxed);
    }

    /// Counts bytes that will not move after all, of which some have.
    pub(crate) fn gave_up(&self, bytes: u64) {
        let done = self.done.load(Relaxed);
        let total = self.total.load(Relaxed);
        self.total
            .store(total.saturating_sub(bytes).max(done), Relaxed);
    }

    pub(crate) fn progress(&self) -> CopyProgress {
        CopyProgress {
            done: self.done.load(Relaxed),
            total: self.total.load(Relaxed),
            round: 1,
            sent: self.requests.load(Relaxed),
            published: self.published.load(Relaxed),
            ..CopyProgress::default()
        }
    }

    /// Reports the decision about an entry, in a dry run. Returns true if there is work to do.
    pub(crate) fn decided(&self, path: &str, size: u64, decision: &Decision) -> bool {
        let acts = matches!(decision.action, Action::Create | Action::Replace);
        if decision.action == Action::Keep || acts && self.dry_run.is_some() {
            self.entries.fetch_add(1, Relaxed);
            self.bytes.fetch_add(size, Relaxed);
            self.unchanged.fetch_add(u64::from(!acts), Relaxed);
        }
        let Some(detail) = self.dry_run else {
            return acts;
        };
        let is_change = acts || decision.action == Action::Delete;
        if is_change || detail > Detail::Brief {
            let bytes = if acts { size } else { 0 };
            self.tell(CopyEvent::Planned(self.planned(path, bytes, decision)));
        }
        false
    }

    /// Counts an entry that is in place.
    pub(crate) fn placed(&self, path: &str, size: u64, decision: &Decision) {
        self.entries.fetch_add(1, Relaxed);
        self.bytes.fetch_add(size, Relaxed);
        self.published.fetch_add(1, Relaxed);
        if self.itemize {
            self.tell(CopyEvent::Done(self.planned(path, size, decision)));
        }
    }

    /// Counts an entry that has failed.
    pub(crate) fn fail(&self, path: &str, error: &Error) {
        let path = path.as_bytes();
        let failed = Failed {
            path: path[..path.len().min(PATH_SHOWN_MAX)].to_vec(),
            code: error.code() as u8,
            why: error.text(),
        };
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < ITEMS_MAX - 1 {
            self.tell(CopyEvent::Failed(failed.clone()));
            failures.push(failed);
        } else {
            self.more.fetch_add(1, Relaxed);
        }
    }

    /// Returns all failures, and at their end the number of those that are not listed.
    pub(crate) fn take_failures(&self) -> Vec<Failed> {
        let mut failures =
            std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner));
        let more = self.more.load(Relaxed);
        if let Some(last) = failures.last().filter(|_| more > 0) {
            failures.push(Failed {
                path: Vec::new(),
                code: last.code,
                why: format!("{more} more entries failed"),
            });
        }
        failures
    }

    /// Returns true if an entry has failed.
    pub(crate) fn has_failures(&self) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        !failures.is_empty()
    }

    fn planned(&self, path: &str, bytes: u64, decision: &Decision) -> Planned {
        let is_new = decision.action == Action::Create;
        let is_change = is_new || decision.action == Action::Replace;
        let item = Item {
            update: Update::Data,
            kind: ItemKind::File,
            new: is_new,
            changed: Changed {
                value: content_sums::is_difference(decision.why),
                size: decision.why == DIFFERENT_SIZE,
                time: decision.why == DIFFERENT_TIME,
                ..Changed::default()
            },
        };
        Planned {
            action: decision.action,
            path: path.as_bytes()[..path.len().min(PATH_SHOWN_MAX)].to_vec(),
            bytes,
            kept: 0,
            why: decision.why.to_owned(),
            item: (self.itemize && is_change).then_some(item),
        }
    }
}
