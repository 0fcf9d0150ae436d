//! Receiver of SABUL: [`Receiver`] is the state machine, [`ReceiverEvent`] its events.
//!
//! A gap in the packet numbers is reported at once in a NAK, and again after increasing numbers of round trips until
//! the packets arrive. An ACK is sent in each interval (10 ms).

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Deadline, Endpoint, Instant, Load, Message, Span, Transmit, Via};
use lighthaul_parts::{ArrivalCounts, LossList, ReceiverPause};

use super::config::{RTT_MAX, SYN};
use super::wire::{Ack, Clock, Control, NAK_RANGES_MAX, Packet};
use super::{Config, PeerMisbehaved};

/// State machine of the receiver. It places each new packet, sends an ACK every SYN interval, and reports each loss
/// immediately and then repeatedly until it is repaired (section 3.4).
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Receiver {
    config: Config,
    total: u64,
    /// Largest packet number received, plus 1.
    next: u64,
    missing: LossList,
    received: u64,
    rtt: Duration,
    /// Losses that have not been reported yet.
    losses: VecDeque<Range<u64>>,
    /// Losses that have been reported, ordered by the time of the next report.
    reports: BinaryHeap<Reverse<Report>>,
    newest: Option<NewestPacket>,
    acked_at: Option<Instant>,
    sent_report: Option<SentReport>,
    hold: ReceiverPause,
    arrivals: ArrivalCounts,
    over: bool,
    event: Option<ReceiverEvent>,
}

/// Event for the owner of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// All packets have arrived, and the final ACK was sent.
    Complete,
    /// The sender violated the protocol. No further message is answered.
    Failed(PeerMisbehaved),
}

/// Reported loss, and the time of the next report if the packets are still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Report {
    due: Instant,
    from: u64,
    till: u64,
    /// Number of round trips until the following report.
    k: u32,
}

/// Packets received since the last ACK.
#[derive(Clone, Copy, Debug)]
struct NewestPacket {
    /// Arrival time of the newest packet.
    at: Instant,
    /// Transmission time of the newest packet, by the sender's clock.
    left: Clock,
    /// Minimum difference of both clocks.
    delay: u32,
}

/// Progress that the sender reported.
#[derive(Clone, Copy, Debug)]
struct SentReport {
    till: u64,
    /// Time at which packets below `till` that have not arrived count as lost.
    due: Instant,
}

impl Receiver {
    /// Returns a receiver of an object without any data yet. Panics unless `config` passes [`Config::check`].
    pub fn new(_now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        Self {
            config,
            total: config.framing.packets(),
            next: 0,
            missing: LossList::new(config.ranges_max as usize),
            received: 0,
            rtt: config.memory.rtt,
            losses: VecDeque::new(),
            reports: BinaryHeap::new(),
            newest: None,
            acked_at: None,
            sent_report: None,
            hold: ReceiverPause::default(),
            arrivals: ArrivalCounts::default(),
            over: false,
            event: None,
        }
    }

    /// Returns the number of distinct packets received.
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns the number of packets of the object.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the packets that are lost or were overtaken by others.
    pub const fn losses(&self) -> &LossList {
        &self.missing
    }

    /// Returns the counts of the datagrams received.
    pub const fn arrivals(&self) -> ArrivalCounts {
        self.arrivals
    }

    /// True if the sender was asked to stop because this host cannot keep up.
    pub const fn is_holding(&self) -> bool {
        self.hold.is_on()
    }

    fn handle_datagram(&mut self, now: Instant, head: &[u8], len: u32) -> Option<Span> {
        self.arrivals.datagrams += 1;
        let packet = Packet::decode(head).ok().filter(|_| !self.over);
        let placed = packet.and_then(|packet| {
            let span = self
                .config
                .framing
                .layout()
                .place(packet.number.into(), len)?;
            Some((packet, span))
        });
        let Some((packet, span)) = placed else {
            self.arrivals.ignored += u64::from(!self.over);
            self.arrivals.duplicates += u64::from(self.over);
            return None;
        };
        self.take(now, packet.number.into()).then(|| {
            self.record_time(now, packet.clock);
            span
        })
    }

    /// Records a packet, and returns true for a new one.
    fn take(&mut self, now: Instant, number: u64) -> bool {
        if number < self.next {
            // a packet that would split a range of a full loss list is dropped and has to be resent
            if !self.missing.remove(number) {
                self.arrivals.duplicates += 1;
                return false;
            }
        } else if self.lose(number) {
            self.next = number + 1;
            let due = now + self.reorder_time();
            if let Some(sent_report) = &mut self.sent_report {
                sent_report.due = due;
            }
        } else {
            self.arrivals.ignored += 1;
            return false;
        }
        self.received += 1;
        true
    }

    /// Records all packets below `till` that have not arrived as lost. Returns false if the loss list is full.
    fn lose(&mut self, till: u64) -> bool {
        let lost = self.next..till;
        if lost.is_empty() {
            return true;
        }
        let is_full = self.reports.len() >= 2 * self.config.ranges_max as usize;
        if is_full || self.missing.insert(lost.clone()).is_none() {
            return false;
        }
        self.losses.push_back(lost);
        true
    }

    fn record_time(&mut self, now: Instant, left: Clock) {
        let delay = Clock::at(now).since(left);
        let delay = match self.newest {
            // clock differences wrap around
            Some(newest) if delay.wrapping_sub(newest.delay).cast_signed() > 0 => newest.delay,
            _ => delay,
        };
        self.newest = Some(NewestPacket {
            at: now,
            left,
            delay,
        });
    }

    fn handle_control(&mut self, now: Instant, head: &[u8]) {
        match Control::decode(head) {
            Ok(Control::Sent(till)) => self.handle_sent(now, till.into()),
            Ok(Control::Rtt(micros)) => {
                self.rtt = Duration::from_micros(micros.into()).min(RTT_MAX);
            }
            Ok(Control::Ack(_) | Control::Nak { .. } | Control::Hold(_)) | Err(_) => {
                self.arrivals.ignored += 1;
            }
        }
    }

    fn handle_sent(&mut self, now: Instant, till: u64) {
        if self.over {
            return;
        }
        if till > self.total {
            self.over = true;
            self.event = Some(ReceiverEvent::Failed(PeerMisbehaved::SentBeyond(till)));
            return;
        }
        let till = self
            .sent_report
            .map_or(till, |sent_report| sent_report.till.max(till));
        let due = now + self.reorder_time();
        self.sent_report = Some(SentReport { till, due });
    }

    /// Returns the time by which a datagram may arrive later than a stream message that was sent after it.
    fn reorder_time(&self) -> Duration {
        SYN.max(self.rtt / 2)
    }

    /// Records reported but missing packets as lost once they are overdue.
    fn check_sent_report(&mut self, now: Instant) {
        let Some(sent_report) = self
            .sent_report
            .filter(|sent_report| sent_report.due <= now)
        else {
            return;
        };
        if sent_report.till <= self.next {
            self.sent_report = None;
        } else if self.lose(sent_report.till) {
            self.next = sent_report.till;
            self.sent_report = None;
        } else {
            let due = now + self.reorder_time();
            self.sent_report = Some(SentReport { due, ..sent_report });
        }
    }

    /// Returns the first report of new losses.
    fn nak(&mut self, now: Instant) -> Option<Transmit> {
        let mut ranges = Vec::new();
        while ranges.len() < NAK_RANGES_MAX
            && let Some(lost) = self.losses.pop_front()
        {
            self.schedule_report(now, lost.clone(), FIRST_K);
            ranges.push(lost);
        }
        self.nak_message(false, ranges)
    }

    /// Returns the repeated report of losses that were not repaired in time.
    fn nak_again(&mut self, now: Instant) -> Option<Transmit> {
        let mut ranges = Vec::new();
        while let Some(Reverse(report)) = self.reports.peek().copied()
            && report.due <= now
            && ranges.len() < NAK_RANGES_MAX
        {
            self.reports.pop();
            self.repeat(now, report, &mut ranges);
        }
        ranges.sort_unstable_by_key(|range| range.start);
        self.nak_message(true, ranges)
    }

    /// Adds the missing part of a report to `ranges`, as far as the NAK has space, and schedules the next report.
    fn repeat(&mut self, now: Instant, report: Report, ranges: &mut Vec<Range<u64>>) {
        let mut from = report.from;
        let mut first = None;
        while from < report.till && ranges.len() < NAK_RANGES_MAX {
            let Some(lost) = self
                .missing
                .next(from)
                .filter(|lost| lost.start < report.till)
            else {
                from = report.till;
                break;
            };
            let lost = lost.start..lost.end.min(report.till);
            first = first.or(Some(lost.start));
            from = lost.end;
            ranges.push(lost);
        }
        if let Some(first) = first {
            self.schedule_report(now, first..from, report.k + 1);
        }
        if from < report.till {
            self.reports.push(Reverse(Report { from, ..report }));
        }
    }

    fn schedule_report(&mut self, now: Instant, lost: Range<u64>, k: u32) {
        self.reports.push(Reverse(Report {
            due: now + self.rtt.max(SYN) * k,
            from: lost.start,
            till: lost.end,
            k: k.min(K_MAX),
        }));
    }

    fn nak_message(&self, again: bool, ranges: Vec<Range<u64>>) -> Option<Transmit> {
        if ranges.is_empty() {
            return None;
        }
        let ranges = merged(ranges);
        Some(Control::Nak { again, ranges }.transmit(self.config.stream))
    }

    /// Returns an ACK once per SYN interval, and immediately when all packets have arrived.
    fn ack(&mut self, now: Instant) -> Option<Transmit> {
        if self.over {
            return None;
        }
        let is_whole =
            self.received == self.total && (self.total > 0 || self.sent_report.is_some());
        if !is_whole && self.ack_due().is_none_or(|due| now < due) {
            return None;
        }
        let nothing = NewestPacket {
            at: now,
            left: Clock::at(now),
            delay: 0,
        };
        let newest = self.newest.take().unwrap_or(nothing);
        self.acked_at = Some(now);
        if is_whole {
            self.over = true;
            self.event = Some(ReceiverEvent::Complete);
        }
        let held = now.since(newest.at).as_micros() as u32;
        let ack = Ack {
            till: self.missing.first().unwrap_or(self.next) as u32,
            received: self.received as u32,
            clock: Clock::at(now),
            echo: Clock(newest.left.0.wrapping_add(held)),
            delay: newest.delay,
        };
        Some(Control::Ack(ack).transmit(self.config.stream))
    }

    fn ack_due(&self) -> Option<Instant> {
        let newest = self.newest?;
        Some(self.acked_at.map_or(newest.at, |at| at + SYN))
    }

    fn hold_message(&mut self) -> Option<Transmit> {
        let on = self.hold.poll()?;
        Some(Control::Hold(on).transmit(self.config.stream))
    }
}

impl Endpoint for Receiver {
    type Event = ReceiverEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        match message.via {
            Via::Datagram => self.handle_datagram(now, message.head, message.len),
            Via::Stream(stream) => {
                if stream == self.config.stream && message.len == 0 {
                    self.handle_control(now, message.head);
                } else {
                    self.arrivals.ignored += 1;
                }
                None
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.over {
            self.check_sent_report(now);
        }
    }

    fn handle_load(&mut self, _now: Instant, load: Load) {
        self.hold.handle_load(&load);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.over {
            return None;
        }
        if !self.losses.is_empty() {
            return self.nak(now);
        }
        self.hold_message()
            .or_else(|| self.nak_again(now))
            .or_else(|| self.ack(now))
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.event.take()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.over {
            return None;
        }
        let deadline = |at, why| Deadline { at, why };
        let report = self.reports.peek();
        [
            self.ack_due().map(|at| deadline(at, "ack")),
            report.map(|Reverse(report)| deadline(report.due, "nak")),
            self.sent_report
                .map(|sent_report| deadline(sent_report.due, "settle")),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let missing = |from, packets_max| {
            let run = self.missing.next(from);
            let run = run.unwrap_or_else(|| self.next.max(from)..self.total);
            Some(run.start..run.end.min(run.start.saturating_add(packets_max)))
        };
        self.config.framing.layout().upcoming(offset, len, missing)
    }
}

/// Merges ranges that touch or overlap. They must be sorted by their start.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Round trips until a loss is reported again. Each further report waits one round trip longer.
const FIRST_K: u32 = 2;
/// Maximum number of round trips between two reports.
const K_MAX: u32 = 32;
