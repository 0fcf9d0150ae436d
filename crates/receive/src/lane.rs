//! Receiving side of a lane: one object after another, each with its own machine.
//!
//! `ReceiveLane` runs in a thread of its own. For each object it sets new keys, creates the machine
//! of the protocol and runs it over the lane's socket and streams. Bytes go to the sink, and what
//! the machine learned goes to the next one. `ReceiveOwner` copies the counters of the machine to
//! those of the lane. A failed object ends the copy.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver as Objects, RecvTimeoutError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::monitor::{Counts, nanos};
use lighthaul_copy::thread_group::{CHECK_INTERVAL, ThreadGroup};
use lighthaul_io::drive::{Counters, Lane, Next, Owner, run};
use lighthaul_io::error::Error as World;
use lighthaul_io::store::blocks::{Backlog, Blocks};
use lighthaul_io::store::waits::Waits;
use lighthaul_session::error::Error;
use lighthaul_session::machine::{Learned, MachineEvent, ReceiveMachine};
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::processor_wait::RunDelay;
use lighthaul_session::protocol::Protocol;

use super::job::Incoming;
use super::sink::FileSink;
use super::transfer::Transfer;

/// Receiving side of a lane, with its sink.
pub(super) struct ReceiveLane<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) counts: &'a Counts,
    pub(super) offer: Offer,
    pub(super) lane: Lane,
    /// Length of the packets in its store, and most bytes of the store.
    pub(super) packet_len: u32,
    pub(super) ring_bytes: usize,
    pub(super) objects: Objects<Incoming>,
    /// Measurements of the previous object.
    pub(super) learned: Learned,
    /// Time in which the lane asked the sender to wait, and in which the lane waited for earlier stores.
    pub(super) waited: Duration,
}

impl ReceiveLane<'_> {
    /// Receives objects into `store` until the queue ends.
    pub(super) fn run(mut self, mut store: Blocks<FileSink>) -> Result<(), Error> {
        let mut delay = RunDelay::of_this_thread();
        loop {
            match self.objects.recv_timeout(CHECK_INTERVAL) {
                Ok(incoming) => {
                    store = self.fit(store, incoming.protocol)?;
                    self.receive(incoming, &mut store, &mut delay)?;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.transfer.threads.check()?;
                    // the disk writes the last object of a lane that gets no further object
                    let backlog = store.backlog().bytes();
                    self.counts.backlog_bytes.store(backlog, Relaxed);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let (_, written) = store.finish();
        Ok(written?)
    }

    fn receive(
        &mut self,
        incoming: Incoming,
        store: &mut Blocks<FileSink>,
        delay: &mut RunDelay,
    ) -> Result<(), Error> {
        let transfer = self.transfer;
        let offer = self.offer.with(incoming.protocol);
        let (session, plain) = (transfer.session, transfer.settings.plain);
        let (number, len) = (incoming.number, incoming.layout.object_len());
        offer::rekey(session, &mut self.lane, number, plain);
        let setup = offer::setup(&offer, (number, len), &self.lane, plain)?;
        offer::predict_competition(&mut self.lane, setup.protocol);
        let unused = offer::prepare(&mut self.lane, setup.protocol);
        let incoming = Arc::new(incoming);
        let shown = Arc::clone(&incoming);
        let file_at = move |position| shown.file_at(position);
        self.counts.begin(file_at, offer.packet_len);
        store.begin(incoming, len)?;
        let now = session.clock.now();
        let mut receiver = ReceiveMachine::new(now, &setup, self.learned);
        let mut owner = ReceiveOwner {
            threads: &transfer.threads,
            counts: self.counts,
            counters: Arc::clone(&self.lane.counters),
            waits: store.waits(),
            backlog: store.backlog(),
            object_time: Duration::from_nanos(self.counts.object_time.load(Relaxed)),
            begun: now,
            held: (now, self.waited),
            delay,
            object_len: len,
            packet_len: offer.packet_len.into(),
            bytes: self.counts.bytes.load(Relaxed),
            packets: self.counts.packets.load(Relaxed),
            again: self.counts.again.load(Relaxed),
            failed: None,
        };
        let ran = run(&mut receiver, &mut self.lane, store, &mut owner);
        owner.count(&receiver);
        owner.count_time(session.clock.now());
        self.waited = owner.held.1;
        self.lane.udp = unused.or_else(|| self.lane.udp.take());
        self.counts.end();
        self.learned = receiver.learned();
        match (ran, owner.failed.take()) {
            (Err(_), Some(error)) => return Err(error),
            (Err(error), None) => return Err(error.into()),
            (Ok(()), _) => {}
        }
        Ok(store.end()?)
    }

    /// Returns a store for the packets of `protocol`. If they have another length, all that the present store holds is
    /// written first.
    fn fit(
        &mut self,
        store: Blocks<FileSink>,
        protocol: Protocol,
    ) -> Result<Blocks<FileSink>, Error> {
        let packet_len = self.offer.with(protocol).packet_len;
        if packet_len == self.packet_len {
            return Ok(store);
        }
        self.packet_len = packet_len;
        self.waited += store.waits().total();
        let (sink, written) = store.finish();
        written?;
        let gone = || World::Internal("writer: it has no sink".to_owned());
        let sink = sink.ok_or_else(gone)?;
        Ok(Blocks::start(sink, packet_len, self.ring_bytes)?)
    }
}

// fields: what the threads of one lane share
struct ReceiveOwner<'a> {
    threads: &'a ThreadGroup,
    counts: &'a Counts,
    counters: Arc<Counters>,
    waits: Waits,
    backlog: Backlog,
    /// Time of the lane in earlier objects, and the start of this one.
    object_time: Duration,
    begun: Instant,
    /// Time of the last tick, and total time in which the lane asked the sender to wait.
    held: (Instant, Duration),
    /// Time for which the thread waited for a processor.
    delay: &'a mut RunDelay,
    object_len: u64,
    packet_len: u64,
    /// Counters of the lane before this object.
    bytes: u64,
    packets: u64,
    again: u64,
    failed: Option<Error>,
}

impl ReceiveOwner<'_> {
    fn count(&self, receiver: &ReceiveMachine) {
        let (counts, counters) = (self.counts, &self.counters);
        let done = receiver.received().saturating_mul(self.packet_len);
        counts
            .bytes
            .store(self.bytes + done.min(self.object_len), Relaxed);
        counts
            .packets
            .store(self.packets + receiver.datagrams(), Relaxed);
        counts
            .again
            .store(self.again + receiver.duplicates(), Relaxed);
        // packets on the stream have arrived, too
        let seen = counters.received.load(Relaxed) + self.packets + receiver.received();
        counts.datagrams.store(seen, Relaxed);
        counts
            .buffer_drops
            .store(counters.buffer_drops.load(Relaxed), Relaxed);
        let foreign = counters.foreign.load(Relaxed) + counters.forged.load(Relaxed);
        counts.foreign.store(foreign, Relaxed);
        counts.round.store(receiver.round(), Relaxed);
        counts.held.store(receiver.is_holding(), Relaxed);
        let waited = self.waits.total() + self.held.1;
        counts.target_wait.store(nanos(waited), Relaxed);
        let backlog_bytes = self.backlog.bytes();
        counts.backlog_bytes.store(backlog_bytes, Relaxed);
    }

    /// Counts the time in which the lane had an object until now.
    fn count_time(&self, now: Instant) {
        let time = self.object_time + now.since(self.begun);
        self.counts.object_time.store(nanos(time), Relaxed);
    }
}

impl Owner<ReceiveMachine> for ReceiveOwner<'_> {
    fn event(
        &mut self,
        _: &mut ReceiveMachine,
        event: MachineEvent,
        _: Instant,
    ) -> Result<Next, World> {
        match event {
            MachineEvent::Round(..)
            | MachineEvent::Asked(_)
            | MachineEvent::Idle
            | MachineEvent::Released
            | MachineEvent::Paused(_)
            | MachineEvent::Barren => Ok(Next::Continue),
            MachineEvent::Complete => Ok(Next::Finish),
            MachineEvent::Failed(why) => Err(World::PeerMisbehaved(why)),
        }
    }

    fn tick(&mut self, receiver: &mut ReceiveMachine, now: Instant) -> Result<Next, World> {
        let (since, held) = self.held;
        let more = if receiver.is_holding() {
            now.since(since)
        } else {
            Duration::ZERO
        };
        self.held = (now, held + more);
        let delay = nanos(self.delay.read(now));
        self.counts.run_delay.store(delay, Relaxed);
        self.count_time(now);
        self.count(receiver);
        match self.threads.check() {
            Ok(()) => Ok(Next::Continue),
            Err(error) => {
                self.failed = Some(error);
                Err(World::Interrupted)
            }
        }
    }
}
