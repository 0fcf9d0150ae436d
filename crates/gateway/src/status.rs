//! What a link counts, for those who look.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lighthaul_io::host::wait::Sign;
use lighthaul_proto::slabs::Link;

use crate::page_pool::PagePool;
use crate::quota::Quota;

/// The counters of one link.
#[derive(Debug, Default)]
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
    /// Raised when there is something to send again.
    waker: OnceLock<Sign>,
    over: AtomicBool,
    /// Whether there is a link to go on with.
    kept: AtomicBool,
    refused_by_peer: AtomicBool,
    /// Leave to have sessions, if other links share it.
    quota: OnceLock<Arc<dyn Quota>>,
}

/// What they say at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSnapshot {
    /// Sessions now.
    pub sessions: u64,
    /// Sessions that ended in good order.
    pub sessions_ended: u64,
    /// Sessions that were not begun, for want of a target, of leave or of room.
    pub sessions_refused: u64,
    /// Sessions that ended in a reset, or with their link.
    pub sessions_broken: u64,
    /// Bytes that programs have said.
    pub read: u64,
    /// Bytes that programs were told.
    pub wrote: u64,
    /// Slabs formed.
    pub slabs_sent: u64,
    /// Of these, slabs of which the other side has not said that it keeps them.
    pub slabs_held: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Of these, those that were sent again.
    pub datagrams_resent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Bytes of memory that what leaves takes.
    pub memory_out: u64,
    /// Bytes of memory that what came takes until it has gone on.
    pub memory_in: u64,
    /// Pages that the other side still has a place for.
    pub credit: u64,
    /// What the channel carries now, in bits a second; zero in a gap, or if it has no limit.
    pub rate_bps: u64,
    /// Whether there is a connection.
    pub connected: bool,
    /// Whether the other gateway refuses this one.
    pub refused: bool,
    /// Connections but the first.
    pub reconnections: u64,
    /// How often the token of its cluster was taken.
    pub tokens_taken: u64,
    /// How often it was made anew here, since it was lost.
    pub tokens_made: u64,
    /// For how long the channel was this gateway's, of those of its cluster.
    pub turns: Duration,
}

impl Status {
    /// What they say now.
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

    /// Whether something waits for the channel.
    pub(crate) fn wants(&self) -> bool {
        self.wants.load(Relaxed)
    }

    /// Has a sign raised whenever that begins.
    pub(crate) fn watch_wants(&self, sign: Sign) {
        self.waker.set(sign).ok();
    }

    /// Something waits for the channel, or nothing does.
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

    /// Counts its sessions together with those of other links; to be called before there are any.
    pub(crate) fn share(&self, quota: Arc<dyn Quota>) {
        self.quota.set(quota).ok();
    }

    /// Returns true if there may be so many sessions, where `most` is the limit of this link alone.
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

    /// The link is over for good.
    pub(crate) fn over(&self) {
        self.over.store(true, Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// There is a link to go on with from now on, or none.
    pub(crate) fn keep(&self, is: bool) {
        self.kept.store(is, Relaxed);
    }

    /// Returns whether a peer that connects again finds its link.
    pub fn is_kept(&self) -> bool {
        self.kept.load(Relaxed)
    }

    /// The other gateway refuses this one, or does no longer.
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

    /// The cluster's token has been taken and made so often, and the channel is this gateway's for so much longer.
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

    /// Leave to have five sessions, and the numbers that were asked for.
    #[derive(Debug, Default)]
    struct Five(Mutex<Vec<usize>>);

    impl Quota for Five {
        fn may_have(&self, sessions: usize) -> bool {
            self.0.lock().unwrap().push(sessions);
            sessions <= 5
        }
    }

    #[test]
    fn a_link_asks_for_more_sessions_and_gives_back_those_that_ended() {
        let (quota, status) = (Arc::<Five>::default(), Status::default());
        assert!(
            status.may_have(9, 9) && !status.may_have(9, 8),
            "a limit of its own"
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
