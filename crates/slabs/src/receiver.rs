//! Receiving side of one direction: [`Receiver`] records arriving packets, losses, and complete records.
//!
//! Packets may arrive before their slab is announced. A record whose packets have all arrived is passed to the owner as
//! [`CompleteRecord`]. A slab is in custody when the owner has accepted all of its records. Credit grows as pages are
//! freed.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Instant, Span};
use lighthaul_parts::LossList;

use super::config::{PAGE_PACKETS, PAGES_MAX};
use super::sender::RecordPages;
use super::wire::{NUMBERS, Packet, RANGES_MAX, Record};
use super::{Config, PeerMisbehaved};

/// State machine of the receiving side. It places packets, detects losses, and reports complete records.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Receiver {
    config: Config,
    /// Number of the first entry of `pages`.
    first: u64,
    /// Pages from the first one that is not in custody.
    pages: VecDeque<Page>,
    next_slab: u64,
    /// First page of the next slab to be announced.
    next_page: u64,
    slabs: BTreeMap<u64, Slab>,
    /// Last sent value of the first page without credit.
    granted: u64,
    told_granted: u64,
    /// Number of pages whose bytes were delivered.
    freed: u64,
    /// First turn that has not been considered yet.
    turns: u64,
    lost: LossList,
    /// Time at which losses are reported, unless the datagrams arrive before.
    nak_at: Option<Instant>,
    /// Time at which arrivals are reported.
    ack_at: Option<Instant>,
    told: u64,
    question: Option<Question>,
    datagrams: u64,
    duplicates: u64,
    ignored: u64,
}

/// State of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Bit mask of the packets that have arrived.
    came: u64,
    /// Slab, record and length of the page; `None` before the slab is announced.
    known: Option<KnownPage>,
    kept: bool,
}

#[derive(Clone, Copy, Debug)]
struct KnownPage {
    slab: u64,
    nth: u32,
    len: u32,
}

/// Records of a slab that are not in custody, by their index. Credit bounds their number, since each has pages: a
/// record without bytes is complete at once.
type Slab = BTreeMap<u32, OpenRecord>;

#[derive(Debug)]
struct OpenRecord {
    part: RecordPages,
    /// Number of incomplete pages.
    missing: u32,
}

impl OpenRecord {
    const fn new(part: RecordPages) -> Self {
        Self {
            missing: (part.pages.end - part.pages.start) as u32,
            part,
        }
    }
}

/// Question whose answer waits for datagrams in flight.
#[derive(Clone, Copy, Debug)]
struct Question {
    turns: u64,
    at: Instant,
    latest: Instant,
}

/// Record whose bytes have all arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompleteRecord {
    /// Slab number.
    pub slab: u64,
    /// Index of the record in the slab.
    pub nth: u32,
    /// Record and its pages.
    pub part: RecordPages,
}

impl Receiver {
    /// Returns a receiver without data.
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

    /// Returns the number of datagrams received.
    pub const fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Returns the number of duplicate packets received.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Returns the number of datagrams that were ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the first page that is not in custody.
    pub const fn first_page(&self) -> u64 {
        self.first
    }

    /// Returns the number of pages that can be stored and are not announced.
    pub fn room(&self) -> u64 {
        let used = self.next_page.saturating_sub(self.freed);
        u64::from(self.config.pages_max).saturating_sub(used)
    }

    /// Returns the number of the next slab to be announced.
    pub const fn next_slab(&self) -> u64 {
        self.next_slab
    }

    /// Returns the number of slabs that are announced and incomplete.
    pub fn open_slabs(&self) -> usize {
        self.slabs.len()
    }

    /// Handles a datagram. Returns the span of its body if it is new, and passes a record that it completes to
    /// `whole`.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        head: &[u8],
        len: u32,
        whole: &mut impl FnMut(CompleteRecord),
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
        let fits = |known: KnownPage| len == packet_len(known.len, bit as u32, most);
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

    /// Handles the announcement of a slab. Records that are already complete are passed to `whole`.
    pub fn handle_slab(
        &mut self,
        slab: u64,
        first: u64,
        records: Vec<Record>,
        whole: &mut impl FnMut(CompleteRecord),
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
            parts.push(RecordPages {
                record,
                pages: from..page,
            });
        }
        (self.next_slab, self.next_page) = (slab + 1, page);
        let announced: Vec<RecordPages> = parts.clone();
        let open = (0..).zip(parts.into_iter().map(OpenRecord::new));
        self.slabs.insert(slab, open.collect());
        for (nth, part) in announced.into_iter().enumerate() {
            self.announce(slab, nth as u32, &part, whole);
        }
        Ok(())
    }

    /// Takes the owner's verdict on a complete record: custody (`good`), or a CRC mismatch. Returns true if it was
    /// the last record of the slab.
    pub fn judge(&mut self, slab: u64, nth: u32, good: bool) -> bool {
        let Some(held) = self.slabs.get_mut(&slab) else {
            return false;
        };
        let Some(record) = held.get_mut(&nth) else {
            return false;
        };
        let pages = record.part.pages.clone();
        if good {
            held.remove(&nth);
        } else {
            record.missing = (pages.end - pages.start) as u32;
        }
        let is_last = held.is_empty();
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

    /// Releases the memory of `pages` pages whose bytes were delivered.
    pub fn free(&mut self, pages: u64) {
        self.freed += pages;
        self.grant();
    }

    /// Handles a question: the sender has used `turns` turns.
    pub fn handle_question(&mut self, now: Instant, turns: u64) {
        if turns < self.turns {
            // later datagrams have overtaken the question
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

    /// Returns the report that is due, if any: the first turn that may still arrive, and the lost turns.
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

    /// Returns the first page without credit if it should be sent.
    pub fn poll_credit(&mut self) -> Option<u64> {
        let news = self.granted - self.told_granted;
        if news < u64::from(self.config.pages_max / CREDIT_PART).max(1) {
            return None;
        }
        self.told_granted = self.granted;
        Some(self.granted)
    }

    /// Returns the time of the next report.
    pub fn due(&self) -> Option<Instant> {
        let question = self.question.map(|question| question.at);
        [self.nak_at, self.ack_at, question]
            .into_iter()
            .flatten()
            .min()
    }

    /// Detects losses from a datagram: the channel keeps order, so skipped turns are lost.
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
            // a busy host may have more datagrams in its socket
            question.at = (now + self.config.settle).min(question.latest);
        }
    }

    /// Records the turns below `turn` that have not arrived as lost. Returns false if the loss list is full. Then the
    /// next datagram records them again.
    fn expect(&mut self, turn: u64) -> bool {
        let has_room = turn <= self.turns || self.lost.insert(self.turns..turn).is_some();
        if has_room {
            self.turns = self.turns.max(turn);
        }
        has_room
    }

    /// Returns a page, or `None` if the page is in custody.
    fn page(&mut self, page: u64) -> Option<&mut Page> {
        let nth = page.checked_sub(self.first)? as usize;
        if nth >= self.pages.len() {
            self.pages.resize(nth + 1, Page::default());
        }
        Some(&mut self.pages[nth]).filter(|page| !page.kept)
    }

    fn announce(
        &mut self,
        slab: u64,
        nth: u32,
        part: &RecordPages,
        whole: &mut impl FnMut(CompleteRecord),
    ) {
        let mut left = part.record.len;
        for page in part.pages.clone() {
            let len = left.min(self.config.page_len());
            left -= len;
            let known = KnownPage { slab, nth, len };
            let all = full(self.config.packets_in(len));
            if let Some(state) = self.page(page) {
                state.known = Some(known);
                // discard packets beyond the end of the page
                state.came &= all;
                self.look(page, known, whole);
            }
        }
        if part.pages.is_empty() {
            whole(CompleteRecord {
                slab,
                nth,
                part: part.clone(),
            });
        }
    }

    /// Reports a record whose last page is complete.
    fn look(&mut self, page: u64, known: KnownPage, whole: &mut impl FnMut(CompleteRecord)) {
        let all = full(self.config.packets_in(known.len));
        if self.page(page).is_none_or(|state| state.came != all) {
            return;
        }
        let slab = self.slabs.get_mut(&known.slab);
        let Some(record) = slab.and_then(|slab| slab.get_mut(&known.nth)) else {
            return;
        };
        record.missing -= 1;
        if record.missing == 0 {
            whole(CompleteRecord {
                slab: known.slab,
                nth: known.nth,
                part: record.part.clone(),
            });
        }
    }

    /// Grants credit for free pages, unless a much earlier page is still missing.
    fn grant(&mut self) {
        let most = u64::from(self.config.pages_max);
        let by_memory = self.freed + most;
        let by_order = self.first + most * SPREAD_MAX;
        self.granted = self.granted.max(by_memory.min(by_order));
    }
}

/// Returns the length of packet `nth` of a page of `page_len` bytes. It is zero beyond the end.
fn packet_len(page_len: u32, nth: u32, most: u32) -> u32 {
    page_len.saturating_sub(nth * most).min(most)
}

/// Returns a bit mask of `packets` packets.
const fn full(packets: u64) -> u64 {
    (1 << packets) - 1
}

/// Maximum number of ranges of lost turns. Losses beyond that are found by a question.
const LOSSES_MAX: usize = 1 << 16;
/// Maximum wait before the answer to a question, as a multiple of the settle time.
const SETTLES_MAX: u32 = 100;
/// Credit is sent once this fraction (1/16) of the pages has become free.
const CREDIT_PART: u32 = 16;
/// Maximum distance of a page from the first missing page, as a multiple of the pages that can be stored.
const SPREAD_MAX: u64 = 4;
// a late packet can advance the first missing page by all pages with credit; a still later packet from before must
// not be mistaken for one with credit then
const _: () = assert!(2 * SPREAD_MAX * PAGES_MAX as u64 * PAGE_PACKETS <= NUMBERS);

#[cfg(test)]
mod tests {
    use super::super::SessionId;
    use super::super::config::EXAMPLE;
    use super::*;

    /// Pages of 44 packets of 10 bytes; losses settle within 2 ms and acknowledgments go out every 10 ms.
    fn receiver() -> Receiver {
        Receiver::new(Config {
            packet_len: 10,
            pages_max: 16,
            ..EXAMPLE
        })
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        core::iter::once(range).collect()
    }

    fn hear(receiver: &mut Receiver, micros: u64, turn: u64) {
        let head = Packet { turn, number: 0 }.encode();
        receiver.handle_datagram(at(micros), &head, 10, &mut |_| {});
    }

    /// Takes `len` bytes of packet `number`. Returns whether they have a place and complete a record.
    fn place(receiver: &mut Receiver, number: u64, len: u32) -> (bool, bool) {
        let turn = receiver.turns;
        let (head, mut whole) = (Packet { turn, number }.encode(), false);
        let place = receiver.handle_datagram(Instant::ZERO, &head, len, &mut |_| whole = true);
        (place.is_some(), whole)
    }

    fn announce(receiver: &mut Receiver, len: u32) -> Result<(), PeerMisbehaved> {
        let record = Record {
            session: SessionId([0; 16]),
            offset: 0,
            len,
            crc: 0,
            end: None,
        };
        let (slab, first) = (receiver.next_slab, receiver.next_page);
        receiver.handle_slab(slab, first, [record].into(), &mut |_| {})
    }

    #[test]
    fn datagrams_without_a_place_are_ignored() {
        let mut receiver = receiver();
        let none = &mut |_| {};
        assert_eq!(receiver.handle_datagram(at(0), &[0; 7], 10, none), None);
        assert_eq!((receiver.datagrams(), receiver.ignored()), (1, 1));
        for (number, len, has_place) in [
            (16 * PAGE_PACKETS, 10, false),
            (16 * PAGE_PACKETS - 1, 0, false),
            (16 * PAGE_PACKETS - 1, 11, false),
            (16 * PAGE_PACKETS - 1, 10, true),
            (16 * PAGE_PACKETS - 2, 1, true),
        ] {
            let ignored = receiver.ignored() + u64::from(!has_place);
            assert_eq!(place(&mut receiver, number, len), (has_place, false));
            assert_eq!(receiver.ignored(), ignored, "{len} bytes of {number}");
        }
        assert_eq!((receiver.datagrams(), receiver.duplicates()), (6, 0));
    }

    #[test]
    fn packets_of_an_announced_page_have_their_lengths() {
        let mut receiver = receiver();
        assert_eq!(place(&mut receiver, 3, 10), (true, false));
        announce(&mut receiver, 25).unwrap();
        for (number, len, expected) in [
            (0, 9, (false, false)),
            (0, 10, (true, false)),
            (2, 10, (false, false)),
            (2, 5, (true, false)),
            (3, 10, (false, false)),
            (1, 10, (true, true)),
            (1, 10, (false, false)),
        ] {
            let placed = place(&mut receiver, number, len);
            assert_eq!(placed, expected, "{len} bytes of packet {number}");
        }
        assert_eq!((receiver.ignored(), receiver.duplicates()), (3, 1));
    }

    #[test]
    fn record_in_custody_is_judged_once() {
        let mut receiver = receiver();
        announce(&mut receiver, 5).unwrap();
        assert_eq!(place(&mut receiver, 0, 5), (true, true));
        assert!(!receiver.judge(0, 0, false));
        assert_eq!(place(&mut receiver, 0, 5), (true, true));
        assert!(receiver.judge(0, 0, true));
        assert!(!receiver.judge(0, 0, true));
        assert_eq!((receiver.first_page(), receiver.open_slabs()), (1, 0));
    }

    #[test]
    fn records_without_bytes_use_no_memory_after_their_verdict() {
        let mut receiver = receiver();
        let record = |len, end| Record {
            session: SessionId([0; 16]),
            offset: 0,
            len,
            crc: 0,
            end,
        };
        let mut records: Vec<Record> = (0..1000).map(|_| record(0, Some(0))).collect();
        records.push(record(5, None));
        let mut told = Vec::new();
        let heard = receiver.handle_slab(0, 0, records, &mut |whole| told.push(whole));
        assert_eq!((heard, told.len()), (Ok(()), 1000));
        for whole in told {
            assert!(!receiver.judge(0, whole.nth, true));
        }
        assert_eq!(receiver.slabs[&0].len(), 1);
        assert_eq!(place(&mut receiver, 0, 5), (true, true));
        assert!(receiver.judge(0, 1000, true));
    }

    #[test]
    fn missing_page_stops_credit_at_four_times_the_memory() {
        let mut receiver = receiver();
        announce(&mut receiver, 10).unwrap();
        while announce(&mut receiver, 10).is_ok() {
            let page = receiver.next_page - 1;
            assert_eq!(place(&mut receiver, page * PAGE_PACKETS, 10), (true, true));
            assert!(receiver.judge(page, 0, true));
            receiver.free(1);
        }
        assert_eq!((receiver.next_page, receiver.poll_credit()), (64, Some(64)));
        assert_eq!(place(&mut receiver, 0, 10), (true, true));
        assert!(receiver.judge(0, 0, true));
        receiver.free(1);
        assert_eq!(
            (receiver.first_page(), receiver.poll_credit()),
            (64, Some(80))
        );
    }

    #[test]
    fn credit_is_sent_in_sixteenths_of_the_memory() {
        let mut receiver = Receiver::new(Config {
            pages_max: 64,
            ..EXAMPLE
        });
        let mut told = Vec::new();
        for _ in 0..10 {
            told.push(receiver.poll_credit());
            receiver.free(1);
        }
        let due = |nth: u64| nth.is_multiple_of(4).then_some(64 + nth);
        assert_eq!(told, (0..10).map(due).collect::<Vec<_>>());
    }

    #[test]
    fn arrivals_are_acknowledged_every_ten_milliseconds() {
        let mut receiver = receiver();
        assert_eq!(receiver.due(), None);
        hear(&mut receiver, 500, 0);
        hear(&mut receiver, 600, 1);
        assert_eq!(receiver.due(), Some(at(10_500)));
        assert_eq!(receiver.poll_report(at(10_499)), None);
        assert_eq!(receiver.poll_report(at(10_500)), Some((2, Vec::new())));
        assert_eq!(
            (receiver.poll_report(at(10_500)), receiver.due()),
            (None, None)
        );
        // an unchanged state is not reported
        hear(&mut receiver, 11_000, 1);
        assert_eq!(receiver.due(), Some(at(21_000)));
        assert_eq!(
            (receiver.poll_report(at(21_000)), receiver.due()),
            (None, None)
        );
    }

    #[test]
    fn gap_is_a_loss_after_the_reordering_time() {
        let mut receiver = receiver();
        hear(&mut receiver, 0, 0);
        hear(&mut receiver, 1000, 3);
        assert_eq!(receiver.due(), Some(at(3000)));
        assert_eq!(receiver.poll_report(at(2999)), None);
        let lost = Some((4, one(1..3)));
        assert_eq!(receiver.poll_report(at(3000)), lost);
        assert_eq!(receiver.poll_report(at(10_000)), None);
        // a packet that comes in time is not lost
        hear(&mut receiver, 20_000, 6);
        hear(&mut receiver, 21_999, 4);
        hear(&mut receiver, 21_999, 5);
        assert_eq!(receiver.poll_report(at(22_000)), None);
        assert_eq!(receiver.poll_report(at(30_000)), Some((7, Vec::new())));
        // packets before a loss are acknowledged without waiting for it
        hear(&mut receiver, 40_000, 7);
        hear(&mut receiver, 49_000, 9);
        assert_eq!(receiver.poll_report(at(50_000)), Some((8, Vec::new())));
        assert_eq!(receiver.poll_report(at(51_000)), Some((10, one(8..9))));
    }

    #[test]
    fn losses_beyond_the_report_size_are_in_the_next_report() {
        let mut receiver = receiver();
        (1..=1500).for_each(|nth| hear(&mut receiver, 0, 2 * nth));
        let lost =
            |from: u64, till: u64| (from..till).map(|nth| 2 * nth + 1..2 * nth + 2).collect();
        let mut first: Vec<Range<u64>> = one(0..2);
        let rest: Vec<_> = lost(1, 1024);
        first.extend(rest);
        assert_eq!(receiver.poll_report(at(2000)), Some((2049, first)));
        assert_eq!(receiver.due(), Some(at(2000)));
        assert_eq!(
            receiver.poll_report(at(2000)),
            Some((3001, lost(1024, 1500)))
        );
        assert_eq!(receiver.poll_report(at(2000)), None);
    }

    #[test]
    fn losses_beyond_the_remembered_losses_are_found_later() {
        let mut receiver = receiver();
        let turns = 2 * LOSSES_MAX as u64 + 10;
        (0..turns)
            .step_by(2)
            .for_each(|turn| hear(&mut receiver, 0, turn));
        let mut lost = Vec::new();
        while let Some((_, ranges)) = receiver.poll_report(at(2000)) {
            lost.extend(ranges.into_iter().flatten());
        }
        hear(&mut receiver, 3000, turns);
        while let Some((_, ranges)) = receiver.poll_report(at(5000)) {
            lost.extend(ranges.into_iter().flatten());
        }
        let first = (1..2 * LOSSES_MAX as u64).step_by(2);
        // the last few count as lost, since the list was full when they came
        assert!(lost.iter().copied().eq(first.chain(turns - 9..turns)));
    }

    #[test]
    fn question_is_answered_at_once_or_after_the_wait_for_reordered_datagrams() {
        let mut receiver = receiver();
        receiver.handle_question(at(0), 5);
        assert_eq!(receiver.due(), Some(at(2000)));
        assert_eq!(receiver.poll_report(at(1999)), None);
        assert_eq!(receiver.poll_report(at(2000)), Some((5, one(0..5))));
        assert_eq!(receiver.due(), None);
        receiver.handle_question(at(3000), 5);
        assert_eq!(receiver.poll_report(at(3000)), None, "told already");
        hear(&mut receiver, 4000, 5);
        receiver.handle_question(at(4000), 6);
        assert_eq!(receiver.poll_report(at(4000)), Some((6, Vec::new())));
        // one that datagrams have overtaken
        hear(&mut receiver, 5000, 6);
        receiver.handle_question(at(5000), 6);
        assert_eq!(receiver.due(), Some(at(15_000)));
        // one that comes while something is missing
        hear(&mut receiver, 6000, 8);
        receiver.handle_question(at(7000), 9);
        assert_eq!(receiver.due(), Some(at(8000)));
        assert_eq!(receiver.poll_report(at(8000)), Some((9, one(7..8))));
        assert_eq!(receiver.due(), Some(at(9000)));
    }

    #[test]
    fn question_waits_for_datagrams_in_flight_for_a_limited_time() {
        let mut receiver = receiver();
        receiver.handle_question(at(0), 1000);
        for turn in 0..199 {
            hear(&mut receiver, 1000 + 1000 * turn, turn);
            let report = receiver.poll_report(at(1000 + 1000 * turn));
            assert!(report.is_none_or(|(_, lost)| lost.is_empty()));
        }
        hear(&mut receiver, 199_500, 199);
        assert!(
            receiver
                .question
                .is_some_and(|question| question.at == at(200_000))
        );
        let lost = Some((1000, one(200..1000)));
        assert_eq!(receiver.poll_report(at(200_000)), lost);
        // datagrams that it does not ask about put nothing off
        receiver.handle_question(at(300_000), 1001);
        hear(&mut receiver, 301_000, 1001);
        assert!(
            receiver
                .question
                .is_some_and(|question| question.at == at(302_000))
        );
        hear(&mut receiver, 301_500, 1000);
        assert!(
            receiver
                .question
                .is_some_and(|question| question.at == at(303_500))
        );
    }
}
