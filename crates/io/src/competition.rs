//! Who else wants the processor of a driver's thread, and what that costs it.
//!
//! Linux's answer to the monitor of the RBUDP+ paper (its section 3). A scheduler of 2005 gave slices of
//! 100 ms; today's (EEVDF) gives some 3 ms to each who can run, and a group with a quota (`cpu.max`)
//! gets nothing until its period is over. What others take away is read where an unprivileged
//! thread may read it:
//!
//! - `/proc/thread-self/schedstat`: how long it could have run and did not;
//! - `cpu.stat` of the nearest group with a quota: how long that was throttled, which `schedstat`
//!   leaves out;
//! - `SO_MEMINFO`: how full the socket is.
//!
//! It looks only after the thread was away from its loop for `GAP`, and every `LOOK` at most
//! until it has found something: two or three system calls, some microseconds, a hundred times a
//! second. Then, and for `REMEMBER` behind the last absence, it also looks into the socket every `SAMPLE`, one call; and where that
//! has filled meanwhile, the thread has been away because of the same others, who need not be asked for.

use std::fs::{self, File};
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lighthaul_base::{Absence, Instant, Load};

use crate::sockopt::socket_memory;

/// What is known of those who compete with a thread.
#[derive(Debug)]
pub struct Competition {
    /// Nothing before the first look.
    sources: Option<Sources>,
    /// How long others, and the quota, had kept the thread waiting when it was looked at last.
    spent: Spent,
    seen: Instant,
    looked: Instant,
    sampled: Instant,
    /// When it came back last, if that is not long ago.
    back: Option<Instant>,
    /// Absences because of others, and because of the quota: they differ too much for one pattern.
    others: Option<Pattern>,
    quota: Option<Pattern>,
    socket: (u64, u64),
}

/// How long a thread has waited in all.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    others: Duration,
    quota: Duration,
}

/// Absences as they have been.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    /// When the last one was over.
    back: Instant,
    /// How long they last, and how long one is after the other, on the average.
    away: Duration,
    every: Duration,
}

/// Where the numbers come from.
#[derive(Debug)]
struct Sources {
    schedule: Option<File>,
    quota: Option<Quota>,
}

/// A group that may only run so long in each period.
#[derive(Debug)]
struct Quota {
    stat: File,
    period: Duration,
}

impl Competition {
    /// Looks after the thread that looks first.
    pub const fn new() -> Self {
        Self {
            sources: None,
            spent: Spent {
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

    /// Hears that the thread is awake; answers whether it had a look at who else is, or into the socket
    /// because of them.
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

    /// Takes a socket that has filled in a gap for one more absence because of those who are known: nothing of what the
    /// system would have to do for an answer is in the caches then.
    fn has_filled(&mut self, now: Instant, gap: Duration, socket: Option<RawFd>) -> bool {
        let is_known = self.others.is_some() && self.quota.is_none();
        if gap < GAP || !is_known || now.since(self.looked) >= ASK {
            return false;
        }
        self.sample(now, socket);
        let has_filled = self.socket.0 > self.socket.1 / FILLED;
        if has_filled {
            self.others = Pattern::note(self.others, now, gap, None);
            self.back = Some(now);
        }
        has_filled
    }

    fn sample(&mut self, now: Instant, socket: Option<RawFd>) {
        self.sampled = now;
        self.socket = socket.and_then(socket_memory).unwrap_or_default();
    }

    /// Hears that the socket holds nothing; answers whether that is news for those who compete.
    pub const fn emptied(&mut self) -> bool {
        self.socket.0 = 0;
        self.back.is_some()
    }

    const fn is_alone(&self) -> bool {
        self.others.is_none() && self.quota.is_none()
    }

    fn look_at_others(&mut self, now: Instant, gap: Duration) -> bool {
        let Some(sources) = &self.sources else {
            self.spent = self.sources.insert(Sources::open()).spent();
            // who had to wait before the first datagram will have to again
            let waited = self.spent.others.min(WAITED_MAX);
            self.others = Pattern::note(None, now, waited, None);
            self.back = self.others.map(|_| now);
            return true;
        };
        if gap < GAP || self.is_alone() && now.since(self.looked) < LOOK {
            return false;
        }
        self.looked = now;
        let spent = sources.spent();
        let others = spent.others.saturating_sub(self.spent.others).min(gap);
        let quota = spent.quota.saturating_sub(self.spent.quota).min(gap);
        self.spent = spent;
        let period = sources.quota.as_ref().map(|quota| quota.period);
        self.quota = Pattern::note(self.quota, now, quota, period);
        // who comes back from a throttled group has waited for that
        let others = if quota.is_zero() {
            others
        } else {
            Duration::ZERO
        };
        self.others = Pattern::note(self.others, now, others, None);
        if others.max(quota) >= GAP {
            self.back = Some(now);
        }
        true
    }

    /// What it adds to a sample of the host.
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

impl Pattern {
    /// Takes an absence that ends now into a pattern, or forgets a pattern that has ended; what a
    /// quota takes away comes again after its `period`, to the microsecond.
    fn note(
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

impl Sources {
    /// Those of the calling thread.
    fn open() -> Self {
        Self {
            schedule: File::open("/proc/thread-self/schedstat").ok(),
            quota: Quota::find(),
        }
    }

    /// How long the thread has waited so far.
    fn spent(&self) -> Spent {
        let mut text = [0; 96];
        let schedule = self.schedule.as_ref().and_then(|file| {
            let len = file.read_at(&mut text, 0).ok()?;
            field(&text[..len], 1)
        });
        let throttled = self.quota.as_ref().and_then(Quota::throttled);
        Spent {
            others: Duration::from_nanos(schedule.unwrap_or(0)),
            quota: throttled.unwrap_or_default(),
        }
    }
}

impl Quota {
    /// The nearest group of this process that has a quota, whichever version of groups it is in.
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
            // the first version of groups; without a quota it is -1
            read("cpu.cfs_quota_us")?.trim().parse::<u64>().ok()?;
            read("cpu.cfs_period_us")?.trim().parse().ok()?
        };
        Some(Self {
            stat: File::open(group.join("cpu.stat")).ok()?,
            period: Duration::from_micros(micros),
        })
    }

    /// How long the group has not been allowed to run.
    fn throttled(&self) -> Option<Duration> {
        let mut text = [0; 1024];
        let len = self.stat.read_at(&mut text, 0).ok()?;
        throttled_in(&text[..len])
    }
}

/// The period in a `cpu.max`, if there is a quota.
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

/// A number in a line of them.
fn field(text: &[u8], nth: usize) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.split_ascii_whitespace().nth(nth)?.parse().ok()
}

/// A thread that is away from its loop for less than this has missed nothing that a socket does not
/// hold.
const GAP: Duration = Duration::from_millis(1);
/// What a thread waited before it looked first says no more than this of a single absence.
const WAITED_MAX: Duration = Duration::from_millis(100);
/// As long as nobody competes, it looks this often.
const LOOK: Duration = Duration::from_millis(10);
/// As long as somebody competes, it looks into the socket this often.
const SAMPLE: Duration = Duration::from_millis(1);
/// Competition that has not been seen for four times its pattern and this is over.
const FORGET: Duration = Duration::from_millis(50);
/// Whoever is known to compete is asked for this often, however much has come.
const ASK: Duration = Duration::from_millis(200);
/// A socket has filled that holds this part of what it may.
const FILLED: u64 = 8;
/// Who has competed may do so again, though nobody knows when, for this long.
const REMEMBER: Duration = Duration::from_secs(2);
/// Groups in groups that are looked at.
const GROUPS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn foreseen(others: Option<Pattern>, quota: Option<Pattern>) -> Option<Absence> {
        let competition = Competition {
            others,
            quota,
            ..Competition::new()
        };
        competition.load(Load::default()).absence
    }

    /// Ten absences of `len` milliseconds, the last of which ends at `every` times ten.
    fn pattern(len: u64, every: u64, period: Option<Duration>) -> Option<Pattern> {
        (1..=10).fold(None, |pattern, nth| {
            Pattern::note(pattern, at(nth * every), Duration::from_millis(len), period)
        })
    }

    #[test]
    fn regular_absences_are_foreseen_and_forgotten() {
        let others = pattern(15, 20, None);
        let absence = Absence {
            from: at(205),
            len: Duration::from_millis(15),
            every: Duration::from_millis(20),
        };
        assert_eq!(foreseen(others, None), Some(absence));
        let soon = Pattern::note(others, at(330), Duration::ZERO, None);
        assert_eq!(foreseen(soon, None), Some(absence));
        let late = Pattern::note(others, at(331), Duration::ZERO, None);
        assert_eq!(foreseen(late, None), None);
    }

    #[test]
    fn the_longer_absences_count_and_a_quota_is_exact() {
        let others = pattern(4, 20, None);
        let quota = pattern(50, 98, Some(Duration::from_millis(100)));
        let absence = Absence {
            from: at(1030),
            len: Duration::from_millis(50),
            every: Duration::from_millis(100),
        };
        assert_eq!(foreseen(others, quota), Some(absence));
    }

    #[test]
    fn who_has_competed_counts_for_a_while() {
        let mut competition = Competition {
            sources: Some(Sources {
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
    fn a_socket_that_has_filled_tells_of_those_who_are_known() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = Some(socket.as_raw_fd());
        let look = |competition: &mut Competition, millis| competition.look(at(millis), fd);
        let mut competition = Competition {
            sources: Some(Sources {
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
    fn a_thread_alone_foresees_nothing() {
        assert!(pattern(0, 20, None).is_none());
    }

    #[test]
    fn what_the_kernel_writes_is_read() {
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
