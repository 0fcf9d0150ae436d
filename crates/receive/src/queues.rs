//! Queues from the thread that handles messages to the worker threads.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Duration;

use lighthaul_copy::monitor::Monitor;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::options::Options;
use lighthaul_session::error::Error;
use lighthaul_session::fault::PeerFault;
use lighthaul_session::offer::Offer;
use lighthaul_session::protocol::{self, Protocol};

use super::basis::Basis;
use super::held::HeldRange;
use super::job::{Incoming, Job};

/// Queues for objects and reports.
pub(super) struct Queues {
    pub(super) lanes: Lanes,
    /// Queue of ranges to compare.
    pub(super) held: SyncSender<HeldRange>,
    pub(super) jobs: Sender<Job>,
    /// Queue of bases whose sums are wanted.
    pub(super) bases: SyncSender<Basis>,
    /// Number of pieces without a report, of each object.
    pub(super) unreported: BTreeMap<u64, usize>,
}

impl Queues {
    /// Ends the queues, since no more objects come. A circuit is no longer needed then.
    pub(super) fn end(queues: &mut Option<Self>, options: &Options, monitor: &Monitor) {
        if queues.take().is_some() && !options.trc.is_empty() {
            monitor.show(CopyEvent::CircuitReleased);
        }
    }
}

/// Lanes, which the set-up of the path starts.
pub(super) struct StartedLanes {
    /// Queue of each lane.
    pub(super) queues: Vec<SyncSender<Incoming>>,
    /// Parameters that both sides agreed on.
    pub(super) offer: Offer,
    /// Advice about a small receive buffer of this host.
    pub(super) small_buffer: Option<String>,
}

impl StartedLanes {
    /// Fails for an object of a protocol that was not offered.
    pub(super) fn allow(&self, protocol: Protocol, options: &Options) -> Result<(), Error> {
        let auto = protocol::asked(&options.protocol)?.is_none();
        if self.offer.allows(protocol, auto) {
            return Ok(());
        }
        Err(PeerFault::Invalid("an object of a protocol that was not offered").into())
    }
}

/// Lanes, once started.
pub(super) struct Lanes {
    starting: Receiver<StartedLanes>,
    started: Option<StartedLanes>,
}

impl Lanes {
    /// Creates the value for lanes that come from `starting`.
    pub(super) const fn new(starting: Receiver<StartedLanes>) -> Self {
        Self {
            starting,
            started: None,
        }
    }

    /// Waits at most `patience` for the lanes. Returns none if they have not started.
    pub(super) fn wait(&mut self, patience: Duration) -> Option<&StartedLanes> {
        if self.started.is_none() {
            self.started = self.starting.recv_timeout(patience).ok();
        }
        self.started.as_ref()
    }
}
