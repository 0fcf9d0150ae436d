//! One direction's sending side: pages that were formed into slabs, until the other gateway has custody of them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Body, Head, Instant, Rate, Span, Transmit, Trc, Via};

use super::config::PAGE_PACKETS;
use super::wire::{Packet, Record, TURNS_EACH};
use super::{Config, PeerMisbehaved};
use crate::parts::{Profile, Turns};

/// Sends pages as fast as the channel takes them, and again what was lost.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    /// What the channel takes; nothing if it takes all.
    profile: Option<Profile>,
    /// The number of the first page.
    first: u64,
    /// Pages that were formed and not yet given up, each with its length; nothing once it is kept.
    pages: VecDeque<Option<u32>>,
    /// The number of the first slab.
    first_slab: u64,
    slabs: VecDeque<Slab>,
    /// Packets that have not been sent: of slabs that go first, and of the others.
    urgent: VecDeque<Range<u64>>,
    bulk: VecDeque<Range<u64>>,
    backlog_bytes: u64,
    /// Packets that were lost.
    again: VecDeque<u64>,
    turns: Turns,
    /// Turns below this one are for this connection.
    pub(super) turns_end: u64,
    /// How many turns the receiver was asked about, on this connection.
    asked: Option<u64>,
    /// Since when all of which something was heard was lost, and how many datagrams that was.
    dark: Option<(Instant, u64)>,
    /// Pages below this one have a place.
    granted: u64,
    resent: u64,
}

#[derive(Debug)]
struct Slab {
    records: Vec<Part>,
    pages: Range<u64>,
    urgent: bool,
    kept: bool,
}

/// One record of a slab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it says.
    pub record: Record,
    /// Where it lies.
    pub pages: Range<u64>,
}

impl Sender {
    /// A sender on a channel that carries `trc`, or whatever it is given.
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

    /// Keeps to another vector from now on.
    pub fn follow(&mut self, now: Instant, trc: Option<Trc>) {
        let bytes = self.config.wire_bytes(self.config.packet_len);
        self.profile = trc.map(|trc| Profile::new(now, trc, self.config.burst, (1, 1), bytes));
    }

    /// How many pages there is a place for.
    pub fn room(&self) -> u64 {
        self.granted.saturating_sub(self.next_page())
    }

    /// The number of the page that is formed next.
    pub fn next_page(&self) -> u64 {
        self.first + self.pages.len() as u64
    }

    /// The number of the slab that is formed next.
    pub fn next_slab(&self) -> u64 {
        self.first_slab + self.slabs.len() as u64
    }

    /// Bytes that were formed and have not been sent.
    pub const fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// Pages that wait for their being kept.
    pub fn held_pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Slabs that do.
    pub fn held_slabs(&self) -> u64 {
        self.slabs.len() as u64
    }

    /// Datagrams sent.
    pub fn sent(&self) -> u64 {
        self.turns.count()
    }

    /// Of these, those that were sent again.
    pub const fn resent(&self) -> u64 {
        self.resent
    }

    /// Whether all that left for a while was lost, though the receiver is there and says so.
    pub fn is_dark(&self, now: Instant) -> bool {
        self.dark
            .is_some_and(|(since, count)| since + DARK <= now && count >= DARK_TURNS)
    }

    /// What the channel takes now; nothing in a gap, or where it takes all.
    pub fn rate(&self) -> Option<Rate> {
        self.profile.as_ref().and_then(Profile::rate)
    }

    /// Whether the next slab had better be formed, since the one before is about to end.
    pub fn is_hungry(&self) -> bool {
        let profile = self.profile.as_ref();
        match profile.and_then(|profile| profile.time_for(self.backlog_bytes)) {
            Some(time) => time < LEAD,
            // in a gap one slab waits for its end
            None => self.backlog_bytes < u64::from(self.config.page_len()),
        }
    }

    /// Takes a slab of these records, whose pages have these lengths.
    pub fn launch(&mut self, parts: Vec<Part>, lens: &[u32], urgent: bool) {
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

    /// Hears for how many pages there is a place.
    pub fn grant(&mut self, pages: u64) {
        self.granted = self.granted.max(pages);
    }

    /// Hears what came of turns.
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

    /// Hears that a slab is kept, or which of its records are to be sent again; answers the parts that it is rid of.
    pub fn handle_verdict(&mut self, slab: u64, bad: &[u32]) -> Result<Vec<Part>, PeerMisbehaved> {
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

    /// Whether something of these pages has not been sent at all: all before them in their queue goes first.
    fn waits(&self, urgent: bool, pages: &Range<u64>) -> bool {
        let queue = if urgent { &self.urgent } else { &self.bulk };
        let is_before = |next: &Range<u64>| next.start / PAGE_PACKETS < pages.end;
        !pages.is_empty() && queue.front().is_some_and(is_before)
    }

    fn let_go(&mut self, parts: &[Part]) {
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

    /// Forgets what need not be sent again after all, so that the first of the others is one that must.
    fn trim(&mut self) {
        while let Some(number) = self.again.front()
            && !is_held(&self.pages, self.first, *number)
        {
            self.again.pop_front();
        }
    }

    /// The next datagram, if one may leave now.
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

    /// How many turns the receiver should be asked about, now that nothing else is to be sent; each is asked about once.
    pub fn poll_question(&mut self) -> Option<u64> {
        let turns = self.turns.count();
        let is_idle = !self.has_turns() || !self.has_more();
        if !is_idle || turns == 0 || Some(turns) == self.asked {
            return None;
        }
        self.asked = Some(turns);
        Some(turns)
    }

    /// Goes on over another connection: what was under way is lost with the one before, and to be asked about.
    pub fn reconnect(&mut self) {
        self.dark = None;
        self.asked = None;
        self.turns_end = self.turns.count() + TURNS_EACH;
    }

    /// Whether this connection has no turns left, so that another one is needed.
    pub fn is_spent(&self) -> bool {
        self.turns.count() >= self.turns_end
    }

    /// Whether a datagram can have a turn.
    fn has_turns(&self) -> bool {
        self.turns.has_room() && !self.is_spent()
    }

    /// Whether a datagram waits for the channel.
    pub fn has_more(&self) -> bool {
        !(self.again.is_empty() && self.urgent.is_empty() && self.bulk.is_empty())
    }

    /// When the next datagram may leave.
    pub fn due(&self) -> Option<Instant> {
        let may_send = self.has_turns() && self.has_more();
        may_send.then(|| self.profile.as_ref().map_or(Instant::ZERO, Profile::due))
    }

    /// The packet that is to be sent next, and where it waits.
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

    /// Bytes of a packet that waits to be sent.
    fn len_of(&self, number: u64) -> Option<u32> {
        let page = self
            .pages
            .get((number / PAGE_PACKETS - self.first) as usize);
        let page_len = (*page?)?;
        let before = (number % PAGE_PACKETS) as u32 * self.config.packet_len;
        Some((page_len - before).min(self.config.packet_len))
    }
}

/// Whether a packet's page is still ours.
fn is_held(pages: &VecDeque<Option<u32>>, first: u64, number: u64) -> bool {
    let nth = (number / PAGE_PACKETS).checked_sub(first);
    nth.and_then(|nth| pages.get(nth as usize))
        .is_some_and(Option::is_some)
}

/// Where a packet waits.
#[derive(Clone, Copy, Debug)]
enum Queue {
    Urgent,
    Again,
    Bulk,
}

/// For how long, and how many of them, all may be lost before datagrams are given up.
const DARK: Duration = Duration::from_secs(2);
const DARK_TURNS: u64 = 32;
/// Datagrams of which nobody knows whether they came: seconds of a fast channel.
const TURNS_MAX: usize = 1 << 20;
/// How often each packet that is held may wait to be sent again: lost, and said to be damaged, and that not at the same time.
const AGAIN_EACH: u64 = 2;
/// How long before the end of a slab the next one is formed.
const LEAD: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::super::SessionId;
    use super::super::config::EXAMPLE;
    use super::*;

    /// A sender of one slab of two pages, of which so many datagrams have left.
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
        let part = Part {
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
    fn nothing_can_be_kept_before_it_was_sent() {
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
    fn a_record_can_be_bad_as_soon_as_it_was_sent() {
        let early = Err(PeerMisbehaved::UnsentSlab(0));
        let mut sender = sender(0);
        let record = |pages: Range<u64>| Part {
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
    fn a_connection_ends_before_its_turns_repeat_themselves() {
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

    #[test]
    fn who_complains_without_end_is_not_heard() {
        let mut sender = sender(45);
        let heard = (0..100).take_while(|_| sender.handle_verdict(0, &[0]).is_ok());
        assert!((1..=5).contains(&heard.count()));
        let complaint = sender.handle_verdict(0, &[0]);
        assert_eq!(complaint, Err(PeerMisbehaved::Complaints(0)));
    }

    #[test]
    fn what_was_lost_is_sent_again_unless_it_is_kept_meanwhile() {
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
