//! Packets in flight: arrived packets, lost packets, and the arrival rate.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use lighthaul_base::Instant;

use super::messages::Ack;

/// Later transmissions whose acknowledgment marks an earlier one as lost (RFC 6675).
const DUPLICATES: u32 = 3;

/// Transmissions in flight, in order.
#[derive(Debug, Default)]
pub(super) struct Flight {
    sent: VecDeque<Sent>,
    /// Number of the first transmission.
    first: u32,
    /// Transmissions that are neither acknowledged nor lost.
    pending: u32,
    /// Number of packets acknowledged in total.
    delivered: u64,
    /// Time of the latest acknowledgment.
    delivered_at: Instant,
    /// Time at which the latest acknowledged packet was sent.
    first_sent_at: Instant,
    highest_acked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    packet: u32,
    at: Instant,
    is_acked: bool,
    delivered: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
}

/// Result of an acknowledgment.
#[derive(Clone, Debug)]
pub(super) struct Acked {
    /// Packets that were acknowledged now.
    pub(super) packets: u32,
    /// Round-trip time of the latest.
    pub(super) rtt: Duration,
    /// Packets a second over the last round trip.
    pub(super) packets_per_second: f64,
    /// Packets acknowledged before the latest was sent.
    pub(super) delivered_before: u64,
    /// Lost packets, with the last transmission of them.
    pub(super) lost: Vec<u32>,
    pub(super) last_lost: Option<u32>,
}

impl Flight {
    /// Records a transmission of `packet`. Returns its number.
    pub(super) fn send(&mut self, now: Instant, packet: u32) -> u32 {
        if self.pending == 0 {
            // the clock of a rate starts again after a pause
            (self.delivered_at, self.first_sent_at) = (now, now);
        }
        self.sent.push_back(Sent {
            packet,
            at: now,
            is_acked: false,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        });
        self.pending += 1;
        self.first + self.sent.len() as u32 - 1
    }

    /// Returns the number of packets in flight.
    pub(super) const fn pending(&self) -> u32 {
        self.pending
    }

    /// Returns the packets acknowledged in total.
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the number of the next transmission.
    pub(super) fn next(&self) -> u32 {
        self.first + self.sent.len() as u32
    }

    /// Returns the number of the first transmission in flight.
    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    /// Applies an acknowledgment. Returns nothing if it tells nothing new.
    pub(super) fn acknowledge(&mut self, now: Instant, ack: Ack) -> Option<Acked> {
        let mut packets = 0;
        let mut latest = None;
        for number in ack.first.max(self.first)..=ack.last {
            let nth = (number - self.first) as usize;
            let Some(sent) = self.sent.get_mut(nth).filter(|sent| !sent.is_acked) else {
                continue;
            };
            sent.is_acked = true;
            packets += 1;
            latest = Some(*sent);
        }
        let latest = latest?;
        self.pending -= packets;
        self.delivered += u64::from(packets);
        self.delivered_at = now;
        self.first_sent_at = latest.at;
        self.highest_acked = self.highest_acked.max(ack.last);
        let took = now.since(latest.delivered_at);
        let sending = latest.at.since(latest.first_sent_at);
        let seconds = took.max(sending).as_secs_f64();
        let (lost, last_lost) = self.settle();
        Some(Acked {
            packets,
            rtt: now.since(latest.at),
            packets_per_second: (self.delivered - latest.delivered) as f64 / seconds.max(1e-9),
            delivered_before: latest.delivered,
            lost,
            last_lost,
        })
    }

    /// Gives up all packets in flight, and returns them.
    pub(super) fn lose_all(&mut self) -> Vec<u32> {
        let lost = self.sent.iter().filter(|sent| !sent.is_acked);
        let lost = lost.map(|sent| sent.packet).collect();
        self.first = self.next();
        self.sent.clear();
        self.pending = 0;
        lost
    }

    /// Removes acknowledged and lost transmissions from the front. Returns the lost packets.
    fn settle(&mut self) -> (Vec<u32>, Option<u32>) {
        let (mut lost, mut last) = (Vec::new(), None);
        while let Some(front) = self.sent.front() {
            if !front.is_acked {
                if self.first + DUPLICATES > self.highest_acked {
                    break;
                }
                lost.push(front.packet);
                last = Some(self.first);
                self.pending -= 1;
            }
            self.sent.pop_front();
            self.first += 1;
        }
        (lost, last)
    }
}
