//! Bottleneck of a copy, by what its lanes waited for.
//!
//! [`bottleneck`] compares the totals of a [`Summary`] with thresholds, and reports the first that
//! is reached: disks, processors, datagrams that the receiving host dropped, then the rate. Waits
//! of disks are a share of the time of all lanes. A copy that moved data for less than a second has
//! no bottleneck, since its shares mean little.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use lighthaul_base::Rate;
use serde::Serialize;

use crate::watch::Summary;

/// Shortest time of moving data from which a bottleneck can be inferred.
const MOVING_MIN: Duration = Duration::from_secs(1);
/// Least share of the time that lanes wait for a disk that limits them, in percent.
const DISK_SHARE: u64 = 25;
/// Least load of the processors that limits a copy, in percent.
const PROCESSOR_SHARE: u64 = 85;
/// Least share of datagrams that a slow receiving host drops, in percent.
const DROPPED_SHARE: u64 = 1;
/// Least share of the rate that a limiting path or rate is used to, in percent.
const PATH_SHARE: u64 = 80;

/// Bottleneck of a copy, with its measure in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Lanes waited for the source disk, for this share of the time.
    SourceDisk(u64),
    /// Lanes waited for the target disk, or for another part of the receiving host that is too slow.
    TargetDisk(u64),
    /// Load of the processors of this host.
    Processors(u64),
    /// Share of the datagrams that the receiving host dropped, because it was slow to read them.
    ReceivingHost(u64),
    /// Share of the rate of the path that was used.
    Path(u64),
    /// Share of the rate that the user asked for that was used.
    AskedRate(u64),
}

/// Returns the bottleneck of the copy, if one of the thresholds is reached. `rate` is the rate of
/// the data on the wire, and `asked` is true if the user gave it. `cpu` is the load of the
/// processors of this host, in percent.
pub fn bottleneck(
    summary: &Summary,
    (rate, asked): (Option<Rate>, bool),
    cpu: u64,
) -> Option<Bottleneck> {
    let (motion, moving) = (&summary.motion, summary.moving);
    if moving < MOVING_MIN || motion.total == 0 {
        return None;
    }
    let lanes = u128::from(motion.lanes.max(1));
    let of_time = |wait: u64| {
        let share = u128::from(wait) * 100 / (moving.as_nanos() * lanes);
        u64::try_from(share).unwrap_or(100).min(100)
    };
    let (source, target) = (of_time(motion.source_wait), of_time(motion.target_wait));
    let dropped = motion.buffer_drops.saturating_mul(100) / motion.sent.max(1);
    if source.max(target) >= DISK_SHARE {
        return Some(if source > target {
            Bottleneck::SourceDisk(source)
        } else {
            Bottleneck::TargetDisk(target)
        });
    }
    if cpu >= PROCESSOR_SHARE {
        return Some(Bottleneck::Processors(cpu.min(100)));
    }
    if dropped >= DROPPED_SHARE {
        return Some(Bottleneck::ReceivingHost(dropped.min(100)));
    }
    let goodput = u128::from(Rate::of(motion.total, moving).as_bps());
    let used = goodput * 100 / u128::from(rate?.as_bps().max(1));
    let used = u64::try_from(used).unwrap_or(100).min(100);
    let limit = if asked {
        Bottleneck::AskedRate(used)
    } else {
        Bottleneck::Path(used)
    };
    (used >= PATH_SHARE).then_some(limit)
}

impl Bottleneck {
    /// Returns its name in events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SourceDisk(_) => "source_disk",
            Self::TargetDisk(_) => "target_disk",
            Self::Processors(_) => "processors",
            Self::ReceivingHost(_) => "receiving_host",
            Self::Path(_) => "path",
            Self::AskedRate(_) => "rate",
        }
    }
}

impl Display for Bottleneck {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceDisk(share) => {
                write!(
                    f,
                    "the source disk: data waited for it {share} % of the time"
                )
            }
            Self::TargetDisk(share) => {
                write!(
                    f,
                    "the target disk: data waited for it {share} % of the time"
                )
            }
            Self::Processors(load) => write!(f, "the processors of this host: {load} % busy"),
            Self::ReceivingHost(share) => {
                write!(
                    f,
                    "the receiving host: it dropped {share} % of the datagrams"
                )
            }
            Self::Path(share) => write!(f, "the path: {share} % of its rate was used"),
            Self::AskedRate(share) => write!(f, "the given rate: {share} % of it was used"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::CopyProgress;

    /// Summary of a copy of 1 Gbit in 2 s with two lanes.
    fn summary(change: impl FnOnce(&mut CopyProgress)) -> Summary {
        let mut motion = CopyProgress {
            total: 125_000_000,
            sent: 100_000,
            lanes: 2,
            ..CopyProgress::default()
        };
        change(&mut motion);
        Summary {
            moving: Duration::from_secs(2),
            motion,
            ..Summary::default()
        }
    }

    #[test]
    fn greatest_wait_is_named() {
        let second = 1_000_000_000;
        let waits = |source, target| {
            let summary = summary(|motion| {
                motion.source_wait = source;
                motion.target_wait = target;
            });
            bottleneck(&summary, (None, false), 0)
        };
        assert_eq!(waits(2 * second, second), Some(Bottleneck::SourceDisk(50)));
        assert_eq!(waits(second, 3 * second), Some(Bottleneck::TargetDisk(75)));
        assert_eq!(waits(0, 9 * second), Some(Bottleneck::TargetDisk(100)));
        assert_eq!(waits(second - second / 20, 0), None);
    }

    #[test]
    fn processors_then_drops_then_the_path_are_named() {
        let rate = |mbps: u64| Rate::from_bps(mbps * 1_000_000);
        let drops = summary(|motion| motion.buffer_drops = 2_500);
        assert_eq!(
            bottleneck(&drops, (rate(500), false), 90),
            Some(Bottleneck::Processors(90))
        );
        assert_eq!(
            bottleneck(&drops, (rate(500), false), 84),
            Some(Bottleneck::ReceivingHost(2))
        );
        let clean = summary(|_| {});
        assert_eq!(
            bottleneck(&clean, (rate(500), false), 0),
            Some(Bottleneck::Path(100))
        );
        assert_eq!(
            bottleneck(&clean, (rate(600), false), 0),
            Some(Bottleneck::Path(83))
        );
        assert_eq!(
            bottleneck(&clean, (rate(500), true), 0),
            Some(Bottleneck::AskedRate(100))
        );
        assert_eq!(bottleneck(&clean, (rate(1000), false), 0), None);
        assert_eq!(bottleneck(&clean, (None, false), 0), None);
    }

    #[test]
    fn short_copy_has_none() {
        let mut short = summary(|motion| motion.source_wait = 900_000_000);
        short.moving = Duration::from_millis(999);
        assert_eq!(bottleneck(&short, (None, false), 100), None);
        let nothing = Summary {
            moving: Duration::from_secs(2),
            ..Summary::default()
        };
        assert_eq!(bottleneck(&nothing, (None, false), 100), None);
    }
}
