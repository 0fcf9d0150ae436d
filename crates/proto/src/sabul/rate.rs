//! Rate control as a value, without I/O (section 3.5).
//!
//! [`Mode::Paper`] has the paper's rules and constants with one erratum: the increase has one factor SYN less than its
//! formula, in agreement with its table. The paper leaves the weight of the moving average of the loss open; here the
//! last interval weighs 1/16. With a larger weight the rate rises sooner after a loss, and a competing TCP flow keeps
//! less of its share. [`Mode::Swift`] is in `swift.rs`.

use alloc::boxed::Box;
use core::time::Duration;

use lighthaul_base::{Instant, Rate};

use super::config::{Memory, Mode, SYN, rate_of};
use super::sample::{Interval, Loss};
use super::swift::Swift;
use super::wire::Ack;

/// Sending rate and the rules that adapt it.
#[derive(Clone, Debug)]
pub struct RateControl {
    /// Rate by the rules.
    bps: f64,
    /// Limit of the rate. The rate by the rules outlasts a lower limit, which may hold for a moment.
    bps_max: f64,
    rules: Rules,
}

#[derive(Clone, Debug)]
enum Rules {
    Paper(Paper),
    Fixed,
    Swift(Box<Swift>),
}

impl RateControl {
    /// Returns the control in the state of `memory`. `packet_bytes` is the length on the wire, the paper's MTU.
    pub fn new(mode: Mode, memory: &Memory, packet_bytes: u32) -> Self {
        let rules = match mode {
            Mode::Paper => Rules::Paper(Paper::new(packet_bytes)),
            Mode::Fixed => Rules::Fixed,
            Mode::Swift => Rules::Swift(Box::new(Swift::new(memory, packet_bytes))),
        };
        Self {
            bps: (memory.rate.as_bps() as f64).max(BPS_MIN),
            bps_max: f64::MAX,
            rules,
        }
    }

    /// Returns the rate that the sender should use now.
    pub fn rate(&self) -> Rate {
        rate_of(self.limited())
    }

    /// Limits the rate to `rate_max` from now on.
    pub fn limit(&mut self, rate_max: Rate) {
        self.bps_max = rate_max.as_bps() as f64;
    }

    /// Adapts the rate at the end of a SYN interval.
    pub fn handle_syn(&mut self, interval: &Interval) {
        let bps = self.limited();
        let bps = match &mut self.rules {
            Rules::Paper(paper) => paper.after_interval(bps, interval),
            Rules::Fixed => bps,
            Rules::Swift(swift) => swift.after_interval(bps, interval),
        };
        self.set(bps);
    }

    /// Adapts the rate to a loss. Returns the time for which nothing may be sent.
    pub fn handle_loss(&mut self, now: Instant, loss: Loss) -> Duration {
        let bps = self.limited();
        let (bps, freeze) = match &mut self.rules {
            Rules::Paper(paper) => paper.after_loss(bps, loss),
            Rules::Fixed => (bps, Duration::ZERO),
            Rules::Swift(swift) => swift.after_loss(now, bps, loss),
        };
        self.set(bps);
        freeze
    }

    /// Adapts the rate to an ACK. Returns the time for which nothing may be sent.
    pub fn handle_ack(&mut self, now: Instant, ack: &Ack) -> Duration {
        let bps = self.limited();
        let (bps, freeze) = match &mut self.rules {
            Rules::Paper(_) | Rules::Fixed => (bps, Duration::ZERO),
            Rules::Swift(swift) => swift.after_ack(now, bps, ack),
        };
        self.set(bps);
        freeze
    }

    /// Returns `memory` with the rate and the state of the rules filled in.
    pub fn updated_memory(&self, memory: Memory) -> Memory {
        let rate = match memory.rate {
            Rate::UNLIMITED => Rate::UNLIMITED,
            _ => rate_of(self.bps),
        };
        let memory = Memory { rate, ..memory };
        match &self.rules {
            Rules::Paper(_) | Rules::Fixed => memory,
            Rules::Swift(swift) => swift.updated_memory(memory),
        }
    }

    /// Returns the time by which the route has become longer since its round-trip time was measured.
    pub fn longer(&self) -> Duration {
        match &self.rules {
            Rules::Paper(_) | Rules::Fixed => Duration::ZERO,
            Rules::Swift(swift) => swift.longer(),
        }
    }

    fn limited(&self) -> f64 {
        self.bps.min(self.bps_max)
    }

    /// Sets the rate that the rules computed from [`Self::limited`]. At the limit, the rate does not rise.
    fn set(&mut self, bps: f64) {
        let limited = self.limited();
        let is_raised = bps > limited && limited < self.bps_max;
        if is_raised || bps < limited {
            self.bps = bps.max(BPS_MIN);
        }
    }
}

/// State of the paper's rules.
#[derive(Clone, Debug)]
struct Paper {
    packet_bytes: f64,
    loss_mean: f64,
    /// First packet that was unsent at the latest decrease.
    lowered_at: Option<u64>,
    /// NAKs since the latest decrease for a new loss. NAK number `2^dec_count` causes a further decrease.
    naks: u64,
    dec_count: u32,
}

impl Paper {
    fn new(packet_bytes: u32) -> Self {
        Self {
            packet_bytes: f64::from(packet_bytes),
            loss_mean: 0.0,
            lowered_at: None,
            naks: 0,
            dec_count: DEC_COUNT,
        }
    }

    fn after_interval(&mut self, bps: f64, interval: &Interval) -> f64 {
        let loss = match (interval.sent, interval.lost) {
            (_, 0) => 0.0,
            (sent, lost) => (lost as f64 / sent.max(1) as f64).min(1.0),
        };
        self.loss_mean += (loss - self.loss_mean) * LOSS_WEIGHT;
        if self.loss_mean >= LOSS_MAX || interval.is_limited_elsewhere {
            return bps;
        }
        bps + self.increase(bps) * self.packet_bytes * 8.0 / SYN.as_secs_f64()
    }

    /// Returns the increase of the rate in packets per SYN interval.
    fn increase(&self, bps: f64) -> f64 {
        let decade = libm::pow(10.0, libm::ceil(libm::log10(bps)));
        let packets = decade * BETA / (self.packet_bytes * 8.0);
        packets.max(1.0 / self.packet_bytes)
    }

    /// Returns the rate after a NAK, and the time to freeze.
    fn after_loss(&mut self, bps: f64, loss: Loss) -> (f64, Duration) {
        let lower = bps / (1.0 + 1.0 / 8.0);
        if self.lowered_at.is_none_or(|next| loss.number >= next) {
            self.lowered_at = Some(loss.next);
            self.naks = 0;
            self.dec_count = DEC_COUNT;
            return (lower, loss.rtt);
        }
        self.naks += 1;
        if self.naks < 1 << self.dec_count {
            return (bps, Duration::ZERO);
        }
        self.dec_count = (self.dec_count + 1).min(DEC_COUNT_MAX);
        self.lowered_at = Some(loss.next);
        (lower, Duration::ZERO)
    }
}

const BETA: f64 = 1.2e-5;
/// Mean loss at which the rate no longer rises.
const LOSS_MAX: f64 = 0.001;
/// Weight of the last interval in the mean loss.
const LOSS_WEIGHT: f64 = 1.0 / 16.0;
const DEC_COUNT: u32 = 4;
const DEC_COUNT_MAX: u32 = 62;
/// Lower limit of the rate: a packet of 1500 bytes every 120 ms, so that every transfer ends.
const BPS_MIN: f64 = 100_000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const RTT: Duration = Duration::from_millis(100);

    fn control(mode: Mode, bps: u64) -> RateControl {
        let memory = Memory::new(Rate::from_bps(bps).unwrap(), RTT);
        RateControl::new(mode, &memory, 1500)
    }

    fn paper(bps: u64) -> RateControl {
        control(Mode::Paper, bps)
    }

    fn calm() -> Interval {
        Interval {
            sent: 1000,
            lost: 0,
            is_limited_elsewhere: false,
            rtt: RTT,
        }
    }

    fn loss(number: u64, next: u64) -> Loss {
        Loss {
            number,
            next,
            rtt: RTT,
        }
    }

    #[test]
    fn increase_matches_the_papers_table() {
        for (bps, packets) in [
            (999.0, 1.0 / 1500.0),
            (1_000_001.0, 0.01),
            (10_000_000.0, 0.01),
            (10_000_001.0, 0.1),
            (100_000_000.0, 0.1),
            (100_000_001.0, 1.0),
            (1_000_000_000.0, 1.0),
            (1_000_000_001.0, 10.0),
        ] {
            let increase = Paper::new(1500).increase(bps);
            assert!(
                (increase - packets).abs() < packets * 1e-9,
                "{bps}: {increase}"
            );
        }
    }

    #[test]
    fn rate_rises_each_interval_without_loss() {
        let mut control = paper(500_000_000);
        control.handle_syn(&calm());
        assert_eq!(control.rate(), Rate::from_bps(501_200_000).unwrap());
        control.handle_syn(&Interval {
            is_limited_elsewhere: true,
            ..calm()
        });
        assert_eq!(control.rate(), Rate::from_bps(501_200_000).unwrap());
        // 3.2 % loss in one interval weighs 1/16 in the mean, and 11 intervals later the mean is below 0.1 % again
        control.handle_syn(&Interval { lost: 32, ..calm() });
        let mut waited = 1;
        while control.rate() == Rate::from_bps(501_200_000).unwrap() {
            control.handle_syn(&calm());
            waited += 1;
        }
        assert_eq!(waited, 12);
        control.limit(Rate::from_mbps(100));
        control.handle_syn(&calm());
        assert_eq!(control.rate(), Rate::from_mbps(100));
    }

    #[test]
    fn fixed_rate_does_not_change() {
        let mut control = control(Mode::Fixed, 500_000_000);
        for number in 0..100 {
            let lost = loss(number, number + 1);
            assert_eq!(control.handle_loss(Instant::ZERO, lost), Duration::ZERO);
            control.handle_syn(&Interval {
                lost: 900,
                ..calm()
            });
            control.handle_syn(&calm());
        }
        assert_eq!(control.rate(), Rate::from_mbps(500));
    }

    #[test]
    fn rate_outlasts_a_lower_limit() {
        for mode in [Mode::Paper, Mode::Swift] {
            let mut control = control(mode, 900_000_000);
            let memory = Memory::new(Rate::from_mbps(900), RTT);
            control.limit(Rate::from_mbps(450));
            control.handle_syn(&calm());
            assert_eq!(control.rate(), Rate::from_mbps(450));
            assert_eq!(control.updated_memory(memory).rate, Rate::from_mbps(900));
            control.limit(Rate::from_mbps(1000));
            assert_eq!(control.rate(), Rate::from_mbps(900));
        }
        // a loss below the limit lowers the rate itself
        let mut control = paper(900_000_000);
        control.limit(Rate::from_mbps(450));
        control.handle_loss(Instant::ZERO, loss(7, 100));
        control.limit(Rate::from_mbps(1000));
        assert_eq!(control.rate(), Rate::from_mbps(400));
    }

    #[test]
    fn new_loss_freezes_the_sender_and_its_16th_nak_lowers_the_rate_again() {
        let now = Instant::ZERO;
        let mut control = paper(900_000_000);
        assert_eq!(control.handle_loss(now, loss(7, 100)), RTT, "the first");
        assert_eq!(control.rate(), Rate::from_mbps(800));
        let mut lowered = Vec::new();
        let mut before = control.rate();
        for nak in 1..=70 {
            assert_eq!(control.handle_loss(now, loss(99, 200)), Duration::ZERO);
            if control.rate() < before {
                lowered.push(nak);
            }
            before = control.rate();
        }
        assert_eq!(lowered, [16, 32, 64]);
        assert_eq!(
            control.handle_loss(now, loss(199, 300)),
            Duration::ZERO,
            "sent before"
        );
        assert_eq!(control.handle_loss(now, loss(200, 300)), RTT, "sent after");
        for _ in 1..16 {
            before = control.rate();
            control.handle_loss(now, loss(200, 300));
            assert_eq!(control.rate(), before);
        }
        control.handle_loss(now, loss(200, 300));
        assert!(control.rate() < before, "the count started from zero");
    }

    proptest! {
        #[test]
        fn rate_stays_in_bounds_for_any_history(
            start in 1_u64..200_000_000_000,
            max in 1_000_000_u64..200_000_000_000,
            steps in prop::collection::vec((any::<bool>(), 0..5000_u64, 0..5000_u64), 0..300),
            swift: bool,
        ) {
            let mode = if swift { Mode::Swift } else { Mode::Paper };
            let mut control = control(mode, start);
            control.limit(Rate::from_bps(max).unwrap());
            let mut now = Instant::ZERO;
            for (syn, a, b) in steps {
                let before = control.rate();
                if syn {
                    now += SYN;
                    control.handle_syn(&Interval { sent: a, lost: b, ..calm() });
                    prop_assert!(control.rate() >= before);
                } else {
                    control.handle_loss(now, loss(a, a.max(b) + 1));
                    prop_assert!(control.rate() <= before);
                }
                prop_assert!(control.rate().as_bps() >= 100_000 && control.rate().as_bps() <= max);
            }
        }
    }
}
