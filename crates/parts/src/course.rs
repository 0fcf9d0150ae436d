//! Rate that follows the loss of each pass.
//!
//! Loss that a lower rate takes away came from the rate: a queue was full, or a policer dropped what exceeded its limit.
//! Loss that stays at a lower rate has other causes, and the rate returns. After losses, the rate rises again in steps,
//! which come more slowly each time that one causes loss.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Result of one pass over an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Rate of all lanes when the pass began.
    pub rate: Rate,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets of them that did not arrive.
    pub lost: u64,
}

/// Rate of a transfer, from the results of its passes.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    most: Rate,
    rate: Rate,
    interval: Duration,
    changed: Instant,
    /// Loss that does not depend on the rate, in parts per million.
    base_ppm: u32,
    /// Rate and loss before a reduction that was not judged yet.
    before: Option<(Rate, u32)>,
    /// True if the last change was a step up.
    rose: bool,
    /// Good passes since the last change, and those that a step up needs.
    good: u32,
    needed: u32,
}

/// Fewest packets of a pass that counts.
const PACKETS_MIN: u64 = 512;
/// Round-trip times between two changes.
const INTERVAL_RTTS: u32 = 10;
/// Loss above the base from which the rate is reduced, in parts per million.
const EXCESS_PPM: u32 = 20_000;
/// A reduction helps if less than this part of the loss stays.
const STAYS: (u64, u64) = (3, 4);
/// A reduced rate, as a part of what arrived.
const BELOW: (u32, u32) = (98, 100);
/// Step up.
const STEP: (u32, u32) = (105, 100);
/// Bounds of the good passes that a step up needs.
const NEEDED_MIN: u32 = 2;
const NEEDED_MAX: u32 = 64;

impl Course {
    /// Starts at the rate `most`, which is never exceeded, on a path of this round-trip time.
    pub fn new(now: Instant, most: Rate, rtt: Duration) -> Self {
        Self {
            most,
            rate: most,
            interval: rtt * INTERVAL_RTTS,
            changed: now,
            base_ppm: 0,
            before: None,
            rose: false,
            good: 0,
            needed: NEEDED_MIN,
        }
    }

    /// Returns the current rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the new rate after a pass, if it changes.
    pub fn update(&mut self, now: Instant, pass: Pass) -> Option<Rate> {
        // a pass that began before the last change says nothing about the current rate
        let is_current = pass.rate == self.rate && pass.sent >= PACKETS_MIN;
        if !is_current || self.rate == Rate::UNLIMITED {
            return None;
        }
        let lost = ppm(pass);
        if let Some((rate, before)) = self.before {
            let stays = u64::from(lost) * STAYS.1 > u64::from(before) * STAYS.0;
            self.before = None;
            if stays {
                self.base_ppm = lost.max(self.base_ppm);
                return self.change(now, rate);
            }
        }
        if lost > self.base_ppm + self.base_ppm / 2 + EXCESS_PPM {
            return self.reduce(now, lost);
        }
        self.good += 1;
        if self.rate < self.most && self.good >= self.needed && self.may_change(now) {
            let rate = self.rate.scaled(STEP.0, STEP.1).min(self.most);
            self.rose = true;
            return self.change(now, rate);
        }
        None
    }

    fn reduce(&mut self, now: Instant, lost: u32) -> Option<Rate> {
        if !self.may_change(now) {
            return None;
        }
        if self.rose {
            self.needed = (self.needed * 2).min(NEEDED_MAX);
        }
        self.rose = false;
        self.before = Some((self.rate, lost));
        let arrived = self.rate.scaled(1_000_000 - lost, 1_000_000);
        let reduced = arrived.scaled(BELOW.0, BELOW.1);
        self.change(now, reduced.max(self.rate.scaled(1, 2)))
    }

    /// Reports whether enough time has passed since the last change. The first may come at once.
    fn may_change(&self, now: Instant) -> bool {
        self.rate == self.most || now.since(self.changed) >= self.interval
    }

    fn change(&mut self, now: Instant, rate: Rate) -> Option<Rate> {
        self.rate = rate;
        self.changed = now;
        self.good = 0;
        Some(rate)
    }
}

/// Returns the loss of a pass in parts per million.
fn ppm(pass: Pass) -> u32 {
    let lost = u128::from(pass.lost.min(pass.sent)) * 1_000_000;
    (lost / u128::from(pass.sent.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const MOST: Rate = Rate::from_mbps(1000);

    /// Path that carries a rate, and loses a part of the rest, in parts per million.
    struct Path {
        carries: Rate,
        base_ppm: u64,
    }

    impl Path {
        fn pass(&self, rate: Rate) -> Pass {
            let sent = 100_000;
            let carried = u128::from(sent) * u128::from(self.carries.as_bps().min(rate.as_bps()));
            let carried = (carried / u128::from(rate.as_bps())) as u64;
            let lost = sent - carried + carried * self.base_ppm / 1_000_000;
            Pass { rate, sent, lost }
        }
    }

    /// Returns the times and rates of all changes in `passes` passes of half a second.
    fn drive(course: &mut Course, path: &Path, passes: u32) -> Vec<(Instant, Rate)> {
        let at = |nth| Instant::ZERO + Duration::from_millis(500) * nth;
        let pass = |nth| {
            let pass = path.pass(course.rate());
            course.update(at(nth), pass).map(|rate| (at(nth), rate))
        };
        (1..=passes).filter_map(pass).collect()
    }

    #[test]
    fn rate_falls_to_what_a_path_carries_and_stays_near() {
        let path = Path {
            carries: Rate::from_mbps(300),
            base_ppm: 0,
        };
        let mut course = Course::new(Instant::ZERO, MOST, RTT);
        drive(&mut course, &path, 20);
        for _ in 0..50 {
            drive(&mut course, &path, 1);
            let now = course.rate().as_bps();
            assert!((280_000_000..316_000_000).contains(&now), "{now}");
        }
    }

    #[test]
    fn loss_that_does_not_depend_on_the_rate_does_not_reduce_it() {
        for base_ppm in [3000, 30_000, 300_000] {
            let path = Path {
                carries: MOST,
                base_ppm,
            };
            let mut course = Course::new(Instant::ZERO, MOST, RTT);
            let changes = drive(&mut course, &path, 40);
            assert_eq!(course.rate(), MOST, "{changes:?}");
            assert!(changes.len() <= 2, "{changes:?}");
        }
    }

    #[test]
    fn rate_recovers_when_the_path_does() {
        let mut course = Course::new(Instant::ZERO, MOST, RTT);
        let narrow = Path {
            carries: Rate::from_mbps(500),
            base_ppm: 0,
        };
        drive(&mut course, &narrow, 10);
        assert!(course.rate() < Rate::from_mbps(550));
        let wide = Path {
            carries: MOST,
            base_ppm: 0,
        };
        drive(&mut course, &wide, 1000);
        assert_eq!(course.rate(), MOST);
    }

    #[test]
    fn short_and_old_passes_say_nothing() {
        let mut course = Course::new(Instant::ZERO, MOST, RTT);
        let pass = |rate, sent| Pass {
            rate,
            sent,
            lost: sent,
        };
        assert_eq!(course.update(Instant::ZERO, pass(MOST, 511)), None);
        let other = Rate::from_mbps(999);
        assert_eq!(course.update(Instant::ZERO, pass(other, 10_000)), None);
        assert_eq!(
            course.update(Instant::ZERO, pass(MOST, 512)),
            Some(Rate::from_mbps(500))
        );
    }

    proptest! {
        #[test]
        fn rate_stays_within_its_bounds_and_does_not_oscillate(
            losses in proptest::collection::vec(0_u64..=10_000, 1..200),
            millis in proptest::collection::vec(1_u64..3000, 200),
        ) {
            let mut course = Course::new(Instant::ZERO, MOST, RTT);
            let (mut now, mut ups) = (Instant::ZERO, Vec::new());
            for (lost, millis) in losses.into_iter().zip(millis) {
                now += Duration::from_millis(millis);
                let before = course.rate();
                let pass = Pass { rate: before, sent: 10_000, lost };
                if course.update(now, pass).is_some_and(|rate| rate > before) {
                    ups.push(now);
                }
                prop_assert!(course.rate() <= MOST && course.rate() >= before.scaled(1, 2).min(MOST));
            }
            // each rise but the end of a trial follows the last change by ten round trips
            let close = ups.windows(3).filter(|three| three[2].since(three[0]) < RTT * 10);
            prop_assert_eq!(close.count(), 0);
        }
    }
}
