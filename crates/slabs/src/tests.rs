//! Sender and receiver of slabs over a lossy path, each compared with a simple model.
//!
//! `Ours` and `Theirs` pair a machine with the simplest model of its state, and compare the two
//! after each step. A `Path` loses, duplicates and reorders datagrams, and keeps messages in order.
//! Connections break at random. `run` ends when all slabs are in custody of the receiver, and fails
//! if that takes too long. Peers that break the protocol are tested at each step, too. A seed
//! determines the whole run.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::{Body, Instant, Rng, Span, Transmit};
use proptest::prelude::*;

use super::config::{EXAMPLE, PAGE_PACKETS};
use super::receiver::CompleteRecord;
use super::sender::RecordPages;
use super::wire::Packet;
use super::{Config, PeerMisbehaved, Receiver, Record, Sender, SessionId};

/// Messages of the stream.
#[derive(Clone, Debug)]
enum Sent {
    Slab(u64, u64, Vec<Record>),
    Question(u64),
    Report(u64, Vec<core::ops::Range<u64>>),
    Credit(u64),
    Verdict(u64, Vec<u32>),
}

/// A sender beside the model of its state.
struct Ours {
    machine: Sender,
    config: Config,
    slabs: Vec<Launched>,
    /// Lengths of the pages that are not kept.
    held: BTreeMap<u64, u32>,
    next_page: u64,
    urgent: VecDeque<u64>,
    again: VecDeque<u64>,
    bulk: VecDeque<u64>,
    /// Packets of the turns that no report covers.
    turns: BTreeMap<u64, u64>,
    sent: u64,
    resent: u64,
    granted: u64,
    asked: Option<u64>,
}

struct Launched {
    parts: Vec<RecordPages>,
    kept: bool,
}

impl Ours {
    fn new(config: Config) -> Self {
        Self {
            machine: Sender::new(Instant::ZERO, config, None),
            config,
            slabs: Vec::new(),
            held: BTreeMap::new(),
            next_page: 0,
            urgent: VecDeque::new(),
            again: VecDeque::new(),
            bulk: VecDeque::new(),
            turns: BTreeMap::new(),
            sent: 0,
            resent: 0,
            granted: 0,
            asked: None,
        }
    }

    /// Packets of a page that is held.
    fn packets(&self, page: u64) -> impl Iterator<Item = u64> + use<> {
        let count = self.held[&page].div_ceil(self.config.packet_len);
        let first = page * PAGE_PACKETS;
        first..first + u64::from(count)
    }

    fn is_held(&self, packet: u64) -> bool {
        self.held.contains_key(&(packet / PAGE_PACKETS))
    }

    fn len(&self, packet: u64) -> u32 {
        let before = (packet % PAGE_PACKETS) as u32 * self.config.packet_len;
        let page_len = self.held[&(packet / PAGE_PACKETS)];
        (page_len - before).min(self.config.packet_len)
    }

    /// Forms a slab of some records, of which one may have no pages.
    fn launch(&mut self, rng: &mut Rng) -> Sent {
        let page_len = self.config.page_len();
        let (first, mut left) = (self.next_page, self.machine.room());
        let (mut lens, mut parts, urgent) = (Vec::new(), Vec::new(), rng.below(4) == 0);
        for _ in 0..=rng.below(4) {
            let pages = rng.below(4).min(left);
            left -= pages;
            let last = 1 + rng.below(page_len.into()) as u32;
            let len = (pages as u32 * page_len).saturating_sub(page_len - last);
            let from = first + lens.len() as u64;
            lens.extend((0..pages as u32).map(|nth| (len - nth * page_len).min(page_len)));
            let record = Record {
                session: SessionId([0; 16]),
                offset: 0,
                len: if pages > 0 { len } else { 0 },
                crc: 0,
                end: None,
            };
            let pages = from..from + pages;
            parts.push(RecordPages { record, pages });
        }
        for (page, len) in (first..).zip(&lens) {
            self.held.insert(page, *len);
            let packets = self.packets(page);
            let queue = if urgent {
                &mut self.urgent
            } else {
                &mut self.bulk
            };
            queue.extend(packets);
        }
        self.next_page += lens.len() as u64;
        let records = parts.iter().map(|part| part.record).collect();
        let slab = self.machine.next_slab();
        self.machine.launch(parts.clone(), &lens, urgent);
        self.slabs.push(Launched { parts, kept: false });
        Sent::Slab(slab, first, records)
    }

    /// Sends the next datagram, which is the one that the model expects.
    fn poll(&mut self) -> Option<(Packet, u32)> {
        while self.again.front().is_some_and(|next| !self.is_held(*next)) {
            self.again.pop_front();
        }
        let packet = if let Some(packet) = self.urgent.pop_front() {
            Some(packet)
        } else if let Some(packet) = self.again.pop_front() {
            self.resent += 1;
            Some(packet)
        } else {
            self.bulk.pop_front()
        };
        let due = packet.map(|_| Instant::ZERO);
        assert_eq!(self.machine.due(), due);
        assert_eq!(self.machine.has_more(), packet.is_some());
        let left = self.machine.poll_datagram(Instant::ZERO);
        let Some(number) = packet else {
            assert_eq!(left, None);
            return None;
        };
        let Some(Transmit {
            head,
            body: Body::Object(span),
            ..
        }) = left
        else {
            panic!("packet {number} did not leave");
        };
        let turn = self.sent;
        self.sent += 1;
        self.turns.insert(turn, number);
        let packet = Packet { turn, number };
        assert_eq!(head.as_slice(), packet.encode());
        let (offset, len) = (number * u64::from(self.config.packet_len), self.len(number));
        assert_eq!(span, Span::new(offset, len));
        Some((packet, len))
    }

    fn ask(&mut self) -> Option<Sent> {
        let is_idle = !self.machine.has_more();
        let asks = is_idle && self.sent > 0 && self.asked != Some(self.sent);
        let asked = self.machine.poll_question();
        assert_eq!(asked, asks.then_some(self.sent));
        self.asked = asked.or(self.asked);
        asked.map(Sent::Question)
    }

    fn hear(&mut self, now: Instant, sent: Sent) {
        match sent {
            Sent::Report(below, lost) => {
                for turn in lost.iter().cloned().flatten() {
                    let packet = self.turns.remove(&turn);
                    self.again
                        .extend(packet.filter(|packet| self.is_held(*packet)));
                }
                self.turns = self.turns.split_off(&below);
                assert_eq!(self.machine.handle_report(now, below, &lost), Ok(()));
            }
            Sent::Credit(pages) => {
                self.granted = self.granted.max(pages);
                self.machine.grant(pages);
            }
            Sent::Verdict(slab, bad) if bad.is_empty() => {
                let launched = &mut self.slabs[slab as usize];
                let kept = self.machine.handle_verdict(slab, &bad);
                assert_eq!(kept.as_ref(), Ok(&launched.parts));
                launched.kept = true;
                for page in launched.parts.iter().flat_map(|part| part.pages.clone()) {
                    self.held.remove(&page);
                }
            }
            Sent::Verdict(slab, bad) => {
                for nth in &bad {
                    let part = &self.slabs[slab as usize].parts[*nth as usize];
                    let packets = part.pages.clone().flat_map(|page| self.packets(page));
                    let packets: Vec<u64> = packets.collect();
                    self.again.extend(packets);
                }
                assert_eq!(self.machine.handle_verdict(slab, &bad), Ok(Vec::new()));
            }
            Sent::Slab(..) | Sent::Question(_) => panic!("a sender says that"),
        }
    }

    /// Checks that verdicts on packets that have not left, or on slabs that are kept, are refused.
    fn hear_lies(&mut self) {
        let unsent: BTreeSet<u64> = self.urgent.iter().chain(&self.bulk).copied().collect();
        let waits = |pages: &core::ops::Range<u64>| {
            let packets = pages.start * PAGE_PACKETS..pages.end * PAGE_PACKETS;
            unsent.range(packets).next().is_some()
        };
        for (slab, launched) in (0..).zip(&self.slabs) {
            let unsent = PeerMisbehaved::UnsentSlab(slab);
            if launched.kept || launched.parts.iter().any(|part| waits(&part.pages)) {
                assert_eq!(self.machine.handle_verdict(slab, &[]), Err(unsent));
            }
            let lie = (0..)
                .zip(&launched.parts)
                .find(|(_, part)| waits(&part.pages));
            if let Some((nth, _)) = lie {
                assert_eq!(self.machine.handle_verdict(slab, &[nth]), Err(unsent));
            }
            let none = launched.parts.len() as u32;
            assert_eq!(self.machine.handle_verdict(slab, &[none]), Err(unsent));
        }
    }

    fn check(&self) {
        let machine = &self.machine;
        let bytes = |queue: &VecDeque<u64>| -> u64 {
            queue
                .iter()
                .map(|packet| u64::from(self.len(*packet)))
                .sum()
        };
        assert_eq!(
            machine.backlog_bytes(),
            bytes(&self.urgent) + bytes(&self.bulk)
        );
        let is_hungry = machine.backlog_bytes() < u64::from(self.config.page_len());
        assert_eq!(machine.is_hungry(), is_hungry);
        let first = self.held.keys().next().copied().unwrap_or(self.next_page);
        assert_eq!(machine.next_page(), self.next_page);
        assert_eq!(machine.held_pages(), self.next_page - first);
        assert!(
            machine.next_page() <= self.granted,
            "it has credit for its pages"
        );
        assert_eq!(machine.room(), self.granted - self.next_page);
        let kept = self.slabs.iter().take_while(|slab| slab.kept).count();
        assert_eq!(machine.next_slab(), self.slabs.len() as u64);
        assert_eq!(machine.held_slabs(), (self.slabs.len() - kept) as u64);
        assert_eq!((machine.sent(), machine.resent()), (self.sent, self.resent));
    }
}

/// A receiver beside the model of its state.
struct Theirs {
    machine: Receiver,
    config: Config,
    came: BTreeSet<u64>,
    slabs: Vec<Vec<RecordPages>>,
    next_page: u64,
    /// Records that are whole, and those in custody.
    whole: BTreeSet<(u64, u32)>,
    taken: BTreeSet<(u64, u32)>,
    kept: BTreeSet<u64>,
    /// Pages in custody whose bytes were not delivered yet.
    here: u64,
    freed: u64,
    granted: u64,
    told_granted: u64,
    datagrams: u64,
    duplicates: u64,
    ignored: u64,
    heard: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    /// Whole records that were not judged.
    open: Vec<CompleteRecord>,
}

impl Theirs {
    fn new(config: Config) -> Self {
        Self {
            machine: Receiver::new(config),
            config,
            came: BTreeSet::new(),
            slabs: Vec::new(),
            next_page: 0,
            whole: BTreeSet::new(),
            taken: BTreeSet::new(),
            kept: BTreeSet::new(),
            here: 0,
            freed: 0,
            granted: config.pages_max.into(),
            told_granted: 0,
            datagrams: 0,
            duplicates: 0,
            ignored: 0,
            heard: BTreeSet::new(),
            lost: BTreeSet::new(),
            open: Vec::new(),
        }
    }

    fn packets(&self, part: &RecordPages) -> impl Iterator<Item = u64> + use<> {
        let first = part.pages.start * PAGE_PACKETS;
        // all pages of a record are full but the last
        first..first + u64::from(part.record.len.div_ceil(self.config.packet_len))
    }

    fn hear_datagram(&mut self, now: Instant, packet: Packet, len: u32) {
        self.datagrams += 1;
        self.heard.insert(packet.turn);
        let page = packet.number / PAGE_PACKETS;
        let is_new = !self.kept.contains(&page) && self.came.insert(packet.number);
        // the head of one far behind reads as if it were far ahead
        self.ignored += u64::from(page < self.first());
        self.duplicates += u64::from(!is_new && page >= self.first());
        let mut told = Vec::new();
        let (head, tell) = (packet.encode(), &mut |whole| told.push(whole));
        let place = self.machine.handle_datagram(now, &head, len, tell);
        let offset = packet.number * u64::from(self.config.packet_len);
        assert_eq!(place, is_new.then(|| Span::new(offset, len)));
        self.expect_whole(told);
    }

    fn hear(&mut self, now: Instant, sent: Sent) {
        match sent {
            Sent::Slab(slab, first, records) => {
                assert_eq!(slab, self.machine.next_slab());
                self.refuse_other_slabs(slab, first, &records);
                let mut page = first;
                let parts = records.iter().map(|record| {
                    let from = page;
                    page += u64::from(record.len.div_ceil(self.config.page_len()));
                    let record = *record;
                    let pages = from..page;
                    RecordPages { record, pages }
                });
                self.slabs.push(parts.collect());
                self.next_page = page;
                let mut told = Vec::new();
                let tell = &mut |whole| told.push(whole);
                let heard = self.machine.handle_slab(slab, first, records, tell);
                assert_eq!(heard, Ok(()));
                self.expect_whole(told);
            }
            Sent::Question(turns) => self.machine.handle_question(now, turns),
            Sent::Report(..) | Sent::Credit(_) | Sent::Verdict(..) => {
                panic!("a receiver says that")
            }
        }
    }

    fn refuse_other_slabs(&mut self, slab: u64, first: u64, records: &[Record]) {
        let room = self.granted - self.next_page;
        let mut much = records.to_vec();
        much[0].len = (room as u32 + 1) * self.config.page_len();
        for (slab, first, records) in [
            (slab + 1, first, records),
            (slab, first + 1, records),
            (slab, first, &much),
        ] {
            let none = &mut |whole| panic!("{whole:?}");
            let heard = self
                .machine
                .handle_slab(slab, first, records.to_vec(), none);
            assert_eq!(heard, Err(PeerMisbehaved::Slab(slab)));
        }
    }

    /// Checks that the receiver reports exactly the records that have just become whole.
    fn expect_whole(&mut self, told: Vec<CompleteRecord>) {
        let mut expected = Vec::new();
        for (slab, parts) in (0..).zip(&self.slabs) {
            for (nth, part) in (0..).zip(parts) {
                let came = self.packets(part).all(|packet| self.came.contains(&packet));
                if came && self.whole.insert((slab, nth)) {
                    let part = part.clone();
                    expected.push(CompleteRecord { slab, nth, part });
                }
            }
        }
        assert_eq!(told, expected);
        self.open.extend(told);
    }

    /// Judges one of the whole records; some of them are damaged.
    fn judge(&mut self, rng: &mut Rng) -> Option<Sent> {
        let nth = rng.below(self.open.len() as u64 + 1) as usize;
        let CompleteRecord { slab, nth, part } =
            (nth < self.open.len()).then(|| self.open.remove(nth))?;
        let good = part.pages.is_empty() || rng.below(5) > 0;
        if good {
            self.taken.insert((slab, nth));
            self.kept.extend(part.pages.clone());
            self.here += part.pages.end - part.pages.start;
        } else {
            self.whole.remove(&(slab, nth));
            for packet in self.packets(&part) {
                self.came.remove(&packet);
            }
        }
        let records = self.slabs[slab as usize].len() as u32;
        let is_last = (0..records).all(|nth| self.taken.contains(&(slab, nth)));
        assert_eq!(self.machine.judge(slab, nth, good), is_last);
        self.grant();
        if good && !is_last {
            return None;
        }
        let bad = if good { Vec::new() } else { [nth].into() };
        Some(Sent::Verdict(slab, bad))
    }

    fn free(&mut self, rng: &mut Rng) {
        let pages = rng.below(self.here + 1);
        (self.here, self.freed) = (self.here - pages, self.freed + pages);
        self.machine.free(pages);
        self.grant();
    }

    fn first(&self) -> u64 {
        let mut pages = 0..=u64::MAX;
        pages.find(|page| !self.kept.contains(page)).unwrap_or(0)
    }

    fn grant(&mut self) {
        let most = u64::from(self.config.pages_max);
        let granted = (self.freed + most).min(self.first() + 4 * most);
        self.granted = self.granted.max(granted);
    }

    fn say(&mut self, now: Instant) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some((below, lost)) = self.machine.poll_report(now) {
            for turn in lost.iter().cloned().flatten() {
                assert!(!self.heard.contains(&turn), "turn {turn} came");
                assert!(self.lost.insert(turn), "turn {turn} is lost once");
            }
            let is_over = |turn: &u64| self.heard.contains(turn) || self.lost.contains(turn);
            let first = (0..=u64::MAX).find(|turn| !is_over(turn));
            assert_eq!(Some(below), first);
            sent.push(Sent::Report(below, lost));
        }
        assert!(self.machine.due().is_none_or(|due| due > now));
        let news = self.granted - self.told_granted;
        let credit = self.machine.poll_credit();
        let is_due = news >= u64::from(self.config.pages_max / 16).max(1);
        assert_eq!(credit, is_due.then_some(self.granted));
        self.told_granted = credit.unwrap_or(self.told_granted);
        sent.extend(credit.map(Sent::Credit));
        sent
    }

    fn check(&self) {
        let machine = &self.machine;
        assert_eq!(machine.first_page(), self.first());
        let used = self.next_page - self.freed;
        assert_eq!(
            machine.room(),
            u64::from(self.config.pages_max).saturating_sub(used)
        );
        assert_eq!(machine.next_slab(), self.slabs.len() as u64);
        let is_open = |(slab, parts): &(u64, &Vec<RecordPages>)| {
            (0..parts.len() as u32).any(|nth| !self.taken.contains(&(*slab, nth)))
        };
        let open = (0..).zip(&self.slabs).filter(is_open).count();
        assert_eq!(machine.open_slabs(), open);
        let counts = (machine.datagrams(), machine.duplicates(), machine.ignored());
        assert_eq!(counts, (self.datagrams, self.duplicates, self.ignored));
    }
}

/// Datagrams on their way, which may be lost, repeated and overtaken, and messages, which are not.
#[derive(Default)]
struct Path {
    datagrams: BTreeMap<(Instant, u64), (Packet, u32)>,
    there: VecDeque<(Instant, Sent)>,
    back: VecDeque<(Instant, Sent)>,
}

impl Path {
    fn carry(&mut self, now: Instant, packet: (Packet, u32), loss_ppb: u64, rng: &mut Rng) {
        if rng.chance_ppb(loss_ppb) {
            return;
        }
        for copy in 0..=u64::from(rng.below(20) == 0) {
            let at = now + Duration::from_micros(3000 + rng.below(1500));
            self.datagrams
                .insert((at, 2 * packet.0.turn + copy), packet);
        }
    }
}

fn small(pages_max: u32) -> Config {
    Config {
        packet_len: 10,
        pages_max,
        ..EXAMPLE
    }
}

/// Sends a number of slabs, until all of them are in the receiver's custody.
fn run(config: Config, slabs: usize, loss_ppb: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let (mut ours, mut theirs) = (Ours::new(config), Theirs::new(config));
    let (mut path, mut now) = (Path::default(), Instant::ZERO);
    for _ in 0..100_000 {
        now += Duration::from_micros(100 + rng.below(1000));
        if ours.slabs.len() < slabs && rng.below(3) == 0 && ours.machine.room() > 0 {
            path.there.push_back((now, ours.launch(&mut rng)));
        }
        for _ in 0..rng.below(60) {
            let Some(packet) = ours.poll() else { break };
            path.carry(now, packet, loss_ppb, &mut rng);
        }
        path.there.extend(ours.ask().map(|sent| (now, sent)));
        // messages are sometimes slower than datagrams, and sometimes faster
        let before = now - Duration::from_millis(rng.below(20));
        while let Some((_, sent)) = path.there.pop_front_if(|(at, _)| *at <= before) {
            theirs.hear(now, sent);
        }
        while let Some(entry) = path
            .datagrams
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let (packet, len) = entry.remove();
            theirs.hear_datagram(now, packet, len);
        }
        path.back
            .extend(theirs.judge(&mut rng).map(|sent| (now, sent)));
        theirs.free(&mut rng);
        path.back
            .extend(theirs.say(now).into_iter().map(|sent| (now, sent)));
        while let Some((_, sent)) = path.back.pop_front_if(|(at, _)| *at <= before) {
            ours.hear(now, sent);
        }
        if rng.below(100) == 0 {
            // the connection breaks, and what was on its way is lost with it
            path.datagrams.clear();
            ours.machine.reconnect();
            ours.asked = None;
        }
        ours.hear_lies();
        ours.check();
        theirs.check();
        if ours.slabs.len() == slabs
            && ours.held.is_empty()
            && ours.slabs.iter().all(|slab| slab.kept)
        {
            assert_eq!(theirs.first(), ours.next_page);
            return;
        }
    }
    panic!("not all slabs got into custody");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn every_record_gets_into_custody_once_on_any_path(
        pages_max in 16_u32..64,
        loss_ppb in prop_oneof![Just(0), 0_u64..300_000_000],
        seed: u64,
    ) {
        run(small(pages_max), 12, loss_ppb, seed);
    }
}
