//! Bottleneck of a copy, derived from the waiting times of its lanes.
//!
//! [`bottleneck`] compares the totals of a [`Summary`] and the [`HostLoad`] with thresholds, and
//! reports the first that is reached:
//!
//! | evidence | bottleneck |
//! |---|---|
//! | lanes waited for a disk | that disk; the processors, if it is this host's and idle while they are full |
//! | this program keeps the processors busy | the processors of this host |
//! | datagrams dropped for lack of buffer | the receiving host |
//! | packets dropped on arrival or by an interface | the network interface of this host |
//! | rate used | the path, or the given rate |
//! | other programs keep the processors busy | the processors of this host |
//! | one processor is full | that processor |
//! | programs waited for a processor | the processors |
//!
//! Waits of disks are a share of the time in which lanes had an object. A copy that moved data for less than a
//! second has no bottleneck, since its shares mean little.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use lighthaul_base::Rate;
use serde::Serialize;

use crate::watch::Summary;

/// Shortest time of moving data from which a bottleneck can be inferred.
const MOVING_MIN: Duration = Duration::from_secs(1);
/// Least share of their time, in percent, that lanes wait for a disk that limits them.
const DISK_SHARE: u64 = 25;
/// Minimum load of the processors that limits a copy, in percent.
const PROCESSOR_SHARE: u64 = 85;
/// Minimum share of datagrams that a slow receiving host drops, in percent.
const DROPPED_SHARE: u64 = 1;
/// Minimum share of the rate that a limiting path or rate is used to, in percent.
const PATH_SHARE: u64 = 80;

/// Minimum load of one processor that may limit a copy, in percent.
const CORE_SHARE: u64 = 95;
/// Least share of the time, in percent, that programs wait for a processor of an overloaded host.
const STALL_SHARE: u64 = 50;
/// Minimum share of packets that an interface drops and that matters, in percent.
const INTERFACE_SHARE: u64 = 1;
/// Greatest share of the time, in percent, that programs wait for a disk that does not limit a copy.
const IDLE_STALL: u64 = 10;
/// Greatest share of the time, in percent, that an idle disk has a request.
const IDLE_DISK: u64 = 50;

/// Load of this host while the data moved, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLoad {
    /// True if this host sends the data.
    pub sends: bool,
    /// Load of all processors by this program.
    pub own: u64,
    /// Load of all processors.
    pub processors: u64,
    /// Load of the busiest processor.
    pub busiest: u64,
    /// Share of the time in which a program waited for a processor, if the kernel measures it.
    pub processor_stalls: Option<u64>,
    /// Share of the time in which a program waited for a disk, if the kernel measures it.
    pub disk_stalls: Option<u64>,
    /// Share of the time in which the busiest disk had a request.
    pub disk: u64,
    /// Share of packets that interfaces and queues of arrival dropped.
    pub dropped: u64,
}

impl HostLoad {
    const fn is_full(&self) -> bool {
        self.own >= PROCESSOR_SHARE
            || self.processors >= PROCESSOR_SHARE
            || self.busiest >= CORE_SHARE
    }

    /// Returns true if the disks of this host are known to be idle.
    fn are_disks_idle(&self) -> bool {
        let is_low = |stalls| stalls <= IDLE_STALL;
        self.disk_stalls.is_some_and(is_low) && self.disk <= IDLE_DISK
    }

    /// Returns the bottleneck of full processors.
    fn processors(&self) -> Bottleneck {
        let load = self.processors.max(self.own);
        if load >= PROCESSOR_SHARE {
            Bottleneck::Processors(load.min(100))
        } else {
            Bottleneck::Processor(self.busiest.min(100))
        }
    }
}

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
    /// Load of one processor of this host, which does the work of one thread.
    Processor(u64),
    /// Share of the time in which programs of this host waited for a processor.
    ProcessorStalls(u64),
    /// Share of the packets that this host dropped at its network interfaces.
    Interface(u64),
    /// Share of the datagrams that the receiving host dropped, because it was slow to read them.
    ReceivingHost(u64),
    /// Share of the rate of the path that was used.
    Path(u64),
    /// Share of the rate that the user asked for that was used.
    AskedRate(u64),
}

/// Returns the bottleneck of the copy, if one of the thresholds is reached. `rate` is the rate of
/// the data on the wire, and `asked` is true if the user gave it.
pub fn bottleneck(
    summary: &Summary,
    (rate, asked): (Option<Rate>, bool),
    host: &HostLoad,
) -> Option<Bottleneck> {
    let (motion, moving) = (&summary.motion, summary.moving);
    if moving < MOVING_MIN || motion.total == 0 {
        return None;
    }
    let of_time = |wait: u64| {
        let share = u128::from(wait) * 100 / u128::from(motion.object_time.max(1));
        u64::try_from(share).unwrap_or(100).min(100)
    };
    let (source, target) = (of_time(motion.source_wait), of_time(motion.target_wait));
    let dropped = motion.buffer_drops.saturating_mul(100) / motion.sent.max(1);
    if source.max(target) >= DISK_SHARE {
        let is_ours = (source > target) == host.sends;
        if is_ours && host.are_disks_idle() && host.is_full() {
            return Some(host.processors());
        }
        return Some(if source > target {
            Bottleneck::SourceDisk(source)
        } else {
            Bottleneck::TargetDisk(target)
        });
    }
    if host.own >= PROCESSOR_SHARE {
        return Some(host.processors());
    }
    if dropped >= DROPPED_SHARE {
        return Some(Bottleneck::ReceivingHost(dropped.min(100)));
    }
    if host.dropped >= INTERFACE_SHARE {
        return Some(Bottleneck::Interface(host.dropped.min(100)));
    }
    used(summary, rate, asked).or_else(|| remaining(host))
}

/// Returns [`Bottleneck`] for the path or for the given rate, if the copy used most of it.
fn used(summary: &Summary, rate: Option<Rate>, asked: bool) -> Option<Bottleneck> {
    let goodput = u128::from(Rate::of(summary.motion.total, summary.moving).as_bps());
    let used = goodput * 100 / u128::from(rate?.as_bps().max(1));
    let used = u64::try_from(used).unwrap_or(100).min(100);
    let limit = if asked {
        Bottleneck::AskedRate(used)
    } else {
        Bottleneck::Path(used)
    };
    (used >= PATH_SHARE).then_some(limit)
}

/// Returns the bottleneck of a copy that no other stage limits: full processors, or other programs.
fn remaining(host: &HostLoad) -> Option<Bottleneck> {
    if host.is_full() {
        return Some(host.processors());
    }
    let stalls = host.processor_stalls?;
    (stalls >= STALL_SHARE).then_some(Bottleneck::ProcessorStalls(stalls.min(100)))
}

impl Bottleneck {
    /// Returns the name of the bottleneck in events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SourceDisk(_) => "source_disk",
            Self::TargetDisk(_) => "target_disk",
            Self::Processors(_) | Self::ProcessorStalls(_) => "processors",
            Self::Processor(_) => "processor",
            Self::Interface(_) => "interface",
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
            Self::Processor(load) => write!(f, "one processor of this host: {load} % busy"),
            Self::ProcessorStalls(share) => write!(
                f,
                "the processors of this host: programs waited for them {share} % of the time"
            ),
            Self::Interface(share) => write!(
                f,
                "the network interface of this host: it dropped {share} % of the packets"
            ),
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
            object_time: 4_000_000_000,
            ..CopyProgress::default()
        };
        change(&mut motion);
        Summary {
            moving: Duration::from_secs(2),
            motion,
            ..Summary::default()
        }
    }

    const IDLE: HostLoad = HostLoad {
        sends: true,
        own: 0,
        processors: 0,
        busiest: 0,
        processor_stalls: None,
        disk_stalls: None,
        disk: 0,
        dropped: 0,
    };

    fn busy(own: u64) -> HostLoad {
        HostLoad { own, ..IDLE }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn bottlenecks_of_the_host_are_tested_in_order() {
        let waits = |source: u64, target: u64| {
            summary(|motion| {
                (motion.source_wait, motion.target_wait) =
                    (source * 1_000_000_000, target * 1_000_000_000);
            })
        };
        let drops = |drops| summary(|motion| motion.buffer_drops = drops);
        let idle_disk = HostLoad {
            disk_stalls: Some(10),
            disk: 50,
            ..busy(90)
        };
        let receives = HostLoad {
            sends: false,
            ..idle_disk
        };
        let core = HostLoad {
            busiest: 95,
            ..IDLE
        };
        let stalled = HostLoad {
            processor_stalls: Some(50),
            ..IDLE
        };
        let lossy = HostLoad { dropped: 1, ..core };
        let others = HostLoad {
            processors: 85,
            ..IDLE
        };
        let slow = Rate::from_bps(500_000_000);
        for (nth, (summary, rate, host, expected)) in [
            // waits for a disk that is idle, on a host that is full
            (
                waits(1, 0),
                None,
                idle_disk,
                Some(Bottleneck::Processors(90)),
            ),
            (
                waits(1, 0),
                None,
                HostLoad {
                    disk_stalls: Some(5),
                    ..core
                },
                Some(Bottleneck::Processor(95)),
            ),
            // the disk is busy, or its stalls are high or not known
            (
                waits(1, 0),
                None,
                HostLoad {
                    disk: 51,
                    ..idle_disk
                },
                Some(Bottleneck::SourceDisk(25)),
            ),
            (
                waits(1, 0),
                None,
                HostLoad {
                    disk_stalls: Some(11),
                    ..idle_disk
                },
                Some(Bottleneck::SourceDisk(25)),
            ),
            (
                waits(1, 0),
                None,
                busy(90),
                Some(Bottleneck::SourceDisk(25)),
            ),
            // the host is not full, or the disk is that of the other host
            (
                waits(1, 0),
                None,
                HostLoad {
                    own: 84,
                    ..idle_disk
                },
                Some(Bottleneck::SourceDisk(25)),
            ),
            (
                waits(0, 1),
                None,
                idle_disk,
                Some(Bottleneck::TargetDisk(25)),
            ),
            (
                waits(1, 0),
                None,
                receives,
                Some(Bottleneck::SourceDisk(25)),
            ),
            (
                waits(0, 1),
                None,
                receives,
                Some(Bottleneck::Processors(90)),
            ),
            // drops at the receiver, then here, then the rate, then one processor
            (
                drops(2_000),
                slow,
                lossy,
                Some(Bottleneck::ReceivingHost(2)),
            ),
            (drops(0), slow, lossy, Some(Bottleneck::Interface(1))),
            (drops(0), slow, core, Some(Bottleneck::Path(100))),
            (drops(0), slow, others, Some(Bottleneck::Path(100))),
            (drops(0), None, others, Some(Bottleneck::Processors(85))),
            (drops(0), None, core, Some(Bottleneck::Processor(95))),
            (
                drops(0),
                None,
                HostLoad {
                    busiest: 94,
                    ..core
                },
                None,
            ),
            (
                drops(0),
                Rate::from_bps(5_000_000_000),
                stalled,
                Some(Bottleneck::ProcessorStalls(50)),
            ),
            (
                drops(0),
                None,
                HostLoad {
                    processor_stalls: Some(49),
                    ..IDLE
                },
                None,
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let found = bottleneck(&summary, (rate, false), &host);
            assert_eq!(found, expected, "case {nth}");
        }
    }

    #[test]
    fn events_and_sentences_name_the_stage() {
        for (limit, name, words) in [
            (Bottleneck::SourceDisk(30), "source_disk", "the source disk"),
            (Bottleneck::TargetDisk(30), "target_disk", "the target disk"),
            (Bottleneck::Processors(30), "processors", "30 % busy"),
            (
                Bottleneck::Processor(30),
                "processor",
                "one processor of this host: 30 % busy",
            ),
            (
                Bottleneck::ProcessorStalls(30),
                "processors",
                "waited for them 30 %",
            ),
            (
                Bottleneck::Interface(30),
                "interface",
                "the network interface of this host",
            ),
            (
                Bottleneck::ReceivingHost(30),
                "receiving_host",
                "the receiving host",
            ),
            (Bottleneck::Path(30), "path", "the path: 30 %"),
            (Bottleneck::AskedRate(30), "rate", "the given rate: 30 %"),
        ] {
            assert_eq!(limit.name(), name);
            assert!(limit.to_string().contains(words), "{limit}");
        }
    }

    #[test]
    fn longest_wait_is_named_as_the_bottleneck() {
        let second = 1_000_000_000;
        let waits = |source, target| {
            let summary = summary(|motion| {
                motion.source_wait = source;
                motion.target_wait = target;
            });
            bottleneck(&summary, (None, false), &IDLE)
        };
        assert_eq!(waits(2 * second, second), Some(Bottleneck::SourceDisk(50)));
        assert_eq!(waits(second, 3 * second), Some(Bottleneck::TargetDisk(75)));
        assert_eq!(waits(0, 9 * second), Some(Bottleneck::TargetDisk(100)));
        assert_eq!(waits(second - second / 20, 0), None);
    }

    #[test]
    fn processors_are_named_before_drops_and_drops_before_the_path() {
        let rate = |mbps: u64| Rate::from_bps(mbps * 1_000_000);
        let drops = summary(|motion| motion.buffer_drops = 2_500);
        assert_eq!(
            bottleneck(&drops, (rate(500), false), &busy(90)),
            Some(Bottleneck::Processors(90))
        );
        assert_eq!(
            bottleneck(&drops, (rate(500), false), &busy(84)),
            Some(Bottleneck::ReceivingHost(2))
        );
        let clean = summary(|_| {});
        assert_eq!(
            bottleneck(&clean, (rate(500), false), &busy(0)),
            Some(Bottleneck::Path(100))
        );
        assert_eq!(
            bottleneck(&clean, (rate(600), false), &busy(0)),
            Some(Bottleneck::Path(83))
        );
        assert_eq!(
            bottleneck(&clean, (rate(500), true), &busy(0)),
            Some(Bottleneck::AskedRate(100))
        );
        assert_eq!(bottleneck(&clean, (rate(1000), false), &busy(0)), None);
        assert_eq!(bottleneck(&clean, (None, false), &busy(0)), None);
    }

    #[test]
    fn short_copy_has_no_bottleneck() {
        let mut short = summary(|motion| motion.source_wait = 900_000_000);
        short.moving = Duration::from_millis(999);
        assert_eq!(bottleneck(&short, (None, false), &busy(100)), None);
        let nothing = Summary {
            moving: Duration::from_secs(2),
            ..Summary::default()
        };
        assert_eq!(bottleneck(&nothing, (None, false), &busy(100)), None);
    }
}
