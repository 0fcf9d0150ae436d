//! Pacing of datagrams at a rate, by an absolute schedule in integers, without drift.
//!
//! Two token buckets fill over time, and every datagram takes from both. The *credit* fills at the rate and holds up
//! to 250 ms of it plus one train. It is the schedule: tokens in it are what a late driver still has to send. The
//! *headroom* fills at 1.05 times the rate and holds one train. It limits bursts to a train, and the rate of catching
//! up to 5 % above the nominal rate. A driver that polls in time sends half a train at a time. A driver that is late
//! by less than the other half loses no throughput.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Pacer of one sender: it decides when datagrams may leave.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate: Rate,
    burst: Option<u32>,
    datagram_bytes: u32,
    train_bytes: u64,
    /// Tokens at which the pacer opens: half a train, and at least one datagram.
    quantum_bytes: u64,
    /// Time of the latest refill.
    seen: Instant,
    /// Time before which the pacer stays closed.
    due: Instant,
    /// Tokens at the nominal rate, in units of 1/[`WORK`] byte. Each nanosecond adds the rate in bit/s.
    credit: u128,
    /// Tokens at the raised rate, in units of 1/([`WORK`] x 20) byte. Each nanosecond adds 21 times the rate.
    headroom: u128,
    /// Bytes of the current train at an unlimited rate.
    unpaced_bytes: u64,
}

impl Pacer {
    /// Returns a pacer for datagrams of at most `datagram_bytes`. A train has `burst` bytes, by default 1 ms of the
    /// rate and at least two datagrams, and never more than [`TRAIN_BYTES_MAX`].
    pub fn new(now: Instant, rate: Rate, burst: Option<u32>, datagram_bytes: u32) -> Self {
        assert!(datagram_bytes > 0, "datagram_bytes must not be zero");
        let mut pacer = Self {
            rate,
            burst,
            datagram_bytes,
            train_bytes: 0,
            quantum_bytes: 0,
            seen: now,
            due: now,
            credit: 0,
            headroom: 0,
            unpaced_bytes: 0,
        };
        pacer.measure();
        pacer.credit = u128::from(pacer.quantum_bytes) * WORK;
        pacer.headroom = pacer.headroom_max();
        pacer
    }

    /// Returns true if a datagram of `bytes` may be sent now, and takes its tokens.
    ///
    /// After `false` the train has ended, and the answer stays `false` until [`Pacer::due`].
    #[inline]
    pub fn may_send(&mut self, now: Instant, bytes: u32) -> bool {
        assert!(
            bytes <= self.datagram_bytes,
            "the datagram exceeds datagram_bytes"
        );
        if self.rate == Rate::UNLIMITED {
            return self.may_send_unpaced(bytes);
        }
        if now < self.due {
            return false;
        }
        self.refill(now);
        let work = u128::from(bytes) * WORK;
        if self.credit < work || self.headroom < work * CATCH_UP.1 {
            self.close();
            return false;
        }
        self.credit -= work;
        self.headroom -= work * CATCH_UP.1;
        true
    }

    /// Returns the time at which the next train may leave.
    #[inline]
    pub const fn due(&self) -> Instant {
        self.due
    }

    /// Drops the tokens saved up until `now`, down to one quantum. The caller paused on purpose, so there is nothing
    /// to catch up.
    pub fn rest(&mut self, now: Instant) {
        self.refill(now);
        self.credit = self.credit.min(u128::from(self.quantum_bytes) * WORK);
    }

    /// Changes the rate from `now` on.
    pub fn handle_rate(&mut self, now: Instant, rate: Rate) {
        self.refill(now);
        if self.rate == Rate::UNLIMITED {
            self.credit = 0;
        }
        self.rate = rate;
        self.measure();
        self.credit = self.credit.min(self.credit_max());
        self.headroom = self.headroom.min(self.headroom_max());
        self.due = self.due.min(now);
        if rate != Rate::UNLIMITED {
            self.close();
        }
    }

    /// Returns the nominal rate.
    #[inline]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the length of a train in bytes, which is the largest burst.
    #[inline]
    pub const fn train_bytes(&self) -> u64 {
        self.train_bytes
    }

    /// Ends a train by length alone, without pacing. The next train may follow at once.
    const fn may_send_unpaced(&mut self, bytes: u32) -> bool {
        if self.unpaced_bytes + bytes as u64 > self.train_bytes {
            self.unpaced_bytes = 0;
            return false;
        }
        self.unpaced_bytes += bytes as u64;
        true
    }

    /// Computes the lengths of a train and of a quantum at the present rate.
    fn measure(&mut self) {
        let datagram_bytes = u64::from(self.datagram_bytes);
        let burst = self.burst.map_or_else(
            || self.rate.bytes_in(BURST_TIME).max(2 * datagram_bytes),
            u64::from,
        );
        self.train_bytes = burst.min(TRAIN_BYTES_MAX).max(datagram_bytes);
        self.quantum_bytes = (self.train_bytes / 2).max(datagram_bytes);
        assert!(self.quantum_bytes <= self.train_bytes);
    }

    fn refill(&mut self, now: Instant) {
        if now <= self.seen {
            return;
        }
        let earned = now.since(self.seen).as_nanos() * u128::from(self.rate.as_bps());
        self.credit = self.credit.saturating_add(earned).min(self.credit_max());
        let headroom = self
            .headroom
            .saturating_add(earned.saturating_mul(CATCH_UP.0));
        self.headroom = headroom.min(self.headroom_max());
        self.seen = now;
    }

    /// Closes the pacer until both buckets hold a quantum.
    fn close(&mut self) {
        let quantum = u128::from(self.quantum_bytes) * WORK;
        let rate = u128::from(self.rate.as_bps());
        let credit = quantum.saturating_sub(self.credit).div_ceil(rate);
        let headroom = (quantum * CATCH_UP.1)
            .saturating_sub(self.headroom)
            .div_ceil(rate * CATCH_UP.0);
        let wait = u64::try_from(credit.max(headroom)).unwrap_or(u64::MAX);
        self.due = self.seen + Duration::from_nanos(wait);
    }

    fn credit_max(&self) -> u128 {
        let debt = DEBT_TIME_MAX.as_nanos() * u128::from(self.rate.as_bps());
        debt + u128::from(self.train_bytes) * WORK
    }

    fn headroom_max(&self) -> u128 {
        u128::from(self.train_bytes) * WORK * CATCH_UP.1
    }
}

/// Maximum length of a train in bytes: one segmented send (UDP GSO) carries no more.
pub const TRAIN_BYTES_MAX: u64 = 64 * 1024;

/// Tokens per byte: 8 bits in units of 10^-9 bit.
const WORK: u128 = 8_000_000_000;
/// Ratio of the rate of catching up to the nominal rate.
const CATCH_UP: (u128, u128) = (21, 20);
/// Longest stall that the pacer catches up on.
const DEBT_TIME_MAX: Duration = Duration::from_millis(250);
/// Default burst, as time at the rate.
const BURST_TIME: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// Sends all datagrams that may leave at `now`, and returns their bytes.
    fn train(pacer: &mut Pacer, now: Instant, bytes: u32) -> u64 {
        let mut sent = 0;
        while pacer.may_send(now, bytes) {
            sent += u64::from(bytes);
        }
        sent
    }

    #[test]
    fn rate_is_exact_when_polled_in_time() {
        for bps in [
            1_000_000,
            7_654_321,
            100_000_000,
            999_999_937,
            10_000_000_000,
            100_000_000_000,
        ] {
            let rate = Rate::from_bps(bps).unwrap();
            for bytes in [300, 1500, 9000] {
                let mut pacer = Pacer::new(Instant::ZERO, rate, None, bytes);
                let (mut now, mut sent) = (Instant::ZERO, 0_u64);
                while sent < 40_000 * u64::from(bytes) {
                    sent += train(&mut pacer, now, bytes);
                    assert!(pacer.due() > now);
                    now = pacer.due();
                }
                let wanted = u128::from(now.as_nanos()) * u128::from(bps) / WORK;
                let off = wanted.abs_diff(u128::from(sent));
                assert!(
                    off <= u128::from(pacer.train_bytes()),
                    "{bps} b/s: {off} bytes off"
                );
            }
        }
    }

    #[test]
    fn rate_is_kept_when_polled_late() {
        for (mbps, late_us) in [(1, 5_000), (20, 400), (1000, 200), (10_000, 20)] {
            let rate = Rate::from_mbps(mbps);
            let mut pacer = Pacer::new(Instant::ZERO, rate, None, 1500);
            let (mut now, mut sent) = (Instant::ZERO, 0_u64);
            while sent < 30_000_000 {
                now = pacer.due() + Duration::from_micros(late_us);
                sent += train(&mut pacer, now, 1500);
            }
            let real = Rate::of(sent, now.since(Instant::ZERO)).as_mbps_f64() / mbps as f64;
            assert!((0.998..1.002).contains(&real), "{real} of {rate}");
        }
    }

    #[test]
    fn pacer_catches_up_only_after_a_stall() {
        let rate = Rate::from_mbps(100);
        for (rests, least, most) in [
            (true, 12_490_000, 12_510_000),
            (false, 13_100_000, 13_150_000),
        ] {
            let mut pacer = Pacer::new(Instant::ZERO, rate, None, 1500);
            train(&mut pacer, Instant::ZERO, 1500);
            let mut now = Instant::from_nanos(3_000_000_000);
            if rests {
                pacer.rest(now);
            }
            let till = now + Duration::from_secs(1);
            let mut sent = 0;
            while now < till {
                sent += train(&mut pacer, now, 1500);
                now = pacer.due();
            }
            assert!((least..most).contains(&sent), "{sent} bytes");
        }
    }

    #[test]
    fn unlimited_rate_ends_trains_but_never_waits() {
        let mut pacer = Pacer::new(Instant::ZERO, Rate::UNLIMITED, None, 1500);
        for _ in 0..3 {
            assert_eq!(train(&mut pacer, Instant::ZERO, 1500), 64_500);
            assert_eq!(pacer.due(), Instant::ZERO);
        }
    }

    #[test]
    fn new_rate_applies_at_once() {
        let mut pacer = Pacer::new(Instant::ZERO, Rate::from_mbps(10), None, 1500);
        let (mut now, mut sent) = (Instant::ZERO, 0);
        while sent < 1_250_000 {
            sent += train(&mut pacer, now, 1500);
            now = pacer.due();
        }
        let middle = now;
        pacer.handle_rate(now, Rate::from_mbps(1000));
        sent = 0;
        while sent < 125_000_000 {
            sent += train(&mut pacer, now, 1500);
            now = pacer.due();
        }
        let real = Rate::of(sent, now.since(middle)).as_mbps_f64();
        assert!((999.0..1001.0).contains(&real), "{real} Mb/s");
    }

    proptest! {
        #[test]
        fn bytes_in_any_window_do_not_exceed_rate_plus_burst(
            bps in 1_000_000_u64..100_000_000_000,
            burst in prop::option::of(1_u32..200_000),
            bytes in 40_u32..9_000,
            waits in prop::collection::vec(0_u64..2_000, 1..120),
            scale in 1_u64..100_000,
        ) {
            let rate = Rate::from_bps(bps).unwrap();
            let mut pacer = Pacer::new(Instant::ZERO, rate, burst, bytes);
            let mut now = Instant::ZERO;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for wait in waits {
                now += Duration::from_nanos(wait * scale);
                sent.push((now.as_nanos(), train(&mut pacer, now, bytes)));
            }
            for first in 0..sent.len() {
                let mut total = 0_u128;
                for (at, bytes) in &sent[first..] {
                    total += u128::from(*bytes);
                    let window = u128::from(at - sent[first].0);
                    let share = window * u128::from(bps) * 21 / 20 / WORK;
                    prop_assert!(total <= share + u128::from(pacer.train_bytes()) + 1);
                }
            }
        }
    }
}
