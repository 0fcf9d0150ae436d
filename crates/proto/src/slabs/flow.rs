//! One session's bytes over one link, in both directions.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lighthaul_base::Instant;

use super::wire::Record;
use super::{Config, PeerMisbehaved};

/// What waits to be sent, and what may come.
#[derive(Debug)]
pub struct Flow {
    /// The slabs from which on records that bear its name are its own, going out and coming in: a name may have been another's.
    first_slabs: (u64, u64),
    /// Pages that wait for a slab.
    queue: VecDeque<Waiting>,
    queued_bytes: u64,
    /// How many of them the peer has a place for, and where they end.
    fitting: usize,
    fitting_end: u64,
    /// Where the first of them begins in what the session says.
    offset: u64,
    /// How far the peer has a place.
    limit: u64,
    /// Bytes in slabs that are not kept.
    in_flight: u64,
    end: End,
    /// How far it may come, and how far that was announced.
    allowed: u64,
    announced: u64,
    announced_end: bool,
    /// What came is all in our custody, to the end.
    heard_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    len: u32,
    since: Instant,
}

/// How far what we say has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// With this digest, behind what is queued.
    Said(u64),
    Formed,
    Kept,
}

/// What a session has in a slab under one CRC: pages, all full but the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they begin in what the session says.
    pub offset: u64,
    /// How long each is.
    pub lens: Vec<u32>,
    /// With nothing behind them: the digest of all.
    pub end: Option<u64>,
}

impl Run {
    /// Bytes of it.
    pub fn len(&self) -> u32 {
        self.lens.iter().sum()
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.lens.is_empty()
    }
}

impl Flow {
    /// A session that has said nothing, before these slabs are formed and announced.
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
            heard_out: false,
        }
    }

    /// Bytes that wait for a slab.
    pub const fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }

    /// Bytes in slabs that are not kept.
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// A page of `len` bytes waits.
    pub fn supply(&mut self, now: Instant, len: u32) {
        assert!(len > 0, "a page has bytes");
        assert!(
            self.end == End::Open,
            "nothing is said behind the end of a session"
        );
        self.queue.push_back(Waiting { len, since: now });
        self.queued_bytes += u64::from(len);
        self.fit();
    }

    /// Nothing more will.
    pub fn finish(&mut self, digest: u64) {
        if self.end == End::Open {
            self.end = End::Said(digest);
        }
    }

    /// Hears how far the peer has a place.
    pub fn widen(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
        self.fit();
    }

    /// Bytes that the peer has a place for besides those that wait.
    pub const fn gap(&self) -> u64 {
        self.limit.saturating_sub(self.offset + self.queued_bytes)
    }

    fn fit(&mut self) {
        while let Some(page) = self.queue.get(self.fitting) {
            let end = self.fitting_end + u64::from(page.len);
            if end > self.limit {
                break;
            }
            (self.fitting, self.fitting_end) = (self.fitting + 1, end);
        }
    }

    /// How many pages could be taken.
    pub const fn pages(&self) -> u64 {
        self.fitting as u64
    }

    /// Whether it has something to say now.
    pub fn is_ready(&self) -> bool {
        self.fitting > 0 || self.queue.is_empty() && matches!(self.end, End::Said(_))
    }

    /// Since when the first page waits.
    pub fn since(&self) -> Option<Instant> {
        self.queue.front().map(|page| page.since)
    }

    /// Whether it says so little that nobody would notice if it went first.
    pub fn is_urgent(&self) -> bool {
        self.queued_bytes + self.in_flight <= URGENT_BYTES
    }

    /// Takes at most so many pages, and the end if it is behind them.
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
        if let End::Said(digest) = self.end
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

    /// A record that bears its name is kept.
    pub fn kept(&mut self, slab: u64, record: &Record) {
        if slab < self.first_slabs.0 {
            return;
        }
        self.in_flight -= u64::from(record.len);
        if record.end.is_some() {
            self.end = End::Kept;
        }
    }

    /// The peer announces a record.
    pub fn announce(&mut self, record: &Record) -> Result<(), PeerMisbehaved> {
        let till = record.offset + u64::from(record.len);
        if self.announced_end || record.offset != self.announced || till > self.allowed {
            return Err(PeerMisbehaved::Overrun);
        }
        self.announced = till;
        self.announced_end = record.end.is_some();
        Ok(())
    }

    /// A record that bears its name is in our custody.
    pub const fn take_custody(&mut self, slab: u64, record: &Record) {
        self.heard_out |= slab >= self.first_slabs.1 && record.end.is_some();
    }

    /// How far it may come now; answers whether that is news.
    pub fn allow(&mut self, limit: u64) -> bool {
        let is_news = limit > self.allowed;
        self.allowed = self.allowed.max(limit);
        is_news
    }

    /// How far it may come.
    pub const fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Bytes that were promised a place besides the first `window`, and have not come.
    pub fn promised(&self, window: u64) -> u64 {
        let left = self.allowed - self.announced;
        left.saturating_sub(window)
    }

    /// Whether both directions are over.
    pub fn is_over(&self) -> bool {
        self.end == End::Kept && self.heard_out
    }
}

/// What a session may have waiting and under way and still go first.
const URGENT_BYTES: u64 = 16 << 10;
/// Pages that have one CRC, a megabyte of them: what is sent again if an octet is not what it was.
const RUN_PAGES_MAX: usize = 16;
