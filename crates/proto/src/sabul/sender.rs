//! Sender of SABUL: [`Sender`] is the state machine, [`SenderEvent`] its events.
//!
//! Packets in the loss list are sent first, then new packets, at the rate of [`RateControl`] and within the flow
//! window. At the end of each interval (10 ms) the rate adapts to the losses of that interval. The transfer is
//! complete when an ACK covers all packets.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Head, Instant, Message, Rate, Span, Transmit, Via};
use lighthaul_parts::{Events, LossList, Pacer};

use super::config::{Config, Memory, Mode, RTT_MAX, SYN};
use super::flow::FlowWindow;
use super::rate::RateControl;
use super::sample::{Interval, Loss};
use super::wire::{Ack, Clock, Control, Packet};

/// State machine of the sender. It sends lost packets before new ones, within its rate and its flow window (section
/// 3.4).
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
// fields: state of one machine, which each event reads and changes
pub struct Sender {
    config: Config,
    total: u64,
    pacer: Pacer,
    control: RateControl,
    window: FlowWindow,
    /// Lengthening of the route for which the window was sized.
    longer: Duration,
    /// True if neither rate nor window limits the sender.
    is_unlimited: bool,
    losses: LossList,
    /// First packet that was never sent.
    next: u64,
    /// All packets below this number have arrived.
    acked: u64,
    /// Number of packets that have arrived.
    received: u64,
    rtt: Duration,
    /// Round-trip time that the receiver was last sent.
    rtt_reported: Duration,
    syn: Syn,
    frozen_till: Instant,
    held: bool,
    /// True if the sender waits for something other than the rate.
    is_blocked: bool,
    /// Time of the latest feedback.
    feedback_at: Instant,
    /// Time of the latest feedback that reported a new packet.
    progress_at: Instant,
    must_report_sent: bool,
    over: bool,
    sent: u64,
    again: u32,
    ignored: u64,
    events: Events<SenderEvent, EVENTS_MAX>,
}

/// Event for the owner of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// Every packet was sent once. Only retransmissions follow.
    Passed,
    /// No new packet reached the receiver for several round trips, although datagrams were sent.
    Barren,
    /// The receiver has all packets.
    Complete,
    /// The receiver violated the protocol. Nothing more is sent.
    Failed(PeerMisbehaved),
}

/// Protocol violation by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMisbehaved {
    /// An ACK covers packets that were never sent.
    AckBeyond(u64),
    /// An ACK lacks packets that an earlier ACK had.
    AckShrank,
    /// A NAK names packets that were never sent.
    NakBeyond(u64),
    /// The sender reports more packets sent than the object has.
    SentBeyond(u64),
    /// Packets are still missing after 2^32 retransmissions.
    NeverWhole,
}

/// Statistics of the present SYN interval.
#[derive(Clone, Copy, Debug)]
struct Syn {
    ends: Instant,
    sent: u64,
    lost: u64,
    is_limited_elsewhere: bool,
}

impl Sender {
    /// Returns a sender that begins at once, in the state of `config.memory`. Panics unless `config` passes
    /// [`Config::check`].
    pub fn new(now: Instant, config: Config, _seed: u64) -> Self {
        assert_eq!(config.check(), Ok(()), "the config must pass check()");
        let Memory {
            rate, rtt, busy, ..
        } = config.memory;
        let packet_bytes = config.framing.wire_bytes(config.framing.packet_len);
        let mut control = RateControl::new(config.mode, &config.memory, packet_bytes);
        control.limit(config.rate_max);
        let is_unlimited = rate == Rate::UNLIMITED;
        let paced = if is_unlimited { rate } else { control.rate() };
        let total = config.framing.packets();
        Self {
            config,
            total,
            pacer: Pacer::new(now, paced, config.burst, packet_bytes),
            control,
            window: FlowWindow::new(config.window_max, &config.memory, config.mode),
            longer: config.memory.longer,
            is_unlimited,
            losses: LossList::new(config.ranges_max as usize),
            next: 0,
            acked: 0,
            received: 0,
            rtt,
            rtt_reported: rtt,
            syn: Syn::from(now),
            frozen_till: now + busy.min(BUSY_MAX),
            held: false,
            is_blocked: false,
            feedback_at: now,
            progress_at: now,
            must_report_sent: total == 0,
            over: false,
            sent: 0,
            again: 0,
            ignored: 0,
            events: Events::default(),
        }
    }

    /// Returns the state from which the next object's sender should start.
    pub fn memory(&self) -> Memory {
        let unsent = self.unsent() * u64::from(self.config.framing.packet_len);
        let memory = Memory {
            rate: self.rate(),
            rtt: self.rtt,
            busy: self.rate().time_for(unsent),
            has_lost: self.config.memory.has_lost || !self.window.grows(),
            ..self.config.memory
        };
        self.control.updated_memory(memory)
    }

    /// Returns the number of packets sent, retransmissions included.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of retransmissions.
    pub const fn resent(&self) -> u64 {
        self.again as u64
    }

    /// Returns the number of packets that were never sent.
    pub const fn unsent(&self) -> u64 {
        self.total - self.next
    }

    /// Returns the number of packets that the receiver has not confirmed.
    pub const fn missing(&self) -> u64 {
        self.total - self.received
    }

    /// Returns the number of packets of the object.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the packets to be retransmitted.
    pub const fn losses(&self) -> &LossList {
        &self.losses
    }

    /// True if the receiver has asked to stop because its host cannot keep up.
    pub const fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the number of messages that were ignored as invalid.
    pub const fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the present sending rate.
    pub const fn rate(&self) -> Rate {
        self.pacer.rate()
    }

    /// Returns the smoothed round-trip time.
    pub const fn rtt(&self) -> Duration {
        self.rtt
    }

    fn handle_control(&mut self, now: Instant, head: &[u8]) {
        match Control::decode(head) {
            _ if self.over => {}
            Ok(Control::Ack(ack)) => self.handle_ack(now, &ack),
            Ok(Control::Nak { ranges, .. }) => self.handle_nak(now, &ranges),
            Ok(Control::Hold(on)) => self.held = on,
            Ok(Control::Sent(_) | Control::Rtt(_)) | Err(_) => self.ignored += 1,
        }
    }

    fn handle_ack(&mut self, now: Instant, ack: &Ack) {
        let (till, received) = (u64::from(ack.till), u64::from(ack.received));
        if till > self.next || received > self.next {
            return self.fail(PeerMisbehaved::AckBeyond(till.max(received)));
        }
        if till < self.acked || received < self.received || received < till {
            return self.fail(PeerMisbehaved::AckShrank);
        }
        self.feedback_at = now;
        if received > self.received {
            self.progress_at = now;
            self.measure_rtt(now, ack.echo);
            let freeze = self.control.handle_ack(now, ack);
            self.freeze(now, freeze);
            self.apply_rate(now);
            self.fit_window();
        }
        (self.acked, self.received) = (till, received);
        self.losses.remove_below(till);
        self.window.handle_ack(till);
        if till == self.total {
            self.over = true;
            self.events.push(SenderEvent::Complete);
        }
    }

    /// Updates the round-trip time from the packet that an ACK echoes.
    fn measure_rtt(&mut self, now: Instant, echo: Clock) {
        let micros = Clock::at(now).since(echo);
        let sample = Duration::from_micros(micros.into());
        if sample <= RTT_MAX {
            self.rtt = (self.rtt * 7 + sample) / 8;
        }
    }

    /// Fits the flow window to a route that has become longer, or shorter again, during this object.
    fn fit_window(&mut self) {
        let (before, longer) = (self.config.memory.longer, self.control.longer());
        if longer != self.longer {
            self.longer = longer;
            let whole = self.config.memory.rtt + SYN;
            let more = longer.saturating_sub(before);
            let packets = u64::from(self.config.window_max);
            let more = u128::from(packets) * more.as_nanos() / whole.as_nanos();
            self.window.resize(packets + (more as u64).min(WINDOW_MAX));
        }
    }

    fn handle_nak(&mut self, now: Instant, ranges: &[Range<u64>]) {
        let last = ranges.last().map_or(0, |range| range.end);
        if last > self.next {
            return self.fail(PeerMisbehaved::NakBeyond(last - 1));
        }
        self.feedback_at = now;
        self.window.handle_nak();
        for range in ranges {
            let lost = range.start.max(self.acked)..range.end;
            // a range that does not fit in the list will be reported again
            if !lost.is_empty()
                && let Some(new) = self.losses.insert(lost)
            {
                self.syn.lost += new;
                self.lower(now, range.end - 1);
            }
        }
        self.apply_rate(now);
    }

    fn lower(&mut self, now: Instant, number: u64) {
        let (next, rtt) = (self.next, self.rtt);
        let freeze = self.control.handle_loss(now, Loss { number, next, rtt });
        self.freeze(now, freeze);
    }

    fn freeze(&mut self, now: Instant, time: Duration) {
        if !self.is_unlimited {
            self.frozen_till = self.frozen_till.max(now + time);
        }
    }

    fn apply_rate(&mut self, now: Instant) {
        let rate = self.control.rate();
        if !self.is_unlimited && rate != self.pacer.rate() {
            self.pacer.handle_rate(now, rate);
        }
    }

    /// Runs the tasks that are due once per SYN interval.
    fn handle_syn(&mut self, now: Instant) {
        self.control.handle_syn(&Interval {
            sent: self.syn.sent,
            lost: self.syn.lost,
            is_limited_elsewhere: self.syn.is_limited_elsewhere,
            rtt: self.rtt,
        });
        self.apply_rate(now);
        self.syn = Syn::from(now);
        let is_waiting = self.acked < self.next;
        if !is_waiting || self.held {
            self.feedback_at = now;
            self.progress_at = now;
        }
        if now.since(self.feedback_at) > self.rtt * 2 + SYN * 4 {
            self.feedback_at = now;
            self.must_report_sent = true;
        }
        if now.since(self.progress_at) > self.rtt * 3 + SYN * 20 {
            self.progress_at = now;
            self.events.push(SenderEvent::Barren);
        }
    }

    /// Returns the next message for the stream.
    fn stream_message(&mut self) -> Option<Transmit> {
        let stream = self.config.stream;
        if self.rtt.abs_diff(self.rtt_reported) > self.rtt_reported / 8 + RTT_STEP {
            self.rtt_reported = self.rtt;
            let micros = self.rtt.as_micros() as u32;
            return Some(Control::Rtt(micros).transmit(stream));
        }
        if self.must_report_sent {
            self.must_report_sent = false;
            if self.next == self.total {
                self.events.push(SenderEvent::Passed);
            }
            return Some(Control::Sent(self.next as u32).transmit(stream));
        }
        None
    }

    /// Number of packets that count against the flow window. By the paper's rules, a single missing packet holds up all
    /// that follow it. Where a lost packet is often lost again, this would leave the path idle.
    const fn unacknowledged(&self) -> u64 {
        match self.config.mode {
            Mode::Paper | Mode::Fixed => self.next - self.acked,
            Mode::Swift => self.next - self.received,
        }
    }

    /// Returns the next packet to be sent, regardless of the rate.
    fn next_packet(&self) -> Option<u64> {
        if self.held {
            return None;
        }
        let lost = self.losses.first();
        lost.or_else(|| {
            let admits = self.is_unlimited || self.window.admits(self.unacknowledged());
            (admits && self.next < self.total).then_some(self.next)
        })
    }

    fn send(&mut self, now: Instant) -> Option<Transmit> {
        let number = self.next_packet().filter(|_| self.frozen_till <= now);
        let Some(number) = number else {
            self.is_blocked = true;
            self.syn.is_limited_elsewhere |=
                self.window.is_largest() || self.next_packet().is_some();
            return None;
        };
        if self.is_blocked {
            self.is_blocked = false;
            self.pacer.rest(now);
        }
        let span = self.config.framing.layout().span(number);
        if !self
            .pacer
            .may_send(now, self.config.framing.wire_bytes(span.len))
        {
            return None;
        }
        let Some(again) = self.take(number) else {
            self.fail(PeerMisbehaved::NeverWhole);
            return None;
        };
        self.sent += 1;
        self.syn.sent += 1;
        let packet = Packet {
            again,
            number: number as u32,
            clock: Clock::at(now),
        };
        Some(Transmit {
            via: Via::Datagram,
            head: Head::new(&packet.encode()),
            body: Body::Object(span),
        })
    }

    /// Marks a packet as sent. Returns its retransmission number, or `None` if that is exhausted.
    fn take(&mut self, number: u64) -> Option<u32> {
        if number == self.next {
            self.next += 1;
            self.must_report_sent |= self.next == self.total;
            return Some(0);
        }
        self.losses.pop_first();
        self.again = self.again.checked_add(1)?;
        Some(self.again)
    }

    fn fail(&mut self, why: PeerMisbehaved) {
        self.over = true;
        self.events.push(SenderEvent::Failed(why));
    }
}

impl Syn {
    fn from(now: Instant) -> Self {
        Self {
            ends: now + SYN,
            sent: 0,
            lost: 0,
            is_limited_elsewhere: false,
        }
    }
}

impl Endpoint for Sender {
    type Event = SenderEvent;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        if message.via == Via::Stream(self.config.stream) && message.len == 0 {
            self.handle_control(now, message.head);
        } else {
            self.ignored += 1;
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        if !self.over && self.syn.ends <= now {
            self.handle_syn(now);
        }
    }

    /// Limits the rate to `rate` from now on. [`Rate::UNLIMITED`] also disables pacing and the flow window, for a
    /// driver that limits the data in flight by other means.
    fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.control.limit(rate);
        self.is_unlimited = rate == Rate::UNLIMITED;
        if self.is_unlimited {
            self.frozen_till = now;
            self.pacer.handle_rate(now, rate);
        }
        self.apply_rate(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if self.over {
            return None;
        }
        self.stream_message().or_else(|| self.send(now))
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.events.poll()
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        if self.over {
            return None;
        }
        let syn = Deadline {
            at: self.syn.ends,
            why: "syn",
        };
        if self.next_packet().is_none() {
            return Some(syn);
        }
        let pace = Deadline {
            at: self.pacer.due().max(self.frozen_till),
            why: "pace",
        };
        Some(pace.min(syn))
    }

    fn upcoming(&self, offset: u64, len: u32) -> Option<Span> {
        let packet_len = u64::from(self.config.framing.packet_len);
        let from = offset / packet_len;
        let run = self.losses.next(from);
        let run = run.unwrap_or_else(|| self.next.max(from)..self.total);
        let start = offset.max(run.start.checked_mul(packet_len)?);
        let end = run
            .end
            .checked_mul(packet_len)?
            .min(self.config.framing.object_len);
        let len = end.checked_sub(start)?.min(u64::from(len));
        (len > 0 && !self.over).then(|| Span::new(start, len as u32))
    }
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AckBeyond(number) => write!(
                f,
                "the receiver acknowledges {number} packets, more than were sent"
            ),
            Self::AckShrank => write!(
                f,
                "the receiver's ACK lacks packets that an earlier ACK had"
            ),
            Self::NakBeyond(number) => {
                write!(
                    f,
                    "the receiver reports packet {number} as missing, which was never sent"
                )
            }
            Self::SentBeyond(sent) => write!(
                f,
                "the sender reports {sent} packets sent, more than the object has"
            ),
            Self::NeverWhole => write!(
                f,
                "the receiver still lacks packets after {} retransmissions",
                u32::MAX
            ),
        }
    }
}

impl core::error::Error for PeerMisbehaved {}

/// Maximum number of packets by which a window grows.
const WINDOW_MAX: u64 = 1 << 20;
/// Minimum change of the round-trip time that is sent to the receiver, in addition to an eighth.
const RTT_STEP: Duration = Duration::from_micros(500);
/// Bound of events per call: all packets sent, no progress, and completion, with some reserve.
const EVENTS_MAX: usize = 4;

/// Longest time for which a sender waits for the end of the previous object.
const BUSY_MAX: Duration = Duration::from_millis(100);
