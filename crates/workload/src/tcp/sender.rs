//! Sender of the simulated TCP.

use alloc::collections::VecDeque;
use core::convert::Infallible;
use core::time::Duration;

use lighthaul_base::{Body, Deadline, Endpoint, Instant, Message, Span, Transmit, Via};

use super::bbr::{Bbr, quantum};
use super::control::Control;
use super::cubic::Cubic;
use super::flight::{Acked, Flight};
use super::messages::{Ack, Data};
use super::reno::Reno;
use super::sample::Sample;

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Reno (RFC 5681).
    Reno,
    /// CUBIC, the default of Linux.
    Cubic,
    /// BBR, version 1.
    Bbr,
}

/// Parameters of a sender.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Bytes in each packet.
    pub packet_len: u32,
}

/// Sender that always has data.
#[derive(Debug)]
// fields: state of one machine, which each event reads and changes
pub struct Sender {
    packet_len: u32,
    control: Control,
    flight: Flight,
    lost: VecDeque<u32>,
    next_packet: u32,
    /// First transmission after the beginning of the recovery; none outside a recovery.
    recovery: Option<u32>,
    rtt: RttEstimate,
    /// Time from which the pace allows the next packet.
    paced: Instant,
    /// Time at which a timer lets a paced train start.
    train: Instant,
    deadline: Instant,
    backoff: u32,
    may_send_new: bool,
    sent: u64,
}

#[derive(Debug, Default)]
struct RttEstimate {
    smoothed: Option<Duration>,
    variation: Duration,
}

impl Sender {
    /// Returns a sender that starts at `now`. `seed` determines the phase of BBR's cycle.
    pub fn new(now: Instant, config: Config, seed: u64) -> Self {
        Self {
            packet_len: config.packet_len,
            control: match config.algorithm {
                Algorithm::Reno => Control::Reno(Reno::new()),
                Algorithm::Cubic => Control::Cubic(Cubic::new()),
                Algorithm::Bbr => Control::Bbr(Bbr::new(seed)),
            },
            flight: Flight::default(),
            lost: VecDeque::new(),
            next_packet: 0,
            recovery: None,
            rtt: RttEstimate::default(),
            paced: now,
            train: now,
            deadline: Instant::NEVER,
            backoff: 1,
            may_send_new: true,
            sent: 0,
        }
    }

    /// Lets the sender send new packets, or only lost packets.
    pub const fn allow_new(&mut self, allowed: bool) {
        self.may_send_new = allowed;
    }

    /// Returns the number of packets sent, and the number of them sent again.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent, self.sent - u64::from(self.next_packet))
    }

    /// Returns the congestion window in packets.
    pub fn window(&self) -> u32 {
        self.control.window()
    }

    fn handle_acked(&mut self, now: Instant, acked: Acked) {
        self.rtt.update(acked.rtt);
        self.backoff = 1;
        self.deadline = now + self.rtt.timeout();
        let was_recovering = self.recovery;
        if self
            .recovery
            .is_some_and(|till| self.flight.first() >= till)
        {
            self.recovery = None;
            self.control.end_recovery();
        }
        let sample = Sample {
            now,
            acked: acked.packets,
            lost: acked.lost.len() as u32,
            rtt: acked.rtt,
            packets_per_second: acked.packets_per_second,
            delivered: self.flight.delivered(),
            delivered_before: acked.delivered_before,
            in_flight: self.flight.pending(),
            is_recovering: self.recovery.is_some(),
        };
        self.lost.extend(acked.lost);
        let is_new_loss = acked
            .last_lost
            .is_some_and(|lost| was_recovering.is_none_or(|till| lost >= till));
        if is_new_loss {
            self.recovery = Some(self.flight.next());
            self.control.begin_recovery(&sample);
        }
        self.control.handle_ack(&sample);
    }

    /// Returns the packet that may be sent next.
    fn take_packet(&mut self) -> Option<u32> {
        self.lost.pop_front().or_else(|| {
            let packet = self.may_send_new.then_some(self.next_packet)?;
            self.next_packet += 1;
            Some(packet)
        })
    }

    /// Delays the next packet to keep the pace.
    fn pace(&mut self, now: Instant) {
        if let Some(pace) = self.control.pace() {
            let interval = Duration::from_secs_f64(1.0 / pace.max(1.0));
            self.paced = self.paced.max(now) + interval;
        }
    }

    fn has_data(&self) -> bool {
        self.may_send_new || !self.lost.is_empty()
    }

    fn has_room(&self) -> bool {
        self.flight.pending() < self.control.window() && self.has_data()
    }
}

impl Endpoint for Sender {
    type Event = Infallible;

    fn handle_message(&mut self, now: Instant, message: Message<'_>) -> Option<Span> {
        let ack = Ack::from_head(message.head)?;
        if let Some(acked) = self.flight.acknowledge(now, ack) {
            self.handle_acked(now, acked);
        }
        None
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.deadline {
            return;
        }
        self.deadline = Instant::NEVER;
        if self.flight.pending() > 0 {
            self.lost.extend(self.flight.lose_all());
            self.control.handle_timeout();
            self.recovery = None;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
            self.deadline = now + self.rtt.timeout() * self.backoff;
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if !self.has_room() || self.control.pace().is_some() && now < self.train {
            return None;
        }
        if let Some(pace) = self.control.pace()
            && now < self.paced
        {
            // the next train starts when it is due as a whole
            let more = Duration::from_secs_f64((quantum(pace) - 1.0) / pace);
            let budget = now + more;
            if self.paced > budget {
                self.train = self.paced;
                return None;
            }
        }
        let packet = self.take_packet()?;
        let transmission = self.flight.send(now, packet);
        if self.deadline == Instant::NEVER {
            self.deadline = now + self.rtt.timeout();
        }
        self.sent += 1;
        self.pace(now);
        let offset = u64::from(packet) * u64::from(self.packet_len);
        Some(Transmit {
            via: Via::Datagram,
            head: Data {
                transmission,
                packet,
            }
            .to_head(),
            body: Body::Object(Span::new(offset, self.packet_len)),
        })
    }

    fn poll_event(&mut self) -> Option<Infallible> {
        None
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        let waits = self.has_room() && self.control.pace().is_some();
        let at = if waits {
            self.deadline.min(self.train)
        } else if self.flight.pending() > 0 || self.has_data() {
            self.deadline
        } else {
            return None;
        };
        Some(Deadline {
            at,
            why: "pace or retransmission",
        })
    }
}

impl RttEstimate {
    /// Adds a sample (RFC 6298, section 2).
    fn update(&mut self, rtt: Duration) {
        let Some(smoothed) = self.smoothed else {
            (self.smoothed, self.variation) = (Some(rtt), rtt / 2);
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
        self.smoothed = Some((smoothed * 7 + rtt) / 8);
    }

    fn timeout(&self) -> Duration {
        self.smoothed.map_or(TIMEOUT_INITIAL, |smoothed| {
            smoothed + (self.variation * 4).max(TIMEOUT_MIN)
        })
    }
}

/// First retransmission timeout of Linux.
const TIMEOUT_INITIAL: Duration = Duration::from_secs(1);
/// Minimum time of Linux by which the timeout exceeds the round-trip time.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
const BACKOFF_MAX: u32 = 64;
