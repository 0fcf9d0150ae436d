//! Measurement of the tasks that compete with a driver's thread for its processor.
//!
//! Corresponds to the monitor of the RBUDP+ paper (section 3). A scheduler of 2005 gave slices of
//! 100 ms. Linux's EEVDF gives about 3 ms to each runnable task, and a group with a quota
//! (`cpu.max`) stops until its period ends. All files are readable without privileges:
//!
//! - `/proc/thread-self/schedstat`: time in which the thread was runnable but did not run;
//! - `cpu.stat` of the nearest group with a quota: time in which the group was throttled, which `schedstat` leaves out;
//! - `SO_MEMINFO`: bytes in the socket's receive buffer.
//!
//! A look costs two or three system calls, some microseconds. It happens only after the thread was
//! away from its loop for `GAP`. Until competition is found, looks are at least `LOOK` apart.
//!
//! While there is competition, and for `REMEMBER` after the last absence, the socket is sampled every `SAMPLE`. If it
//! has filled during a gap, the known competitors explain the gap, and the other files are not read.

use std::fs::{self, File};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::{Absence, Instant, Load};

use crate::net::sockopt::socket_memory;

/// Competition of a thread for the processor: its past absences, and predictions of the next.
#[derive(Debug)]
pub struct Competition {
    /// `None` until the first reading.
    files: Option<WaitTimeFiles>,
    /// Waiting times as of the last look.
    waited: WaitTimes,
    seen: Instant,
    looked: Instant,
    sampled: Instant,
    /// End of the last absence, if it is recent.
    back: Option<Instant>,
    /// Absences because of other tasks.
    others: Option<AbsencePattern>,
    /// Absences because of a quota.
    quota: Option<AbsencePattern>,
    socket: (u64, u64),
}

/// Total time that a thread has waited, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct WaitTimes {
    others: Duration,
    quota: Duration,
}

/// Regular absences of a thread: their average length and interval.
#[derive(Clone, Copy, Debug)]
struct AbsencePattern {
    /// End of the last absence.
    back: Instant,
    /// Average length of an absence.
    away: Duration,
    /// Average time from one absence to the next.
    every: Duration,
}

/// Open files that the waiting times are read from.
#[derive(Debug)]
struct WaitTimeFiles {
    schedule: Option<File>,
    quota: Option<Quota>,
}

/// Control group that may run only for a part of each period.
#[derive(Debug)]
struct Quota {
    stat: File,
    period: Duration,
}

impl Competition {
    /// Creates a monitor for the thread that first calls [`Competition::look`].
    pub const fn new() -> Self {
        Self {
            files: None,
            waited: WaitTimes {
                others: Duration::ZERO,
                quota: Duration::ZERO,
            },
            seen: Instant::ZERO,
            looked: Instant::ZERO,
            sampled: Instant::ZERO,
            back: None,
            others: None,
            quota: None,
            socket: (0, 0),
        }
    }

    /// Records that the thread is running at `now`. Call it once per turn of the thread's loop.
    ///
    /// Returns true if it read waiting times, or sampled `socket` because of competition.
    pub fn look(&mut self, now: Instant, socket: Option<RawFd>) -> bool {
        let gap = now.since(self.seen);
        self.seen = now;
        if self.has_filled(now, gap, socket) {
            return true;
        }
        let mut has_looked = self.look_at_others(now, gap);
        let is_lately = |back: &Instant| !self.is_alone() || now.since(*back) <= REMEMBER;
        self.back = self.back.filter(is_lately);
        if self.back.is_some() && now.since(self.sampled) >= SAMPLE {
            has_looked = true;
            self.sample(now, socket);
        }
        has_looked
    }

    /// Counts a gap in which the socket filled as another absence because of the known competitors. Avoids the reads of
    /// `/proc`, whose code and data are not in the caches after an absence.
    fn has_filled(&mut self, now: Instant, gap: Duration, socket: Option<RawFd>) -> bool {
        let is_known = self.others.is_some() && self.quota.is_none();
        if gap < GAP || !is_known || now.since(self.looked) >= ASK {
            return false;
        }
        self.sample(now, socket);
        let has_filled = self.socket.0 > self.socket.1 / FILLED;
        if has_filled {
            self.others = AbsencePattern::with_absence(self.others, now, gap, None);
            self.back = Some(now);
        }
        has_filled
    }

    fn sample(&mut self, now: Instant, socket: Option<RawFd>) {
        self.sampled = now;
        self.socket = socket.and_then(socket_memory).unwrap_or_default();
    }

    /// Records that the socket is empty. Returns true if the thread has competition, so that its sample has changed.
    pub const fn emptied(&mut self) -> bool {
        self.socket.0 = 0;
        self.back.is_some()
    }

    const fn is_alone(&self) -> bool {
        self.others.is_none() && self.quota.is_none()
    }

    fn look_at_others(&mut self, now: Instant, gap: Duration) -> bool {
        let Some(files) = &self.files else {
            self.waited = self.files.insert(WaitTimeFiles::open()).waited();
            // A thread that waited before its first datagram will wait again.
            let waited = self.waited.others.min(WAITED_MAX);
            self.others = AbsencePattern::with_absence(None, now, waited, None);
            self.back = self.others.map(|_| now);
            return true;
        };
        if gap < GAP || self.is_alone() && now.since(self.looked) < LOOK {
            return false;
        }
        self.looked = now;
        let waited = files.waited();
        let others = waited.others.saturating_sub(self.waited.others).min(gap);
        let quota = waited.quota.saturating_sub(self.waited.quota).min(gap);
        self.waited = waited;
        let period = files.quota.as_ref().map(|quota| quota.period);
        self.quota = AbsencePattern::with_absence(self.quota, now, quota, period);
        // After throttling, `schedstat` also counts the wait for the quota.
        let others = if quota.is_zero() {
            others
        } else {
            Duration::ZERO
        };
        self.others = AbsencePattern::with_absence(self.others, now, others, None);
        if others.max(quota) >= GAP {
            self.back = Some(now);
        }
        true
    }

    /// Returns `load` with the socket's fill level and the expected absence added.
    pub fn load(&self, load: Load) -> Load {
        let patterns = [self.quota, self.others].into_iter().flatten();
        let regular = patterns.filter(|pattern| !pattern.every.is_zero());
        let absence = regular.max_by_key(|pattern| pattern.away);
        Load {
            socket_bytes: self.socket.0,
            socket_bytes_max: self.socket.1,
            is_shared: self.back.is_some(),
            absence: absence.map(|pattern| Absence {
                from: pattern.back + pattern.every.saturating_sub(pattern.away),
                len: pattern.away,
                every: pattern.every,
            }),
            ..load
        }
    }
}

impl AbsencePattern {
    /// Adds an absence of length `away` until `now`. If it is below `GAP`, drops a pattern that has not recurred.
    ///
    /// An absence because of a quota recurs exactly every `period`, which replaces a measured interval near it.
    fn with_absence(
        old: Option<Self>,
        now: Instant,
        away: Duration,
        period: Option<Duration>,
    ) -> Option<Self> {
        if away < GAP {
            return old.filter(|old| now.since(old.back) <= old.every * 4 + FORGET);
        }
        let last = old.unwrap_or(Self {
            back: now,
            away,
            every: Duration::ZERO,
        });
        let every = now.since(last.back);
        let every = match period {
            Some(period) if every.abs_diff(period) < period / 8 => period,
            _ if last.every.is_zero() => every,
            _ => (last.every * 3 + every) / 4,
        };
        Some(Self {
            back: now,
            away: (last.away * 3 + away) / 4,
            every,
        })
    }
}

impl Default for Competition {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitTimeFiles {
    /// Opens the files of the calling thread.
    fn open() -> Self {
        Self {
            schedule: File::open("/proc/thread-self/schedstat").ok(),
            quota: Quota::find(),
        }
    }

    /// Reads the thread's total waiting times.
    fn waited(&self) -> WaitTimes {
        let mut text = [0; 96];
        let schedule = self.schedule.as_ref().and_then(|file| {
            let len = file.read_at(&mut text, 0).ok()?;
            field(&text[..len], 1)
        });
        let throttled = self.quota.as_ref().and_then(Quota::throttled);
        WaitTimes {
            others: Duration::from_nanos(schedule.unwrap_or(0)),
            quota: throttled.unwrap_or_default(),
        }
    }
}

impl Quota {
    /// Finds the nearest control group of this process that has a quota, in version 1 or 2.
    fn find() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, group) = (fields.next()?, fields.next()?);
            let root = match controllers {
                "" => PathBuf::from("/sys/fs/cgroup"),
                _ if controllers.split(',').any(|name| name == "cpu") => {
                    Path::new("/sys/fs/cgroup").join(controllers)
                }
                _ => return None,
            };
            let group = root.join(group.trim_start_matches('/'));
            let up = group.ancestors().take_while(|path| path.starts_with(&root));
            up.take(GROUPS_MAX).find_map(Self::of)
        })
    }

    fn of(group: &Path) -> Option<Self> {
        let read = |name| fs::read_to_string(group.join(name)).ok();
        let micros = if let Some(max) = read("cpu.max") {
            period_of(&max)?
        } else {
            // Control groups v1: -1 means no quota.
            read("cpu.cfs_quota_us")?.trim().parse::<u64>().ok()?;
            read("cpu.cfs_period_us")?.trim().parse().ok()?
        };
        Some(Self {
            stat: File::open(group.join("cpu.stat")).ok()?,
            period: Duration::from_micros(micros),
        })
    }

    /// Returns the total time in which the group was throttled.
    fn throttled(&self) -> Option<Duration> {
        let mut text = [0; 1024];
        let len = self.stat.read_at(&mut text, 0).ok()?;
        throttled_in(&text[..len])
    }
}

/// Returns the period in microseconds from a `cpu.max`, or `None` without a quota.
fn period_of(max: &str) -> Option<u64> {
    let (quota, period) = max.trim().split_once(' ')?;
    quota.parse::<u64>().ok()?;
    period.parse().ok()
}

fn throttled_in(stat: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(stat).ok()?;
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", micros) => micros.parse().ok().map(Duration::from_micros),
        ("throttled_time", nanos) => nanos.parse().ok().map(Duration::from_nanos),
        _ => None,
    })
}

/// Returns the `nth` number, from 0, of a line of numbers.
fn field(text: &[u8], nth: usize) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(nth)?.parse().ok()
}

/// Shortest absence that counts: in a shorter one, no datagram is lost.
const GAP: Duration = Duration::from_millis(1);
/// Longest absence that is assumed from the thread's waiting time before the first look.
const WAITED_MAX: Duration = Duration::from_millis(100);
/// Interval between readings while no competition is known.
const LOOK: Duration = Duration::from_millis(10);
/// Interval between samples of the socket while competition is known.
const SAMPLE: Duration = Duration::from_millis(1);
/// Time, added to four intervals of a pattern, after which a pattern without absences is dropped.
const FORGET: Duration = Duration::from_millis(50);
/// Longest time between two reads of the waiting times while competition is known.
const ASK: Duration = Duration::from_millis(200);
/// Divisor: a socket counts as filled if it holds more than this part (1/8) of its buffer.
const FILLED: u64 = 8;
/// Time after an absence in which the thread counts as having competition.
const REMEMBER: Duration = Duration::from_secs(2);
/// Levels of nested control groups that are searched for a quota.
const GROUPS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn predicted(others: Option<AbsencePattern>, quota: Option<AbsencePattern>) -> Option<Absence> {
        let competition = Competition {
            others,
            quota,
            ..Competition::new()
        };
        competition.load(Load::default()).absence
    }

    /// Returns the pattern of ten absences of `len` milliseconds; the last one ends at `every` times ten.
    fn pattern(len: u64, every: u64, period: Option<Duration>) -> Option<AbsencePattern> {
        (1..=10).fold(None, |pattern, nth| {
            AbsencePattern::with_absence(
                pattern,
                at(nth * every),
                Duration::from_millis(len),
                period,
            )
        })
    }

    #[test]
    fn regular_absences_are_predicted_until_their_end() {
        let others = pattern(15, 20, None);
        let absence = Absence {
            from: at(205),
            len: Duration::from_millis(15),
            every: Duration::from_millis(20),
        };
        assert_eq!(predicted(others, None), Some(absence));
        let soon = AbsencePattern::with_absence(others, at(330), Duration::ZERO, None);
        assert_eq!(predicted(soon, None), Some(absence));
        let late = AbsencePattern::with_absence(others, at(331), Duration::ZERO, None);
        assert_eq!(predicted(late, None), None);
    }

    #[test]
    fn longest_absence_is_predicted_with_the_quotas_exact_period() {
        let others = pattern(4, 20, None);
        let quota = pattern(50, 98, Some(Duration::from_millis(100)));
        let absence = Absence {
            from: at(1030),
            len: Duration::from_millis(50),
            every: Duration::from_millis(100),
        };
        assert_eq!(predicted(others, quota), Some(absence));
    }

    #[test]
    fn competition_is_remembered_for_two_seconds() {
        let mut competition = Competition {
            files: Some(WaitTimeFiles {
                schedule: None,
                quota: None,
            }),
            back: Some(at(100)),
            ..Competition::new()
        };
        for (millis, is_emptied_news) in [(100, true), (2100, true), (2101, false)] {
            competition.look(at(millis), None);
            assert_eq!(competition.emptied(), is_emptied_news, "{millis} ms");
        }
    }

    #[test]
    fn gap_with_filled_socket_is_an_absence_because_of_known_competitors() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = Some(socket.as_raw_fd());
        let look = |competition: &mut Competition, millis| competition.look(at(millis), fd);
        let mut competition = Competition {
            files: Some(WaitTimeFiles {
                schedule: None,
                quota: None,
            }),
            others: pattern(15, 20, None),
            looked: at(200),
            seen: at(200),
            back: Some(at(200)),
            ..Competition::new()
        };
        assert!(look(&mut competition, 215), "it has looked");
        assert_eq!(competition.others.unwrap().back, at(200), "it was empty");
        let to = socket.local_addr().unwrap();
        for _ in 0..100 {
            socket.send_to(&[0; 1000], to).unwrap();
        }
        assert!(look(&mut competition, 230));
        let others = competition.others.unwrap();
        assert_eq!((others.back, competition.back), (at(230), Some(at(230))));
        let after = at(215) + ASK;
        assert!(competition.look(after, fd));
        assert_eq!(competition.looked, after, "asked for again");
    }

    #[test]
    fn thread_without_competition_has_no_pattern() {
        assert!(pattern(0, 20, None).is_none());
    }

    #[test]
    fn kernel_accounting_files_are_parsed() {
        assert_eq!(period_of("50000 100000\n"), Some(100_000));
        assert_eq!(period_of("max 100000\n"), None);
        let v1 = b"nr_periods 9\nnr_throttled 4\nthrottled_time 123\n";
        assert_eq!(throttled_in(v1), Some(Duration::from_nanos(123)));
        let v2 = b"usage_usec 7\nthrottled_usec 4\n";
        assert_eq!(throttled_in(v2), Some(Duration::from_micros(4)));
        assert_eq!(field(b"1 22 3\n", 1), Some(22));
        assert_eq!(field(b"1 x", 1), None);
    }
}
