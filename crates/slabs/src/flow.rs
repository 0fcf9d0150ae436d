//! Bytes of one session on one link, in both directions.
//!
//! [`Flow`] queues the pages of a session, cuts them into runs for slabs, and keeps the windows of
//! both sides. It sends no byte beyond the window of the peer. A record that is out of sequence or
//! beyond our own window is a violation.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::wire::Record;
use super::{Config, PeerMisbehaved};

/// Data of a session that waits to be sent, and windows of both directions.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Flow {
    /// First slabs (outgoing, incoming) whose records belong to the session. Earlier ones belong to a session that had
    /// the same ID.
    first_slabs: (u64, u64),
    /// Pages that wait for a slab.
    queue: VecDeque<Waiting>,
    queued_bytes: u64,
    /// Number of queued pages within the peer's window.
    fitting: usize,
    /// Offset of the end of these pages.
    fitting_end: u64,
    /// Offset of the first queued page within the session.
    offset: u64,
    /// End of the peer's window.
    limit: u64,
    /// Bytes in slabs that are not in the peer's custody.
    in_flight: u64,
    end: End,
    /// End of the window granted to the peer.
    allowed: u64,
    /// End of the bytes that the peer has announced.
    announced: u64,
    announced_end: bool,
    /// True if this side has custody of all bytes of the peer, up to the end.
    peer_ended: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    len: u32,
    since: Instant,
}

/// State of the end of the outgoing direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The end waits behind the queued pages, with the given digest.
    Queued(u64),
    Formed,
    Kept,
}

/// Consecutive pages of a session under one CRC. All are full except the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Offset of the first page within the session.
    pub offset: u64,
    /// Length of each page in bytes.
    pub lens: Vec<u32>,
    /// Digest of the outgoing direction of the session, if it ends in this record.
    pub end: Option<u64>,
}

impl Run {
    /// Returns the number of bytes.
    pub fn len(&self) -> u32 {
        self.lens.iter().sum()
    }

    /// True if the run has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }
}

impl Flow {
    /// Returns a session without data. `first_slabs` are the next slabs, outgoing and incoming.
    pub const fn new(config: &Config, first_slabs: (u64, u64)) -> Self {
        Self {
            first_slabs,
            queue: VecDeque::new(),
            queued_bytes: 0,
            fitting: 0,
            fitting_end: 0,
            offset: 0,
            limit: config.window as u64,
            in_flight: 0,
            end: End::Open,
            allowed: config.window as u64,
            announced: 0,
            announced_end: false,
            peer_ended: false,
        }
    }

    /// Returns the bytes that wait for a slab.
    pub const fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Returns the bytes in slabs that are not in the peer's custody.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Queues a page of `len` bytes. Panics after [`Flow::finish`].
    pub fn supply(&mut self, now: Instant, len: u32) {
        assert!(len > 0, "a page must not be empty");
        assert!(
            self.end == End::Open,
            "no page may follow the end of a session"
        );
        self.queue.push_back(Waiting { len, since: now });
        self.queued_bytes += u64::from(len);
        self.update_fitting();
    }

    /// Ends the outgoing direction of the session.
    pub fn finish(&mut self, digest: u64) {
        if self.end == End::Open {
            self.end = End::Queued(digest);
        }
    }

    /// Enlarges the peer's window.
    pub fn widen(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
        self.update_fitting();
    }

    /// Returns the bytes of the peer's window that are not yet queued.
    pub const fn gap(&self) -> u64 {
        self.limit.saturating_sub(self.offset + self.queued_bytes)
    }

    fn update_fitting(&mut self) {
        while let Some(page) = self.queue.get(self.fitting) {
            let end = self.fitting_end + u64::from(page.len);
            if end > self.limit {
                break;
            }
            (self.fitting, self.fitting_end) = (self.fitting + 1, end);
        }
    }

    /// Returns the number of pages that can be sent.
    pub const fn pages(&self) -> u64 {
        self.fitting as u64
    }

    /// True if pages or the end can be sent now.
    pub fn is_ready(&self) -> bool {
        self.fitting > 0 || self.queue.is_empty() && matches!(self.end, End::Queued(_))
    }

    /// Returns the time at which the first page was queued.
    pub fn since(&self) -> Option<Instant> {
        self.queue.front().map(|page| page.since)
    }

    /// True if the session has so little data that it can go first without delaying other sessions much.
    pub fn is_urgent(&self) -> bool {
        self.queued_bytes + self.in_flight <= URGENT_BYTES
    }

    /// Takes up to `most` pages, and the end if it follows them.
    pub fn take(&mut self, most: u64, page_len: u32) -> Vec<Run> {
        let count = most.min(self.pages());
        self.fitting -= count as usize;
        let mut runs: Vec<Run> = Vec::new();
        for page in self.queue.drain(..count as usize) {
            match runs.last_mut() {
                Some(run)
                    if run.lens.last() == Some(&page_len) && run.lens.len() < RUN_PAGES_MAX =>
                {
                    run.lens.push(page.len);
                }
                _ => runs.push(Run {
                    offset: self.offset,
                    lens: [page.len].into(),
                    end: None,
                }),
            }
            self.offset += u64::from(page.len);
            self.queued_bytes -= u64::from(page.len);
            self.in_flight += u64::from(page.len);
        }
        if let End::Queued(digest) = self.end
            && self.queue.is_empty()
        {
            self.end = End::Formed;
            match runs.last_mut() {
                Some(run) => run.end = Some(digest),
                None => runs.push(Run {
                    offset: self.offset,
                    lens: Vec::new(),
                    end: Some(digest),
                }),
            }
        }
        runs
    }

    /// Records that the peer has taken custody of a record.
    pub fn kept(&mut self, slab: u64, record: &Record) {
        if slab < self.first_slabs.0 {
            return;
        }
        self.in_flight -= u64::from(record.len);
        if record.end.is_some() {
            self.end = End::Kept;
        }
    }

    /// Records that the peer announced a record. Fails if the record is out of sequence or beyond the window.
    pub fn announce(&mut self, record: &Record) -> Result<(), PeerMisbehaved> {
        let till = record.offset + u64::from(record.len);
        if self.announced_end || record.offset != self.announced || till > self.allowed {
            return Err(PeerMisbehaved::Overrun);
        }
        self.announced = till;
        self.announced_end = record.end.is_some();
        Ok(())
    }

    /// Records that this side has taken custody of a record.
    pub const fn take_custody(&mut self, slab: u64, record: &Record) {
        self.peer_ended |= slab >= self.first_slabs.1 && record.end.is_some();
    }

    /// Enlarges the window granted to the peer. Returns true if it grew.
    pub fn allow(&mut self, limit: u64) -> bool {
        let is_news = limit > self.allowed;
        self.allowed = self.allowed.max(limit);
        is_news
    }

    /// Returns the end of the window granted to the peer.
    pub const fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Returns the bytes granted beyond the first `window` that have not been announced.
    pub fn promised(&self, window: u64) -> u64 {
        let left = self.allowed - self.announced;
        left.saturating_sub(window)
    }

    /// True if both directions have ended.
    pub fn is_over(&self) -> bool {
        self.end == End::Kept && self.peer_ended
    }
}

/// Maximum number of bytes waiting or in flight for a session that goes first.
const URGENT_BYTES: u64 = 16 << 10;
/// Maximum number of pages under one CRC (a megabyte), the unit of retransmission after a mismatch.
const RUN_PAGES_MAX: usize = 16;
