//! Schedule of probes: the next path to probe, within a common budget of bytes.
//!
//! ```text
//! budget --(half of the bytes per second each)--> allowance of brief and of full probes --(Depth::bytes)--> probe
//! ```
//!
//! Each path has a brief probe per interval, and every tenth is a full one. A probe takes the most that it may cost
//! from its allowance when it starts, so all probes together stay below the budget. Bursts are one full and a few brief
//! probes. With many paths the intervals become longer. A path that fails is probed less often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_session::checkup::path_probe::Depth;

/// Limits of all probes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLimits {
    /// Time between two probes of one path.
    pub interval: Duration,
    /// Budget of all paths together, in both directions.
    pub budget: Rate,
}

/// Schedule of the probes of all paths.
#[derive(Debug)]
pub struct Schedule {
    limits: ProbeLimits,
    paths: BTreeMap<String, Plan>,
    /// Bytes that brief probes may use now.
    brief: u64,
    /// Bytes that full probes may use now.
    full: u64,
    /// Time at which both were computed.
    filled: Instant,
}

/// Next probes of one path.
#[derive(Clone, Copy, Debug)]
struct Plan {
    brief_at: Instant,
    full_at: Instant,
    is_running: bool,
    /// Failures since the last success.
    failures: u32,
}

impl Schedule {
    /// Creates a schedule without paths.
    pub const fn new(limits: ProbeLimits, now: Instant) -> Self {
        Self {
            limits,
            paths: BTreeMap::new(),
            brief: BRIEF_MAX,
            full: Depth::Full.bytes(),
            filled: now,
        }
    }

    /// Probes the named paths from now on, and no other paths. New ones are due at once.
    pub fn watch(&mut self, names: &BTreeSet<&str>, now: Instant) {
        let mut old = std::mem::take(&mut self.paths);
        for name in names.iter().take(PATHS_MAX) {
            let plan = old.remove(*name).unwrap_or(Plan {
                brief_at: now,
                full_at: now,
                is_running: false,
                failures: 0,
            });
            self.paths.insert((*name).to_owned(), plan);
        }
        // a running probe keeps its seat until it ends
        self.paths
            .extend(old.into_iter().filter(|(_, plan)| plan.is_running));
    }

    /// Returns the next probe to start now, if one is due and within the limits.
    pub fn start(&mut self, now: Instant) -> Option<(String, Depth)> {
        self.fill(now);
        let running = self.paths.values().filter(|plan| plan.is_running).count();
        if running >= RUNNING_MAX {
            return None;
        }
        let full = self.take(Depth::Full, now);
        full.or_else(|| self.take(Depth::Brief, now))
    }

    /// Returns the path that is due first for a probe of the given depth, if the allowance suffices.
    fn take(&mut self, depth: Depth, now: Instant) -> Option<(String, Depth)> {
        let at = |plan: &Plan| match depth {
            Depth::Brief => plan.brief_at,
            Depth::Full => plan.full_at,
        };
        let idle = self.paths.iter_mut().filter(|(_, plan)| !plan.is_running);
        let due = idle.filter(|(_, plan)| at(plan) <= now);
        let (name, plan) = due.min_by_key(|(_, plan)| at(plan))?;
        let allowance = match depth {
            Depth::Brief => &mut self.brief,
            Depth::Full => &mut self.full,
        };
        *allowance = allowance.checked_sub(depth.bytes())?;
        plan.is_running = true;
        Some((name.clone(), depth))
    }

    /// Records that the probe of a path has ended.
    pub fn end(&mut self, name: &str, depth: Depth, succeeded: bool, now: Instant) {
        let (brief, full) = (self.interval(Depth::Brief), self.interval(Depth::Full));
        let Some(plan) = self.paths.get_mut(name) else {
            return;
        };
        plan.is_running = false;
        if succeeded {
            plan.failures = 0;
            plan.brief_at = now + brief;
            if depth == Depth::Full {
                plan.full_at = now + full;
            }
        } else {
            plan.brief_at = now + brief * (1 << plan.failures.min(DOUBLINGS_MAX));
            plan.full_at = plan.full_at.max(plan.brief_at);
            plan.failures = plan.failures.saturating_add(1);
        }
    }

    /// Returns the time between two probes of a path, longer than configured if all probes would exceed half of the
    /// budget.
    fn interval(&self, depth: Depth) -> Duration {
        let wanted = match depth {
            Depth::Brief => self.limits.interval,
            Depth::Full => self.limits.interval * BRIEF_PER_FULL,
        };
        let bytes = 2 * depth.bytes() * self.paths.len() as u64;
        wanted.max(self.limits.budget.time_for(bytes))
    }

    fn fill(&mut self, now: Instant) {
        let half = self.limits.budget.bytes_in(now.since(self.filled)) / 2;
        // the time of less than a byte counts later
        if half > 0 {
            self.brief = self.brief.saturating_add(half).min(BRIEF_MAX);
            self.full = self.full.saturating_add(half).min(Depth::Full.bytes());
            self.filled = now;
        }
    }
}

/// Maximum number of probes at a time.
pub const RUNNING_MAX: usize = 4;
/// Brief intervals from one full probe to the next.
const BRIEF_PER_FULL: u32 = 10;
/// Maximum number of bytes that brief probes use at once.
const BRIEF_MAX: u64 = RUNNING_MAX as u64 * Depth::Brief.bytes();
/// Maximum number of doublings of the interval of a path that fails.
const DOUBLINGS_MAX: u32 = 3;
/// Maximum number of paths that are probed.
const PATHS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ProbeLimits = ProbeLimits {
        interval: Duration::from_mins(1),
        budget: Rate::from_mbps(1),
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn watching(names: &[&str]) -> Schedule {
        let mut schedule = Schedule::new(LIMITS, at(0));
        schedule.watch(&names.iter().copied().collect(), at(0));
        schedule
    }

    #[test]
    fn path_has_a_full_probe_first_and_then_a_brief_probe_per_interval() {
        let mut schedule = watching(&["far"]);
        let mut seen = Vec::new();
        for second in 0..=700 {
            if let Some((name, depth)) = schedule.start(at(second)) {
                seen.push((second, depth));
                assert_eq!(schedule.start(at(second)), None, "one at a time");
                schedule.end(&name, depth, true, at(second));
            }
        }
        let expected = (0..=11).map(|nth| {
            let depth = if nth % 10 == 0 {
                Depth::Full
            } else {
                Depth::Brief
            };
            (nth * 60, depth)
        });
        assert_eq!(seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn probes_of_many_paths_stay_below_the_budget() {
        for count in [1, 5, 40, 300] {
            let names: Vec<String> = (0..count).map(|nth| format!("h{nth}")).collect();
            let mut schedule = Schedule::new(LIMITS, at(0));
            schedule.watch(&names.iter().map(String::as_str).collect(), at(0));
            let (mut bytes, mut full, mut brief) = (0, 0, 0);
            let hours = 3;
            for second in 0..hours * 3600 {
                while let Some((name, depth)) = schedule.start(at(second)) {
                    bytes += depth.bytes();
                    let kind = if depth == Depth::Full {
                        &mut full
                    } else {
                        &mut brief
                    };
                    *kind += 1;
                    let burst = Depth::Full.bytes() + BRIEF_MAX;
                    let within = burst + LIMITS.budget.bytes_in(Duration::from_secs(second));
                    assert!(bytes <= within, "{count}: {bytes} of {within}");
                    schedule.end(&name, depth, true, at(second));
                }
            }
            // every path has its turn
            assert!(full >= count.min(256), "{count}: {full} full probes");
            assert!(brief >= count.min(256), "{count}: {brief} brief probes");
        }
    }

    #[test]
    fn at_most_a_few_probes_run_at_a_time() {
        let names = ["a", "b", "c", "d", "e"];
        let mut schedule = watching(&names);
        let started: Vec<_> = (0..5).filter_map(|_| schedule.start(at(1))).collect();
        let depths: Vec<_> = started.iter().map(|(_, depth)| *depth).collect();
        assert_eq!(
            depths,
            [Depth::Full, Depth::Brief, Depth::Brief, Depth::Brief]
        );
        assert_eq!(schedule.start(at(100)), None, "four run");
        let (first, depth) = &started[0];
        schedule.end(first, *depth, true, at(101));
        assert_eq!(schedule.start(at(101)), Some(("e".to_owned(), Depth::Full)));
        assert_eq!(schedule.start(at(200)), None, "four run");
    }

    #[test]
    fn path_that_fails_is_probed_less_often() {
        let mut schedule = watching(&["far"]);
        let mut times = Vec::new();
        for second in 0..3000 {
            if let Some((name, depth)) = schedule.start(at(second)) {
                times.push(second);
                schedule.end(&name, depth, false, at(second));
            }
        }
        assert_eq!(times[..6], [0, 60, 180, 420, 900, 1380]);
        let (name, depth) = schedule.start(at(3500)).unwrap();
        schedule.end(&name, depth, true, at(3500));
        assert_eq!(schedule.start(at(3559)), None);
        assert!(schedule.start(at(3560)).is_some(), "a success ends it");
    }

    #[test]
    fn list_of_paths_may_change_while_probes_run() {
        let mut schedule = watching(&["a", "b"]);
        let (name, depth) = schedule.start(at(0)).unwrap();
        assert_eq!((name.as_str(), depth), ("a", Depth::Full));
        schedule.watch(&["b"].into(), at(1));
        assert_eq!(schedule.paths.len(), 2, "it runs");
        schedule.end("a", depth, true, at(2));
        schedule.watch(&["b"].into(), at(3));
        assert_eq!(schedule.paths.keys().collect::<Vec<_>>(), ["b"]);
        schedule.end("a", depth, true, at(4));
        assert_eq!(schedule.start(at(4)).unwrap().0, "b");
    }
}
