//! Time of each processor by use, from `/proc/stat`.
//!
//! The kernel counts in ticks. Rates are fractions of all ticks of a processor, so the length of a
//! tick does not matter. `iowait` may fall, as `proc_stat(5)` says, and then counts as zero.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::counter::{ITEMS_MAX, fraction, numbers};

/// Ticks of one processor since the host started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Programs, also programs of low priority and virtual machines.
    pub user: u64,
    /// The kernel, with hardware interrupts.
    pub system: u64,
    /// Idle while a task waited for a disk.
    pub iowait: u64,
    /// Deferred work of interrupts, such as received packets.
    pub softirq: u64,
    /// Taken by other virtual machines of the hypervisor.
    pub steal: u64,
    /// Idle, without a task that waited for a disk.
    pub idle: u64,
}

/// Fractions of the time of one processor, or of all. Their sum is 1, except for rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuShares {
    /// Programs.
    pub user: f64,
    /// The kernel, with hardware interrupts.
    pub system: f64,
    /// Idle while a task waited for a disk.
    pub iowait: f64,
    /// Deferred work of interrupts.
    pub softirq: f64,
    /// Taken by other virtual machines.
    pub steal: f64,
    /// Idle, without a task that waited for a disk.
    pub idle: f64,
}

/// Fractions of the time of one processor, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreShares {
    /// Number of the processor.
    pub core: u32,
    /// Fractions of the processor's time by mode.
    #[serde(flatten)]
    pub shares: CpuShares,
}

impl CpuTimes {
    /// Returns the ticks from `before` to this time.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            iowait: self.iowait.saturating_sub(before.iowait),
            softirq: self.softirq.saturating_sub(before.softirq),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    /// Returns the sum of two processors.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            user: self.user.saturating_add(other.user),
            system: self.system.saturating_add(other.system),
            iowait: self.iowait.saturating_add(other.iowait),
            softirq: self.softirq.saturating_add(other.softirq),
            steal: self.steal.saturating_add(other.steal),
            idle: self.idle.saturating_add(other.idle),
        }
    }

    /// Returns the fractions of the ticks. Without any tick, all are 0.
    pub fn shares(&self) -> CpuShares {
        let parts = [
            self.user,
            self.system,
            self.iowait,
            self.softirq,
            self.steal,
            self.idle,
        ];
        let all: f64 = parts.iter().map(|part| *part as f64).sum();
        let share = |part: u64| fraction(part as f64, all);
        CpuShares {
            user: share(self.user),
            system: share(self.system),
            iowait: share(self.iowait),
            softirq: share(self.softirq),
            steal: share(self.steal),
            idle: share(self.idle),
        }
    }
}

impl CpuShares {
    /// Returns the fraction in which the processor worked.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.softirq + self.steal
    }
}

/// Parses `/proc/stat`. Other lines and malformed ones are skipped.
pub fn parse(text: &str) -> BTreeMap<u32, CpuTimes> {
    let lines = text.lines().filter_map(|line| {
        let (number, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        let number = number.parse().ok()?;
        let [user, nice, system, idle, more @ ..] = &*numbers(rest) else {
            return None;
        };
        // old kernels have fewer columns
        let other = |nth: usize| more.get(nth).copied().unwrap_or(0);
        let times = CpuTimes {
            user: user.saturating_add(*nice),
            system: system.saturating_add(other(1)),
            iowait: other(0),
            softirq: other(2),
            steal: other(3),
            idle: *idle,
        };
        Some((number, times))
    });
    lines.take(ITEMS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "cpu  30 3 12 200 9 5 7 2 1 0\ncpu0 10 1 4 100 5 2 3 1 1 0\n\
                        cpu1 20 2 8 100 4 3 4 1 0 0\nintr 5 6\ncpux 1 2 3 4\ncpu2 1 2\n";

    #[test]
    fn each_processor_has_its_times() {
        let cores = parse(STAT);
        let first = CpuTimes {
            user: 11,
            system: 6,
            iowait: 5,
            softirq: 3,
            steal: 1,
            idle: 100,
        };
        assert_eq!(cores.len(), 2);
        assert_eq!(cores[&0], first);
        assert_eq!(
            parse("cpu7 1 2 3 4")[&7],
            CpuTimes {
                user: 3,
                system: 3,
                idle: 4,
                ..CpuTimes::default()
            }
        );
    }

    #[test]
    fn shares_are_fractions_of_all_ticks() {
        let before = CpuTimes {
            iowait: 9,
            ..CpuTimes::default()
        };
        let after = CpuTimes {
            user: 25,
            idle: 75,
            iowait: 4,
            ..CpuTimes::default()
        };
        let shares = after.since(&before).shares();
        assert!((shares.user - 0.25).abs() < 1e-9 && shares.iowait.abs() < 1e-9);
        assert!((shares.busy() - 0.25).abs() < 1e-9);
        assert_eq!(CpuTimes::default().shares(), CpuShares::default());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String, lines in "(cpu[0-9]{0,12} [0-9 a-z]{0,60}\n){0,5}") {
            parse(&text);
            let cores = parse(&lines);
            for times in cores.values() {
                let shares = times.plus(times).shares();
                prop_assert!((0.0..=1.001).contains(&shares.busy()));
            }
        }
    }
}
