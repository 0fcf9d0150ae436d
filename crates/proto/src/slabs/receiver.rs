//! One direction's receiving side: which packets came, which are missing, and which records are whole.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Instant, Span};

use super::config::{PAGE_PACKETS, PAGES_MAX};
use super::sender::Part;
use super::wire::{NUMBERS, Packet, RANGES_MAX, Record};
use super::{Config, PeerMisbehaved};
use crate::parts::LossList;

/// Places what comes, finds out what is missing, and says which records are whole.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    /// The number of the first page.
    first: u64,
    /// Pages from the first that is not kept.
    pages: VecDeque<Page>,
    next_slab: u64,
    /// The first page of the slab that is announced next.
    next_page: u64,
    slabs: BTreeMap<u64, Slab>,
    /// Pages below this one have a place, and what the sender was told of that.
    granted: u64,
    told_granted: u64,
    /// Pages whose bytes have gone on.
    freed: u64,
    /// Turns below this one are over.
    turns: u64,
    lost: LossList,
    /// When what is missing is told, if that does not come after all.
    nak_at: Option<Instant>,
    /// When what came is told.
    ack_at: Option<Instant>,
    told: u64,
    question: Option<Question>,
    datagrams: u64,
    duplicates: u64,
    ignored: u64,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// A bit for each packet that came.
    came: u64,
    /// The slab it is of, which record, and its length; nothing before the slab is announced.
    known: Option<Known>,
    kept: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    slab: u64,
    nth: u32,
    len: u32,
}

#[derive(Debug)]
struct Slab {
    parts: Vec<Part>,
    /// Of each record, pages that are not whole.
    missing: Vec<u32>,
    /// Records that are not kept.
    left: u32,
}

/// A question that waits for datagrams on their way.
#[derive(Clone, Copy, Debug)]
struct Question {
    turns: u64,
    at: Instant,
    latest: Instant,
}

/// A record all of whose bytes came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Its slab.
    pub slab: u64,
    /// Which of its records.
    pub nth: u32,
    /// What it is, and where its bytes are.
    pub part: Part,
}

impl Receiver {
    /// A receiver that nothing has come to.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            first: 0,
            pages: VecDeque::new(),
            next_slab: 0,
            next_page: 0,
            slabs: BTreeMap::new(),
            granted: config.pages_max as u64,
            told_granted: 0,
            freed: 0,
            turns: 0,
            lost: LossList::new(LOSSES_MAX),
            nak_at: None,
            ack_at: None,
            told: 0,
            question: None,
            datagrams: 0,
            duplicates: 0,
            ignored: 0,
        }
    }

    /// Datagrams that came.
    pub const fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Packets that came again.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Datagrams that made no sense.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// All pages below this number are kept.
    pub const fn first_page(&self) -> u64 {
        self.first
    }

    /// Pages for which there is memory, and of which nothing was announced.
    pub fn room(&self) -> u64 {
        let used = self.next_page.saturating_sub(self.freed);
        u64::from(self.config.pages_max).saturating_sub(used)
    }

    /// The number of the slab that is announced next.
    pub const fn next_slab(&self) -> u64 {
        self.next_slab
    }

    /// Slabs that are announced and not all here.
    pub fn open_slabs(&self) -> usize {
        self.slabs.len()
    }

    /// Takes a datagram; answers where its body belongs if it is new, and tells of the record that it completes.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        head: &[u8],
        len: u32,
        whole: &mut impl FnMut(Whole),
    ) -> Option<Span> {
        self.datagrams += 1;
        let first = self.first * PAGE_PACKETS;
        let Ok(packet) = Packet::decode(head, self.turns, first) else {
            self.ignored += 1;
            return None;
        };
        self.follow(now, packet.turn);
        self.ack_at.get_or_insert(now + self.config.ack_every);
        let (page, bit) = (packet.number / PAGE_PACKETS, packet.number % PAGE_PACKETS);
        if page >= self.granted || len == 0 || len > self.config.packet_len {
            self.ignored += 1;
            return None;
        }
        let most = self.config.packet_len;
        let fits = |known: Known| len == packet_len(known.len, bit as u32, most);
        let Some(state) = self.page(page) else {
            self.duplicates += 1;
            return None;
        };
        if !state.known.is_none_or(fits) {
            self.ignored += 1;
            return None;
        }
        if state.came >> bit & 1 == 1 {
            self.duplicates += 1;
            return None;
        }
        state.came |= 1 << bit;
        if let Some(known) = state.known {
            self.look(page, known, whole);
        }
        Some(Span::new(packet.number * u64::from(most), len))
    }

    /// Takes the announcement of a slab.
    pub fn handle_slab(
        &mut self,
        slab: u64,
        first: u64,
        records: Vec<Record>,
        whole: &mut impl FnMut(Whole),
    ) -> Result<(), PeerMisbehaved> {
        let wrong = PeerMisbehaved::Slab(slab);
        if slab != self.next_slab || first != self.next_page {
            return Err(wrong);
        }
        let page_len = self.config.page_len();
        let mut parts = Vec::with_capacity(records.len());
        let mut page = first;
        for record in records {
            let from = page;
            page += u64::from(record.len.div_ceil(page_len));
            if page > self.granted {
                return Err(wrong);
            }
            parts.push(Part {
                record,
                pages: from..page,
            });
        }
        (self.next_slab, self.next_page) = (slab + 1, page);
        let missing = parts
            .iter()
            .map(|part| (part.pages.end - part.pages.start) as u32)
            .collect();
        let left = parts.len() as u32;
        let announced: Vec<Part> = parts.clone();
        self.slabs.insert(
            slab,
            Slab {
                parts,
                missing,
                left,
            },
        );
        for (nth, part) in announced.into_iter().enumerate() {
            self.announce(slab, nth as u32, &part, whole);
        }
        Ok(())
    }

    /// The owner's verdict on a record that is whole: it has custody of it, or its bytes are not what they should be. Answers whether
    /// that was the slab's last.
    pub fn judge(&mut self, slab: u64, nth: u32, good: bool) -> bool {
        let Some(held) = self.slabs.get_mut(&slab) else {
            return false;
        };
        let pages = held.parts[nth as usize].pages.clone();
        if good {
            held.left -= 1;
        } else {
            held.missing[nth as usize] = (pages.end - pages.start) as u32;
        }
        let is_last = held.left == 0;
        for page in pages {
            if let Some(state) = self.page(page) {
                state.kept = good;
                state.came = 0;
            }
        }
        if is_last {
            self.slabs.remove(&slab);
        }
        while self.pages.front().is_some_and(|page| page.kept) {
            self.pages.pop_front();
            self.first += 1;
        }
        self.grant();
        is_last
    }

    /// So many pages' bytes have gone on.
    pub fn free(&mut self, pages: u64) {
        self.freed += pages;
        self.grant();
    }

    /// Hears how many turns there were.
    pub fn handle_question(&mut self, now: Instant, turns: u64) {
        if turns < self.turns {
            // datagrams have overtaken it
            return;
        }
        let settle = if turns == self.turns && self.lost.is_empty() {
            Duration::ZERO
        } else {
            self.config.settle
        };
        self.question = Some(Question {
            turns,
            at: now + settle,
            latest: now + self.config.settle * SETTLES_MAX,
        });
    }

    /// What is to be said of turns now, if anything: below which all are over, and which were lost.
    pub fn poll_report(&mut self, now: Instant) -> Option<(u64, Vec<Range<u64>>)> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if is_due(self.question.map(|question| question.at)) {
            let asked = self.question.take()?.turns;
            self.expect(asked);
            self.nak_at = Some(now);
            self.ack_at = Some(now);
        }
        let naks = is_due(self.nak_at) && !self.lost.is_empty();
        if is_due(self.nak_at) {
            self.nak_at = None;
        }
        if is_due(self.ack_at) {
            self.ack_at = None;
        } else if !naks {
            return None;
        }
        let lost: Vec<Range<u64>> = if naks {
            self.lost.ranges().take(RANGES_MAX).collect()
        } else {
            Vec::new()
        };
        let told = lost.last().map_or(0, |range| range.end);
        self.lost.remove_below(told);
        if naks && !self.lost.is_empty() {
            self.nak_at = Some(now);
        }
        let below = self.lost.first().unwrap_or(self.turns);
        if !naks && below == self.told {
            return None;
        }
        self.told = below;
        Some((below, lost))
    }

    /// For how many pages there is a place, if that should be told.
    pub fn poll_credit(&mut self) -> Option<u64> {
        let news = self.granted - self.told_granted;
        if news < u64::from(self.config.pages_max / CREDIT_PART).max(1) {
            return None;
        }
        self.told_granted = self.granted;
        Some(self.granted)
    }

    /// When something is to be said.
    pub fn due(&self) -> Option<Instant> {
        let question = self.question.map(|question| question.at);
        [self.nak_at, self.ack_at, question]
            .into_iter()
            .flatten()
            .min()
    }

    /// Notes what is missing by what has come: a channel keeps order.
    fn follow(&mut self, now: Instant, turn: u64) {
        if turn >= self.turns {
            if turn > self.turns {
                self.nak_at.get_or_insert(now + self.config.settle);
            }
            if self.expect(turn) {
                self.turns = turn + 1;
            }
        } else if !self.lost.is_empty() {
            self.lost.remove(turn);
        }
        if let Some(question) = &mut self.question
            && turn < question.turns
        {
            // a host that was busy has more of them in its socket
            question.at = (now + self.config.settle).min(question.latest);
        }
    }

    /// Counts the turns below `turn` that did not come as lost; answers whether there was room to remember them. If not,
    /// they are looked at again with what comes next.
    fn expect(&mut self, turn: u64) -> bool {
        let has_room = turn <= self.turns || self.lost.insert(self.turns..turn).is_some();
        if has_room {
            self.turns = self.turns.max(turn);
        }
        has_room
    }

    /// A page that is not kept, if there can be such a one.
    fn page(&mut self, page: u64) -> Option<&mut Page> {
        let nth = page.checked_sub(self.first)? as usize;
        if nth >= self.pages.len() {
            self.pages.resize(nth + 1, Page::default());
        }
        Some(&mut self.pages[nth]).filter(|page| !page.kept)
    }

    fn announce(&mut self, slab: u64, nth: u32, part: &Part, whole: &mut impl FnMut(Whole)) {
        let mut left = part.record.len;
        for page in part.pages.clone() {
            let len = left.min(self.config.page_len());
            left -= len;
            let known = Known { slab, nth, len };
            let all = full(self.config.packets_in(len));
            if let Some(state) = self.page(page) {
                state.known = Some(known);
                // what is beyond its end has no place
                state.came &= all;
                self.look(page, known, whole);
            }
        }
        if part.pages.is_empty() {
            whole(Whole {
                slab,
                nth,
                part: part.clone(),
            });
        }
    }

    /// Tells of a record whose last page has become whole.
    fn look(&mut self, page: u64, known: Known, whole: &mut impl FnMut(Whole)) {
        let all = full(self.config.packets_in(known.len));
        if self.page(page).is_none_or(|state| state.came != all) {
            return;
        }
        let Some(slab) = self.slabs.get_mut(&known.slab) else {
            return;
        };
        let missing = &mut slab.missing[known.nth as usize];
        *missing -= 1;
        if *missing == 0 {
            whole(Whole {
                slab: known.slab,
                nth: known.nth,
                part: slab.parts[known.nth as usize].clone(),
            });
        }
    }

    /// Gives the sender what has become free, unless a page far behind is still missing.
    fn grant(&mut self) {
        let most = u64::from(self.config.pages_max);
        let by_memory = self.freed + most;
        let by_order = self.first + most * SPREAD_MAX;
        self.granted = self.granted.max(by_memory.min(by_order));
    }
}

/// Bytes of packet `nth` of a page of `page_len`; none behind its end.
fn packet_len(page_len: u32, nth: u32, most: u32) -> u32 {
    page_len.saturating_sub(nth * most).min(most)
}

/// A bit for each of so many packets.
const fn full(packets: u64) -> u64 {
    (1 << packets) - 1
}

/// Ranges of lost turns that are remembered; what overflows is found when the sender asks.
const LOSSES_MAX: usize = 1 << 16;
/// For how long datagrams may go on coming before a question is answered, in times of settling.
const SETTLES_MAX: u32 = 100;
/// A credit is told once this part of the room has become free.
const CREDIT_PART: u32 = 16;
/// How far pages may be ahead of the first that is missing, in times of the room there is.
const SPREAD_MAX: u64 = 4;
// when a straggler comes, the first that is missing moves by all that has a place, and what comes late from there must not be
// taken for what has a place then
const _: () = assert!(2 * SPREAD_MAX * PAGES_MAX as u64 * PAGE_PACKETS <= NUMBERS);
