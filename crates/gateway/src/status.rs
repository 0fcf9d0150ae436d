//! Counters and state of a link, for other threads.
//!
//! The thread of the link writes [`Status`]; metrics, the status socket and the cluster read it.
//! All fields are atomic, so no reader ever stops the link. A [`LinkSnapshot`] is thus not taken at
//! one instant: its numbers may differ by a few events.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lighthaul_io::host::wait::Waker;
use lighthaul_slabs::Link;

use crate::page_pool::PagePool;
use crate::quota::Quota;

/// Counters and state of a link.
#[derive(Debug, Default)]
// fields: one for each counter that threads share without a lock
pub struct Status {
    sessions: AtomicUsize,
    sessions_ended: AtomicU64,
    sessions_refused: AtomicU64,
    sessions_broken: AtomicU64,
    read: AtomicU64,
    wrote: AtomicU64,
    slabs_sent: AtomicU64,
    slabs_held: AtomicU64,
    datagrams_sent: AtomicU64,
    datagrams_resent: AtomicU64,
    datagrams_received: AtomicU64,
    memory_out: AtomicU64,
    memory_in: AtomicU64,
    credit: AtomicU64,
    rate: AtomicU64,
    connected: AtomicBool,
    reconnections: AtomicU64,
    tokens_taken: AtomicU64,
    tokens_made: AtomicU64,
    turns_nanos: AtomicU64,
    wants: AtomicBool,
    /// Raised when data wait again.
    waker: OnceLock<Waker>,
    over: AtomicBool,
    /// True if a peer that reconnects can resume its link.
    kept: AtomicBool,
    refused_by_peer: AtomicBool,
    /// Quota of sessions that the link shares with others.
    quota: OnceLock<Arc<dyn Quota>>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// fields: one for each counter of the metrics
pub struct LinkSnapshot {
    /// Current sessions.
    pub sessions: u64,
    /// Sessions that ended regularly.
    pub sessions_ended: u64,
    /// Sessions that were refused because of their target, a rule or a limit.
    pub sessions_refused: u64,
    /// Sessions that ended in a reset, or with their link.
    pub sessions_broken: u64,
    /// Bytes read from programs.
    pub read: u64,
    /// Bytes written to programs.
    pub wrote: u64,
    /// Formed slabs.
    pub slabs_sent: u64,
    /// Slabs that the other side has not taken custody of.
    pub slabs_held: u64,
    /// Sent datagrams.
    pub datagrams_sent: u64,
    /// Retransmitted datagrams, which are also counted as sent.
    pub datagrams_resent: u64,
    /// Received datagrams.
    pub datagrams_received: u64,
    /// Bytes of memory for outgoing pages.
    pub memory_out: u64,
    /// Bytes of memory for incoming pages.
    pub memory_in: u64,
    /// Pages that the other side can still receive.
    pub credit: u64,
    /// Current rate of the channel in bits a second; zero in a gap, or without a limit.
    pub rate_bps: u64,
    /// True if the link has a connection.
    pub connected: bool,
    /// True if the other gateway refuses the link.
    pub refused: bool,
    /// Connections after the first one.
    pub reconnections: u64,
    /// Number of times that this element received the token of its cluster.
    pub tokens_taken: u64,
    /// Number of times that this element created the token after a loss.
    pub tokens_made: u64,
    /// Time for which this element held the token.
    pub turns: Duration,
}

impl Status {
    /// Returns the current counters.
    pub fn snapshot(&self) -> LinkSnapshot {
        LinkSnapshot {
            sessions: self.sessions.load(Relaxed) as u64,
            sessions_ended: self.sessions_ended.load(Relaxed),
            sessions_refused: self.sessions_refused.load(Relaxed),
            sessions_broken: self.sessions_broken.load(Relaxed),
            read: self.read.load(Relaxed),
            wrote: self.wrote.load(Relaxed),
            slabs_sent: self.slabs_sent.load(Relaxed),
            slabs_held: self.slabs_held.load(Relaxed),
            datagrams_sent: self.datagrams_sent.load(Relaxed),
            datagrams_resent: self.datagrams_resent.load(Relaxed),
            datagrams_received: self.datagrams_received.load(Relaxed),
            memory_out: self.memory_out.load(Relaxed),
            memory_in: self.memory_in.load(Relaxed),
            credit: self.credit.load(Relaxed),
            rate_bps: self.rate.load(Relaxed),
            connected: self.connected.load(Relaxed),
            refused: self.is_refused(),
            reconnections: self.reconnections.load(Relaxed),
            tokens_taken: self.tokens_taken.load(Relaxed),
            tokens_made: self.tokens_made.load(Relaxed),
            turns: Duration::from_nanos(self.turns_nanos.load(Relaxed)),
        }
    }

    /// Returns true if data wait for the channel.
    pub(crate) fn wants(&self) -> bool {
        self.wants.load(Relaxed)
    }

    /// Sets the waker that is raised when data begin to wait.
    pub(crate) fn watch_wants(&self, waker: Waker) {
        self.waker.set(waker).ok();
    }

    /// Notes if data wait for the channel.
    pub(crate) fn want(&self, wants: bool) {
        let wanted = self.wants.swap(wants, Relaxed);
        if wants
            && !wanted
            && let Some(waker) = self.waker.get()
        {
            waker.raise();
        }
    }

    pub(crate) fn sessions(&self, count: usize) {
        let before = self.sessions.swap(count, Relaxed);
        if count < before
            && let Some(quota) = self.quota.get()
        {
            quota.may_have(count);
        }
    }

    /// Counts the sessions in a quota that several links share. Must be called before there are any.
    pub(crate) fn share(&self, quota: Arc<dyn Quota>) {
        self.quota.set(quota).ok();
    }

    /// Returns true if the quota allows `count` sessions, where `most` is the limit of this link alone.
    pub(crate) fn may_have(&self, count: usize, most: usize) -> bool {
        count <= most && self.quota.get().is_none_or(|quota| quota.may_have(count))
    }

    pub(crate) fn ended(&self) {
        self.sessions_ended.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.sessions_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn broke(&self, count: u64) {
        self.sessions_broken.fetch_add(count, Relaxed);
    }

    /// Notes that the link has ended.
    pub(crate) fn over(&self) {
        self.over.store(true, Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// Notes if a link can be resumed.
    pub(crate) fn keep(&self, is: bool) {
        self.kept.store(is, Relaxed);
    }

    /// Returns true if a peer that reconnects can resume its link.
    pub fn is_kept(&self) -> bool {
        self.kept.load(Relaxed)
    }

    /// Notes if the other gateway refuses the link.
    pub(crate) fn refuse(&self, is: bool) {
        self.refused_by_peer.store(is, Relaxed);
    }

    pub(crate) fn is_refused(&self) -> bool {
        self.refused_by_peer.load(Relaxed)
    }

    pub(crate) fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.wrote.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn connected(&self, is: bool, again: bool) {
        self.connected.store(is, Relaxed);
        self.reconnections.fetch_add(u64::from(again), Relaxed);
        if !is {
            self.want(false);
        }
    }

    /// Notes the numbers of received and created tokens, and adds time for which this element holds the channel.
    pub(crate) fn had_turn(&self, (taken, made): (u64, u64), more: Duration) {
        self.tokens_taken.store(taken, Relaxed);
        self.tokens_made.store(made, Relaxed);
        self.turns_nanos.fetch_add(more.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn look(&self, link: &Link, pool: &PagePool) {
        let sender = link.sender();
        self.slabs_sent.store(sender.next_slab(), Relaxed);
        self.slabs_held.store(sender.held_slabs(), Relaxed);
        self.datagrams_sent.store(sender.sent(), Relaxed);
        self.datagrams_resent.store(sender.resent(), Relaxed);
        let received = link.receiver().datagrams();
        self.datagrams_received.store(received, Relaxed);
        let page_len = u64::from(link.config().page_len());
        self.memory_out
            .store(pool.held() as u64 * page_len, Relaxed);
        let receiver = link.receiver();
        let taken = u64::from(link.config().pages_max).saturating_sub(receiver.room());
        self.memory_in.store(taken * page_len, Relaxed);
        self.credit.store(sender.room(), Relaxed);
        let rate = sender.rate().map_or(0, lighthaul_base::Rate::as_bps);
        self.rate.store(rate, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Quota of five sessions, which records the requested numbers.
    #[derive(Debug, Default)]
    struct Five(Mutex<Vec<usize>>);

    impl Quota for Five {
        fn may_have(&self, sessions: usize) -> bool {
            self.0.lock().unwrap().push(sessions);
            sessions <= 5
        }
    }

    #[test]
    fn link_requests_more_sessions_and_returns_ended_sessions() {
        let (quota, status) = (Arc::<Five>::default(), Status::default());
        assert!(
            status.may_have(9, 9) && !status.may_have(9, 8),
            "the link has a limit of its own"
        );
        status.share(Arc::clone(&quota) as Arc<dyn Quota>);
        assert!(status.may_have(5, 9) && !status.may_have(6, 9) && !status.may_have(5, 4));
        for count in [3, 5, 2] {
            status.sessions(count);
            assert_eq!(status.snapshot().sessions, count as u64);
        }
        assert_eq!(*quota.0.lock().unwrap(), [5, 6, 2]);
    }
}
