//! Queues from the thread that handles messages to the others.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, SyncSender};

use super::basis::Basis;
use super::held::HeldRange;
use super::job::{Incoming, Job};

/// Queues for objects and reports.
pub(super) struct Queues {
    pub(super) lanes: Vec<SyncSender<Incoming>>,
    /// Queue of ranges to compare.
    pub(super) held: SyncSender<HeldRange>,
    pub(super) jobs: Sender<Job>,
    /// Queue of bases whose sums are wanted.
    pub(super) bases: SyncSender<Basis>,
    /// Number of pieces without a report, of each object.
    pub(super) unreported: BTreeMap<u64, usize>,
}
