//! Rate that follows the loss of each pass.
//!
//! Loss that a lower rate takes away came from the rate: a queue was full, or a policer dropped what exceeded its
//! limit. Loss that stays at a lower rate has other causes, and the rate returns. After losses, the rate rises again in
//! steps, which come more slowly each time that one causes loss.

use core::time::Duration;

use lighthaul_base::{Instant, Rate};

/// Result of one pass over an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Rate of all lanes during the pass.
    pub rate: Rate,
    /// Packets that were sent.
    pub sent: u64,
    /// Packets of the pass that did not arrive.
    pub lost: u64,
}

/// Control of a rate by the results of passes.
#[derive(Clone, Copy, Debug)]
pub struct LossRate {
    most: Rate,
    rate: Rate,
    interval: Duration,
    /// Time of the last change; none before the first change, which needs no wait.
    changed: Option<Instant>,
    /// Loss that does not depend on the rate, in parts per million.
    base_ppm: u32,
    /// Reduction that was not judged yet.
    trial: Option<Trial>,
    /// True if the last change was a step up.
    rose: bool,
    /// Next step up, in percent.
    step: u32,
    /// Number of good passes since the last change.
    good: u32,
    /// Number of good passes that a step up needs.
    needed: u32,
}

/// Rates and loss before a reduction.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// Rate to return to.
    rate: Rate,
    /// Rate of the pass.
    used: Rate,
    lost_ppm: u32,
}

/// Minimum number of packets of a pass that counts.
pub const PACKETS_MIN: u64 = 512;
/// Round-trip times between two changes.
const INTERVAL_RTTS: u32 = 10;
/// Loss above the base from which the rate is reduced, in parts per million.
const EXCESS_PPM: u32 = 20_000;
/// Reduced rate, as a fraction of the rate that arrived.
const BELOW: (u32, u32) = (98, 100);
/// Minimum of the rate that a pass reduces, as a fraction of the rate of that pass.
const REDUCTION_MAX: (u32, u32) = (1, 8);
/// Minimum of the rate that [`LossRate::update_steady`] reduces, as a fraction of the rate of that pass.
const STEADY_REDUCTION_MAX: (u32, u32) = (1, 128);
/// Minimum of a step up, in percent of the rate. Each step that causes no loss doubles the next step.
const STEP_MIN: u32 = 5;
/// Maximum of a step up, in percent of the rate.
const STEP_MAX: u32 = 50;
/// Minimum number of good passes that a step up needs.
const NEEDED_MIN: u32 = 2;
/// Maximum number of good passes that a step up needs.
const NEEDED_MAX: u32 = 64;
/// One, in parts per million.
const WHOLE: u32 = 1_000_000;

impl LossRate {
    /// Starts at the rate `most`, the limit until it is raised, on a path with the round-trip time `rtt`.
    pub fn new(most: Rate, rtt: Duration) -> Self {
        Self {
            most,
            rate: most,
            interval: rtt * INTERVAL_RTTS,
            changed: None,
            base_ppm: 0,
            trial: None,
            rose: false,
            step: STEP_MIN,
            good: 0,
            needed: NEEDED_MIN,
        }
    }

    /// Returns the current rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Allows at least `rate`, which the path has carried.
    pub fn raise(&mut self, now: Instant, rate: Rate) {
        self.most = self.most.max(rate);
        if rate > self.rate {
            self.trial = None;
            self.change(now, rate);
        }
    }

    /// Returns the new rate after a pass, if it changes. A pass may be slower than the current rate, for other reasons.
    pub fn update(&mut self, now: Instant, pass: Pass) -> Option<Rate> {
        self.judge(now, pass, REDUCTION_MAX)
    }

    /// Returns the new rate after a time in which packets arrived evenly, if it changes. It may fall farther than after
    /// a pass, of which much may be lost in a moment.
    pub fn update_steady(&mut self, now: Instant, pass: Pass) -> Option<Rate> {
        self.judge(now, pass, STEADY_REDUCTION_MAX)
    }

    fn judge(&mut self, now: Instant, pass: Pass, reduction: (u32, u32)) -> Option<Rate> {
        // a pass that began before the last reduction says nothing about the current rate
        let is_current = pass.rate <= self.rate && pass.sent >= PACKETS_MIN;
        if !is_current || self.rate == Rate::UNLIMITED {
            return None;
        }
        let lost = ppm(pass.lost, pass.sent);
        if let Some(trial) = self.trial {
            if !self.may_change(now) {
                return None;
            }
            self.trial = None;
            if trial.did_not_help(pass.rate, lost) {
                self.base_ppm = lost.max(self.base_ppm);
                return Some(self.change(now, trial.rate));
            }
        }
        if lost > self.base_ppm.saturating_add(self.base_ppm / 2) + EXCESS_PPM {
            let least = pass.rate.scaled(reduction.0, reduction.1);
            return self.reduce(now, (pass.rate, lost), least);
        }
        if lost < self.base_ppm {
            // what was lost once need not be lost for ever
            self.base_ppm -= (self.base_ppm - lost).div_ceil(8);
        }
        self.good += 1;
        let may_rise = pass.rate == self.rate && self.good >= self.needed && self.may_change(now);
        if self.rate < self.most && may_rise {
            let raised = self.rate.scaled(100 + self.step, 100).min(self.most);
            self.step = (self.step * 2).min(STEP_MAX);
            self.rose = true;
            return Some(self.change(now, raised));
        }
        None
    }

    fn reduce(&mut self, now: Instant, (used, lost_ppm): (Rate, u32), least: Rate) -> Option<Rate> {
        if !self.may_change(now) {
            return None;
        }
        if self.rose {
            self.needed = (self.needed * 2).min(NEEDED_MAX);
        }
        self.rose = false;
        self.step = STEP_MIN;
        self.trial = Some(Trial {
            rate: self.rate,
            used,
            lost_ppm,
        });
        let arrived = used.scaled(WHOLE - lost_ppm, WHOLE);
        Some(self.change(now, arrived.scaled(BELOW.0, BELOW.1).max(least)))
    }

    /// Reports whether enough time has passed since the last change.
    fn may_change(&self, now: Instant) -> bool {
        self.changed.is_none_or(|at| now.since(at) >= self.interval)
    }

    fn change(&mut self, now: Instant, rate: Rate) -> Rate {
        self.rate = rate;
        self.changed = Some(now);
        self.good = 0;
        rate
    }
}

impl Trial {
    /// Reports whether the loss at the rate `now` is nearer to the old loss than to the loss of another path: a path
    /// that carries exactly the rate that arrived before.
    fn did_not_help(&self, now: Rate, lost_ppm: u32) -> bool {
        let arrived = self.used.scaled(WHOLE - self.lost_ppm, WHOLE);
        let excess = now.as_bps().saturating_sub(arrived.as_bps());
        let helped = ppm(excess, now.as_bps());
        lost_ppm.abs_diff(self.lost_ppm) < lost_ppm.abs_diff(helped)
    }
}

/// Returns `part` of `whole` in parts per million.
fn ppm(part: u64, whole: u64) -> u32 {
    let part = u128::from(part.min(whole)) * u128::from(WHOLE);
    (part / u128::from(whole.max(1))) as u32
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

    /// Drives passes of half a second. Returns the times and rates of all changes.
    fn drive(
        control: &mut LossRate,
        begin: &mut u32,
        path: &Path,
        passes: u32,
    ) -> Vec<(u32, Rate)> {
        let mut changes = Vec::new();
        for _ in 0..passes {
            *begin += 1;
            let now = Instant::ZERO + Duration::from_millis(500) * *begin;
            let pass = path.pass(control.rate());
            changes.extend(control.update(now, pass).map(|rate| (*begin, rate)));
        }
        changes
    }

    #[test]
    fn rate_falls_to_the_capacity_of_the_path_and_stays_near() {
        for carries in [20, 50, 100, 150, 200, 300, 500, 900] {
            let path = Path {
                carries: Rate::from_mbps(carries),
                base_ppm: 0,
            };
            let mut control = LossRate::new(MOST, RTT);
            let mut at = 0;
            drive(&mut control, &mut at, &path, 20);
            for _ in 0..200 {
                drive(&mut control, &mut at, &path, 1);
                let now = control.rate().as_bps() / 1_000_000;
                let near = carries * 90 / 100..=carries * 150 / 100;
                assert!(near.contains(&now), "{now} of {carries}");
            }
        }
    }

    #[test]
    fn rate_independent_loss_does_not_reduce_the_rate() {
        for base_ppm in [3000, 30_000, 300_000] {
            let path = Path {
                carries: MOST,
                base_ppm,
            };
            let mut control = LossRate::new(MOST, RTT);
            let changes = drive(&mut control, &mut 0, &path, 40);
            assert_eq!(control.rate(), MOST, "{changes:?}");
            assert!(changes.len() <= 2, "{changes:?}");
        }
    }

    #[test]
    fn rate_recovers_when_the_path_does() {
        let wide = Path {
            carries: MOST,
            base_ppm: 0,
        };
        for (carries, base_ppm) in [(500, 0), (10, 0), (1000, 980_000)] {
            let mut control = LossRate::new(MOST, RTT);
            let mut at = 0;
            let narrow = Path {
                carries: Rate::from_mbps(carries),
                base_ppm,
            };
            drive(&mut control, &mut at, &narrow, 10);
            drive(&mut control, &mut at, &wide, 400);
            assert_eq!(control.rate(), MOST, "{carries}");
            // what was an outage does not hide later losses
            drive(&mut control, &mut at, &wide, 50);
            drive(
                &mut control,
                &mut at,
                &Path {
                    carries: Rate::from_mbps(400),
                    base_ppm: 0,
                },
                20,
            );
            assert!(
                control.rate() < Rate::from_mbps(620),
                "{:?}",
                control.rate()
            );
        }
    }

    #[test]
    fn short_and_old_passes_are_not_evaluated() {
        let mut control = LossRate::new(MOST, RTT);
        let pass = |rate, sent| Pass {
            rate,
            sent,
            lost: sent,
        };
        assert_eq!(control.update(Instant::ZERO, pass(MOST, 511)), None);
        let faster = Rate::from_mbps(1001);
        assert_eq!(control.update(Instant::ZERO, pass(faster, 10_000)), None);
        assert_eq!(
            control.update(Instant::ZERO, pass(MOST, 512)),
            Some(Rate::from_mbps(125))
        );
    }

    #[test]
    fn slower_pass_reduces_from_its_own_rate_and_does_not_raise() {
        let mut control = LossRate::new(MOST, RTT);
        let pass = |lost| Pass {
            rate: Rate::from_mbps(100),
            sent: 1000,
            lost,
        };
        let reduced = control.update(Instant::ZERO, pass(500)).unwrap();
        assert_eq!(reduced, Rate::from_mbps(49));
        let mut control = LossRate::new(MOST, RTT);
        let now = |nth| Instant::ZERO + Duration::from_secs(nth);
        control.update(now(0), pass(500));
        for nth in 1..20 {
            let slow = Pass {
                rate: Rate::from_mbps(10),
                ..pass(0)
            };
            assert_eq!(control.update(now(2 * nth), slow), None);
        }
    }

    proptest! {
        #[test]
        fn rate_stays_within_its_bounds_and_does_not_oscillate(
            losses in proptest::collection::vec(0_u64..=10_000, 1..200),
            millis in proptest::collection::vec(1_u64..3000, 200),
        ) {
            let mut control = LossRate::new(MOST, RTT);
            let (mut now, mut changes) = (Instant::ZERO, Vec::new());
            for (lost, millis) in losses.into_iter().zip(millis) {
                now += Duration::from_millis(millis);
                let before = control.rate();
                let pass = Pass { rate: before, sent: 10_000, lost };
                changes.extend(control.update(now, pass).map(|_| now));
                prop_assert!(control.rate() <= MOST && control.rate() >= before.scaled(1, 8).min(MOST));
            }
            // each change follows the last by ten round trips
            let close = changes.windows(2).filter(|two| two[1].since(two[0]) < RTT * 10);
            prop_assert_eq!(close.count(), 0);
        }
    }
}
