//! Sending side of one direction: [`Sender`] keeps pages of slabs until they are in the custody of the other gateway.
//!
//! ```text
//! launched -> queued -> sent -> (lost -> resent) -> verdict -> in custody
//! ```
//!
//! Urgent slabs are sent before resends, and these before other slabs. A question asks for the report of the last
//! datagrams.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Body, Head, Instant, Rate, Span, Transmit, Trc, Via};
use lighthaul_parts::{Profile, Turns};

use super::config::PAGE_PACKETS;
use super::wire::{Packet, Record, TURNS_EACH};
use super::{Config, PeerMisbehaved};

/// State machine of the sending side. It sends pages at the channel's rate, and resends lost packets.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Sender {
    config: Config,
    /// Pacing along the channel's vector, or `None` for an unpaced channel.
    profile: Option<Profile>,
    /// Number of the first entry of `pages`.
    first: u64,
    /// Length of each page, or `None` once the page is in the receiver's custody.
    pages: VecDeque<Option<u32>>,
    /// Number of the first entry of `slabs`.
    first_slab: u64,
    slabs: VecDeque<Slab>,
    /// Packets that were never sent, of urgent slabs and of others.
    urgent: VecDeque<Range<u64>>,
    bulk: VecDeque<Range<u64>>,
    backlog_bytes: u64,
    /// Packets to be resent.
    again: VecDeque<u64>,
    turns: Turns,
    /// First turn that this connection cannot use.
    pub(super) turns_end: u64,
    /// Number of turns in the latest question to the receiver on this connection.
    asked: Option<u64>,
    /// Start of a period in which all datagrams were lost, and the number of lost datagrams.
    dark: Option<(Instant, u64)>,
    /// First page without credit.
    granted: u64,
    resent: u64,
}

#[derive(Debug)]
struct Slab {
    records: Vec<RecordPages>,
    pages: Range<u64>,
    urgent: bool,
    kept: bool,
}

/// Record of a slab and its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPages {
    /// Record.
    pub record: Record,
    /// Page numbers.
    pub pages: Range<u64>,
}

impl Sender {
    /// Returns a sender on a channel with vector `trc`, or on an unpaced channel.
    pub fn new(now: Instant, config: Config, trc: Option<Trc>) -> Self {
        let mut sender = Self {
            config,
            profile: None,
            first: 0,
            pages: VecDeque::new(),
            first_slab: 0,
            slabs: VecDeque::new(),
            urgent: VecDeque::new(),
            bulk: VecDeque::new(),
            backlog_bytes: 0,
            again: VecDeque::new(),
            turns: Turns::new(TURNS_MAX),
            turns_end: TURNS_EACH,
            asked: None,
            dark: None,
            granted: 0,
            resent: 0,
        };
        sender.follow(now, trc);
        sender
    }

    /// Changes the vector from `now` on.
    pub fn follow(&mut self, now: Instant, trc: Option<Trc>) {
        let bytes = self.config.wire_bytes(self.config.packet_len);
        self.profile = trc.map(|trc| Profile::new(now, trc, self.config.burst, (1, 1), bytes));
    }

    /// Returns the number of pages that the credit allows.
    pub fn room(&self) -> u64 {
        self.granted.saturating_sub(self.next_page())
    }

    /// Returns the number of the next page.
    pub fn next_page(&self) -> u64 {
        self.first + self.pages.len() as u64
    }

    /// Returns the number of the next slab.
    pub fn next_slab(&self) -> u64 {
        self.first_slab + self.slabs.len() as u64
    }

    /// Returns the bytes in slabs that were never sent.
    pub const fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Returns the number of pages kept until the receiver takes custody.
    pub fn held_pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns the number of slabs kept until the receiver takes custody.
    pub fn held_slabs(&self) -> u64 {
        self.slabs.len() as u64
    }

    /// Returns the number of datagrams sent.
    pub fn sent(&self) -> u64 {
        self.turns.count()
    }

    /// Returns the number of datagrams that were retransmissions.
    pub const fn resent(&self) -> u64 {
        self.resent
    }

    /// True if all datagrams of the last two seconds were lost, although the receiver reports.
    pub fn is_dark(&self, now: Instant) -> bool {
        self.dark
            .is_some_and(|(since, count)| since + DARK <= now && count >= DARK_TURNS)
    }

    /// Returns the channel's rate, or `None` in a gap and on an unpaced channel.
    pub fn rate(&self) -> Option<Rate> {
        self.profile.as_ref().and_then(Profile::rate)
    }

    /// True if the next slab should be formed, since the previous one is about to end.
    pub fn is_hungry(&self) -> bool {
        let profile = self.profile.as_ref();
        match profile.and_then(|profile| profile.time_for(self.backlog_bytes)) {
            Some(time) => time < LEAD,
            // in a gap, one slab waits for its end
            None => self.backlog_bytes < u64::from(self.config.page_len()),
        }
    }

    /// Queues a slab of records, with the lengths of their pages.
    pub fn launch(&mut self, parts: Vec<RecordPages>, lens: &[u32], urgent: bool) {
        let queue = if urgent {
            &mut self.urgent
        } else {
            &mut self.bulk
        };
        let first = self.first + self.pages.len() as u64;
        for (page, len) in (first..).zip(lens) {
            let start = page * PAGE_PACKETS;
            queue.push_back(start..start + self.config.packets_in(*len));
            self.backlog_bytes += u64::from(*len);
            self.pages.push_back(Some(*len));
        }
        self.slabs.push_back(Slab {
            records: parts,
            pages: first..first + lens.len() as u64,
            urgent,
            kept: false,
        });
    }

    /// Takes credit for the pages below `pages`.
    pub fn grant(&mut self, pages: u64) {
        self.granted = self.granted.max(pages);
    }

    /// Handles a report on turns.
    pub fn handle_report(
        &mut self,
        now: Instant,
        below: u64,
        lost: &[Range<u64>],
    ) -> Result<(), PeerMisbehaved> {
        let last = lost.last().map_or(below, |range| range.end.max(below));
        if last > self.turns.count() {
            return Err(PeerMisbehaved::UnsentTurn(last));
        }
        for range in lost {
            let (again, pages, first) = (&mut self.again, &self.pages, self.first);
            let numbers = self.turns.lose(range.clone());
            again.extend(numbers.filter(|number| is_held(pages, first, *number)));
        }
        if self.turns.forget_below(below) {
            self.dark = None;
        } else if !lost.is_empty() {
            let (_, count) = self.dark.get_or_insert((now, 0));
            *count += lost
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>();
        }
        Ok(())
    }

    /// Handles a verdict on a slab: custody if `bad` is empty, or the records to be resent. Returns the records that
    /// need no longer be kept.
    pub fn handle_verdict(
        &mut self,
        slab: u64,
        bad: &[u32],
    ) -> Result<Vec<RecordPages>, PeerMisbehaved> {
        let missing = PeerMisbehaved::UnsentSlab(slab);
        let nth = slab.checked_sub(self.first_slab).ok_or(missing)?;
        let nth = usize::try_from(nth).map_err(|_| missing)?;
        let held = self.slabs.get(nth).filter(|slab| !slab.kept);
        let held = held.ok_or(missing)?;
        if bad.is_empty() {
            if self.waits(held.urgent, &held.pages) {
                return Err(missing);
            }
            let held = &mut self.slabs[nth];
            held.kept = true;
            let parts = core::mem::take(&mut held.records);
            self.let_go(&parts);
            return Ok(parts);
        }
        if self.again.len() as u64 > AGAIN_EACH * self.held_pages() * PAGE_PACKETS {
            return Err(PeerMisbehaved::Complaints(slab));
        }
        for nth in bad {
            let part = held.records.get(*nth as usize).ok_or(missing)?;
            if part.pages.is_empty() {
                return Err(PeerMisbehaved::Complaints(slab));
            }
            if self.waits(held.urgent, &part.pages) {
                return Err(missing);
            }
            for page in part.pages.clone() {
                let len = self.pages[(page - self.first) as usize].unwrap_or(0);
                let start = page * PAGE_PACKETS;
                self.again
                    .extend(start..start + self.config.packets_in(len));
            }
        }
        Ok(Vec::new())
    }

    /// True if some of the pages were never sent. All earlier pages of their queue are sent before them.
    fn waits(&self, urgent: bool, pages: &Range<u64>) -> bool {
        let queue = if urgent { &self.urgent } else { &self.bulk };
        let is_before = |next: &Range<u64>| next.start / PAGE_PACKETS < pages.end;
        !pages.is_empty() && queue.front().is_some_and(is_before)
    }

    fn let_go(&mut self, parts: &[RecordPages]) {
        for page in parts.iter().flat_map(|part| part.pages.clone()) {
            self.pages[(page - self.first) as usize] = None;
        }
        while self.slabs.front().is_some_and(|slab| slab.kept) {
            self.slabs.pop_front();
            self.first_slab += 1;
        }
        while self.pages.front().is_some_and(Option::is_none) {
            self.pages.pop_front();
            self.first += 1;
        }
        self.trim();
    }

    /// Drops packets from the front of `again` that are in the receiver's custody.
    fn trim(&mut self) {
        while let Some(number) = self.again.front()
            && !is_held(&self.pages, self.first, *number)
        {
            self.again.pop_front();
        }
    }

    /// Returns the next datagram, if it may be sent now.
    pub fn poll_datagram(&mut self, now: Instant) -> Option<Transmit> {
        if !self.has_turns() {
            return None;
        }
        let (number, source) = self.next()?;
        let len = self.len_of(number)?;
        let bytes = self.config.wire_bytes(len);
        if let Some(profile) = &mut self.profile
            && !profile.may_send(now, bytes)
        {
            return None;
        }
        self.take(source, len);
        let turn = self.turns.push(number);
        let offset = number * u64::from(self.config.packet_len);
        Some(Transmit {
            via: Via::Datagram,
            head: Head::new(&Packet { turn, number }.encode()),
            body: Body::Object(Span::new(offset, len)),
        })
    }

    /// Returns the number of turns to ask the receiver about, once no datagram can be sent. It asks once per number.
    pub fn poll_question(&mut self) -> Option<u64> {
        let turns = self.turns.count();
        let is_idle = !self.has_turns() || !self.has_more();
        if !is_idle || turns == 0 || Some(turns) == self.asked {
            return None;
        }
        self.asked = Some(turns);
        Some(turns)
    }

    /// Continues on another connection. Datagrams in flight are lost, and the receiver is asked about them.
    pub fn reconnect(&mut self) {
        self.dark = None;
        self.asked = None;
        self.turns_end = self.turns.count() + TURNS_EACH;
    }

    /// True if this connection has no turns left, so that a new connection is needed.
    pub fn is_spent(&self) -> bool {
        self.turns.count() >= self.turns_end
    }

    /// True if a datagram can have a turn.
    fn has_turns(&self) -> bool {
        self.turns.has_room() && !self.is_spent()
    }

    /// True if a datagram waits for the channel.
    pub fn has_more(&self) -> bool {
        !(self.again.is_empty() && self.urgent.is_empty() && self.bulk.is_empty())
    }

    /// Returns the time at which the next datagram may leave.
    pub fn due(&self) -> Option<Instant> {
        let may_send = self.has_turns() && self.has_more();
        may_send.then(|| self.profile.as_ref().map_or(Instant::ZERO, Profile::due))
    }

    /// Returns the next packet, and its queue.
    fn next(&self) -> Option<(u64, Queue)> {
        if let Some(range) = self.urgent.front() {
            return Some((range.start, Queue::Urgent));
        }
        if let Some(number) = self.again.front() {
            return Some((*number, Queue::Again));
        }
        self.bulk.front().map(|range| (range.start, Queue::Bulk))
    }

    fn take(&mut self, source: Queue, len: u32) {
        let queue = match source {
            Queue::Again => {
                self.again.pop_front();
                self.trim();
                self.resent += 1;
                return;
            }
            Queue::Urgent => &mut self.urgent,
            Queue::Bulk => &mut self.bulk,
        };
        self.backlog_bytes -= u64::from(len);
        if let Some(range) = queue.front_mut() {
            range.start += 1;
            if range.is_empty() {
                queue.pop_front();
            }
        }
    }

    /// Returns the length of a packet that waits to be sent.
    fn len_of(&self, number: u64) -> Option<u32> {
        let page = self
            .pages
            .get((number / PAGE_PACKETS - self.first) as usize);
        let page_len = (*page?)?;
        let before = (number % PAGE_PACKETS) as u32 * self.config.packet_len;
        Some((page_len - before).min(self.config.packet_len))
    }
}

/// True if the page of a packet is not in the receiver's custody.
fn is_held(pages: &VecDeque<Option<u32>>, first: u64, number: u64) -> bool {
    let nth = (number / PAGE_PACKETS).checked_sub(first);
    nth.and_then(|nth| pages.get(nth as usize))
        .is_some_and(Option::is_some)
}

/// Queue of a packet.
#[derive(Clone, Copy, Debug)]
enum Queue {
    Urgent,
    Again,
    Bulk,
}

/// Time after which a total loss is reported.
const DARK: Duration = Duration::from_secs(2);
/// Number of datagrams after which a total loss is reported.
const DARK_TURNS: u64 = 32;
/// Maximum number of datagrams with unknown fate: seconds of a fast channel.
const TURNS_MAX: usize = 1 << 20;
/// Maximum number of times that a packet may be queued for a resend: for a loss and for a CRC mismatch.
const AGAIN_EACH: u64 = 2;
/// Time before the end of a slab at which the next one is formed.
const LEAD: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::super::SessionId;
    use super::super::config::EXAMPLE;
    use super::*;

    /// Returns a sender with one slab of two pages, of which `sent` datagrams have been sent.
    fn sender(sent: usize) -> Sender {
        let mut sender = Sender::new(Instant::ZERO, EXAMPLE, None);
        sender.grant(10);
        let record = Record {
            session: SessionId([0; 16]),
            offset: 0,
            len: 45_000,
            crc: 0,
            end: None,
        };
        let part = RecordPages {
            record,
            pages: 0..2,
        };
        sender.launch([part].into(), &[44_000, 1000], false);
        for _ in 0..sent {
            assert!(sender.poll_datagram(Instant::ZERO).is_some());
        }
        sender
    }

    #[test]
    fn custody_of_unsent_slab_is_refused() {
        let early = Err(PeerMisbehaved::UnsentSlab(0));
        for sent in [0, 1, 44] {
            assert_eq!(sender(sent).handle_verdict(0, &[]), early);
        }
        let mut whole = sender(45);
        assert_eq!(
            whole.handle_verdict(1, &[]),
            Err(PeerMisbehaved::UnsentSlab(1))
        );
        assert_eq!(whole.handle_verdict(0, &[]).map(|parts| parts.len()), Ok(1));
        assert_eq!(whole.handle_verdict(0, &[]), early);
        assert_eq!((whole.held_pages(), whole.held_slabs()), (0, 0));
    }

    #[test]
    fn record_can_be_rejected_once_sent() {
        let early = Err(PeerMisbehaved::UnsentSlab(0));
        let mut sender = sender(0);
        let record = |pages: Range<u64>| RecordPages {
            pages,
            ..sender.slabs[0].records[0].clone()
        };
        sender.slabs[0].records = [record(0..1), record(1..2)].into();
        for sent in 0..44 {
            assert_eq!(sender.handle_verdict(0, &[0]), early, "{sent} sent");
            assert!(sender.poll_datagram(Instant::ZERO).is_some());
        }
        assert_eq!(sender.handle_verdict(0, &[1]), early);
        assert_eq!(sender.handle_verdict(0, &[]), early);
        assert_eq!(sender.handle_verdict(0, &[0]), Ok(Vec::new()));
        let left = core::iter::from_fn(|| sender.poll_datagram(Instant::ZERO));
        assert_eq!(left.count(), 45);
    }

    #[test]
    fn connection_is_exhausted_before_turns_repeat() {
        let mut sender = sender(0);
        sender.turns_end = 3;
        let left = core::iter::from_fn(|| sender.poll_datagram(Instant::ZERO));
        assert_eq!(left.count(), 3);
        assert!(sender.is_spent() && sender.due().is_none());
        assert_eq!(sender.poll_question(), Some(3));
        sender.reconnect();
        assert!(!sender.is_spent());
        assert_eq!(sender.turns_end, 3 + TURNS_EACH);
        assert!(sender.poll_datagram(Instant::ZERO).is_some());
    }

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        core::iter::once(range).collect()
    }

    /// A sender that has sent one slab of pages of these lengths.
    fn sent(lens: &[u32], trc: Option<&str>) -> Sender {
        let trc = trc.map(|trc| trc.parse().unwrap());
        let mut sender = Sender::new(Instant::ZERO, EXAMPLE, trc);
        let record = Record {
            session: SessionId([0; 16]),
            offset: 0,
            len: lens.iter().sum(),
            crc: 0,
            end: None,
        };
        let part = RecordPages {
            record,
            pages: 0..lens.len() as u64,
        };
        sender.launch([part].into(), lens, false);
        while sender.poll_datagram(Instant::ZERO).is_some() {}
        sender
    }

    #[test]
    fn fourth_rejection_of_a_record_fails_the_link() {
        let mut sender = sent(&[44_000; 3], None);
        for _ in 0..3 {
            assert_eq!(sender.handle_verdict(0, &[0]), Ok(Vec::new()));
        }
        let complaint = sender.handle_verdict(0, &[0]);
        assert_eq!(complaint, Err(PeerMisbehaved::Complaints(0)));
    }

    #[test]
    fn record_without_bytes_cannot_be_rejected() {
        let mut sender = sent(&[1], None);
        let mut end = sender.slabs[0].records[0].clone();
        (end.record.len, end.pages) = (0, 1..1);
        sender.launch([end].into(), &[], false);
        let complaint = sender.handle_verdict(1, &[0]);
        assert_eq!(complaint, Err(PeerMisbehaved::Complaints(1)));
        assert_eq!(
            sender.handle_verdict(1, &[]).map(|parts| parts.len()),
            Ok(1)
        );
    }

    #[test]
    fn channel_rate_is_used_and_not_exceeded() {
        let mut sender = sent(&[44_000; 200], Some("0s-10s 80Mb/s"));
        assert_eq!(sender.rate(), Some(Rate::from_mbps(80)));
        let (mut now, mut bytes) = (Instant::ZERO, 0);
        while now < Instant::ZERO + Duration::from_millis(500) {
            let due = sender.due().unwrap();
            assert!(due > now, "it waits for the channel");
            assert_eq!(sender.poll_datagram(now), None);
            now = due;
            while let Some(left) = sender.poll_datagram(now) {
                bytes += u64::from(EXAMPLE.wire_bytes(left.body.object_len()));
            }
            let carried = Rate::from_mbps(80).bytes_in(now.since(Instant::ZERO));
            // a millisecond of it leaves at once, and as much may wait
            let apart = carried.abs_diff(bytes);
            assert!(apart <= 10_000, "{bytes} of {carried} bytes have left");
        }
        assert_eq!(sender.poll_question(), None);
        sender.follow(now, None);
        assert_eq!((sender.rate(), sender.due()), (None, Some(Instant::ZERO)));
        while sender.poll_datagram(now).is_some() {}
        assert_eq!((sender.sent(), sender.has_more()), (200 * 44, false));
    }

    #[test]
    fn next_slab_is_requested_two_milliseconds_before_the_last_slab_ends() {
        let hungry = |lens: &[u32], trc| {
            let trc: Trc = str::parse(trc).unwrap();
            let mut sender = Sender::new(Instant::ZERO, EXAMPLE, Some(trc));
            assert!(sender.is_hungry());
            let pages = 0..0;
            let record = sent(&[1], None).slabs[0].records[0].record;
            sender.launch([RecordPages { record, pages }].into(), lens, false);
            sender.is_hungry()
        };
        assert!(hungry(&[1999], "0s-1s 8Mb/s"));
        assert!(!hungry(&[2000], "0s-1s 8Mb/s"));
        // in a gap, once less than a page waits
        assert!(hungry(&[43_999], "1s-2s 8Mb/s"));
        assert!(!hungry(&[44_000], "1s-2s 8Mb/s"));
    }

    #[test]
    fn datagrams_are_blocked_after_two_seconds_without_arrivals() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut sender = sent(&[44_000], None);
        let lost = sender.handle_report(at(1000), 0, &[1..20, 20..32]);
        assert_eq!((lost, sender.is_dark(at(9000))), (Ok(()), false));
        sender.handle_report(at(1500), 0, &one(32..33)).unwrap();
        assert!(!sender.is_dark(at(2999)) && sender.is_dark(at(3000)));
        // the first packet, which no report named, has arrived
        sender.handle_report(at(3000), 33, &[]).unwrap();
        assert!(!sender.is_dark(at(9000)));
        sender.handle_report(at(4000), 33, &one(33..44)).unwrap();
        while sender.poll_datagram(at(4000)).is_some() {}
        sender.handle_report(at(5000), 80, &one(44..80)).unwrap();
        assert!(sender.is_dark(at(6000)));
        sender.reconnect();
        assert!(!sender.is_dark(at(6000)));
    }

    #[test]
    fn lost_packet_is_resent_unless_in_custody() {
        let mut sender = sender(45);
        assert_eq!(
            sender.handle_report(Instant::ZERO, 45, &[3..5, 44..45]),
            Ok(())
        );
        assert!(sender.has_more());
        let again = sender.poll_datagram(Instant::ZERO).unwrap();
        assert_eq!(again.body, Body::Object(Span::new(3000, 1000)));
        assert_eq!(sender.resent(), 1);
        sender.handle_verdict(0, &[]).unwrap();
        assert!(!sender.has_more());
        assert_eq!(sender.poll_datagram(Instant::ZERO), None);
        let beyond = PeerMisbehaved::UnsentTurn(47);
        assert_eq!(sender.handle_report(Instant::ZERO, 47, &[]), Err(beyond));
    }
}
