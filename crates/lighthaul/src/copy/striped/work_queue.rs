//! Work queue of a striped copy: files and ranges of large files that wait for a mover.
//!
//! The plan adds files, and movers take units when they have little work left. A unit is a whole file or a range. The
//! units of a mover that fails go to the others. Sizes of units follow the rate of the mover. At the end, no mover takes
//! more than its share of the work that is left, so that all end at about the same time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::list::ListedPath;
use lighthaul_files::object::Span;
use lighthaul_io::host::clock::Clock;

/// Smallest part of a file that is worth a unit.
const UNIT_MIN: u64 = 2 << 20;
/// Largest part of a file in one unit.
const UNIT_MAX: u64 = 1 << 30;
/// Boundaries of units are multiples of this.
const UNIT_STEP: u64 = 1 << 20;
/// Smallest amount of work that a mover has ahead.
const AHEAD_MIN: u64 = 32 << 20;
/// Time for which a mover has work ahead, in tenths of a second.
const AHEAD_TENTHS: u64 = 15;
/// Cost of a file besides its bytes.
const FILE_COST: u64 = 64 << 10;
/// Time without progress after which a mover gets another unit, in case that its units cannot be staged.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval of checks for the time.
const TICK: Duration = Duration::from_millis(50);
/// Files that wait for a mover, at most, while the plan continues.
const WAITING_MAX: usize = 100_000;

/// File, or range of a file, that one mover stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Path and range for the mover.
    pub(super) listed: ListedPath,
    /// Size of the file.
    size: u64,
}

impl Unit {
    /// Returns the unit for a whole file.
    pub(super) const fn file(path: Vec<u8>, size: u64) -> Self {
        Self {
            listed: ListedPath { path, range: None },
            size,
        }
    }

    fn span(&self) -> Span {
        self.listed.range.unwrap_or((0, self.size))
    }

    fn bytes(&self) -> u64 {
        let (from, till) = self.span();
        till - from
    }

    fn cost(&self) -> u64 {
        self.bytes() + FILE_COST
    }

    /// Removes the first `len` bytes, as a unit of their own.
    fn split(&mut self, len: u64) -> Self {
        let (from, till) = self.span();
        self.listed.range = Some((from + len, till));
        let mut first = self.clone();
        first.listed.range = Some((from, from + len));
        first
    }
}

/// Queue that the plan and all movers share.
#[derive(Debug)]
pub(super) struct WorkQueue {
    state: Mutex<State>,
    changed: Condvar,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    ready: VecDeque<Unit>,
    /// Cost of the units in `ready`.
    left: u64,
    /// True if units are whole files.
    has_files: bool,
    /// True if the plan adds nothing more.
    is_planned: bool,
    /// True if movers take nothing more.
    is_stopped: bool,
    movers: Vec<Mover>,
}

/// Work of one mover.
#[derive(Debug, Default)]
struct Mover {
    /// Number of its present session.
    session: u64,
    /// Units that are not staged.
    taken: Vec<Unit>,
    /// Cost of the units in `taken`.
    cost: u64,
    /// Time of the last progress, or of the last unit that was taken without progress.
    moved_at: Instant,
    /// Bytes that have arrived in this session.
    arrived: u64,
    /// Time and bytes at the start of the present measurement of the rate.
    measured: Option<(Instant, u64)>,
    /// Bytes in a second.
    rate: u64,
}

impl WorkQueue {
    /// Creates the queue of `movers` movers. Each takes whole files if `has_files` is true.
    pub(super) fn new(movers: usize, has_files: bool) -> Self {
        Self {
            state: Mutex::new(State {
                ready: VecDeque::new(),
                left: 0,
                has_files,
                is_planned: false,
                is_stopped: false,
                movers: (0..movers).map(|_| Mover::default()).collect(),
            }),
            changed: Condvar::new(),
            clock: Clock::start(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, TICK);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Adds a file. Waits while too many files wait for movers.
    pub(super) fn add(&self, unit: Unit) {
        let mut state = self.lock();
        while state.ready.len() >= WAITING_MAX && !state.is_stopped {
            state = self.wait(state);
        }
        state.left += unit.cost();
        state.ready.push_back(unit);
        self.changed.notify_all();
    }

    /// Records that the plan is complete.
    pub(super) fn close(&self) {
        self.lock().is_planned = true;
        self.changed.notify_all();
    }

    /// Makes all movers end.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Waits until mover `number` should begin a session. Returns the number of the session, or none if all work is
    /// done.
    pub(super) fn begin_session(&self, number: usize) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.is_stopped || state.is_done() {
                return None;
            }
            if !state.ready.is_empty() {
                return Some(state.movers[number].session);
            }
            state = self.wait(state);
        }
    }

    /// Waits for `pause`, or until all work is done.
    pub(super) fn pause(&self, pause: Duration) {
        let until = self.clock.now() + pause;
        let mut state = self.lock();
        while self.clock.now() < until && !state.is_stopped && !state.is_done() {
            state = self.wait(state);
        }
    }

    /// Waits until mover `number` needs its next unit, and takes it. Returns none if its `session` should end, or has
    /// ended.
    pub(super) fn take(&self, number: usize, session: u64) -> Option<Unit> {
        let mut state = self.lock();
        loop {
            let has_ended = state.movers[number].session != session;
            let is_over = state.is_planned && state.ready.is_empty();
            if state.is_stopped || has_ended || is_over {
                return None;
            }
            if let Some(unit) = state.take(number, self.clock.now()) {
                return Some(unit);
            }
            state = self.wait(state);
        }
    }

    /// Records that mover `number` has staged the unit at `path` that contains `span`.
    pub(super) fn staged(&self, number: usize, path: &[u8], span: Span) {
        let now = self.clock.now();
        let mut state = self.lock();
        let mover = &mut state.movers[number];
        let is_it = |unit: &Unit| {
            let (from, till) = unit.span();
            unit.listed.path == path && from <= span.0 && span.1 <= till
        };
        if let Some(at) = mover.taken.iter().position(is_it) {
            let unit = mover.taken.remove(at);
            mover.cost = mover.cost.saturating_sub(unit.cost());
            mover.moved_at = now;
            self.changed.notify_all();
        }
    }

    /// Records that mover `number` cannot stage the file at `path`. The last part of the copy finds out why.
    pub(super) fn give_up(&self, number: usize, path: &[u8]) {
        let mut state = self.lock();
        let mover = &mut state.movers[number];
        mover.taken.retain(|unit| unit.listed.path != path);
        mover.cost = mover.taken.iter().map(Unit::cost).sum();
        self.changed.notify_all();
    }

    /// Records the bytes that have arrived in the session of a mover.
    pub(super) fn progress(&self, number: usize, bytes: u64) {
        let now = self.clock.now();
        let mut state = self.lock();
        let mover = &mut state.movers[number];
        if bytes > mover.arrived {
            mover.arrived = bytes;
            mover.moved_at = now;
            mover.measure(now);
        }
    }

    /// Ends the session of a mover. If it has failed, its units go to the others.
    pub(super) fn end_session(&self, number: usize, has_failed: bool) {
        let mut state = self.lock();
        let mover = &mut state.movers[number];
        let ended = std::mem::take(mover);
        mover.session = ended.session + 1;
        mover.rate = ended.rate;
        if has_failed {
            state.left += ended.cost;
            for unit in ended.taken.into_iter().rev() {
                state.ready.push_front(unit);
            }
        }
        self.changed.notify_all();
    }

    /// Returns true if all units were staged.
    pub(super) fn is_done(&self) -> bool {
        self.lock().is_done()
    }
}

impl State {
    /// Returns true if nothing is left to take, and no mover may still fail.
    fn is_done(&self) -> bool {
        let is_idle = |mover: &Mover| mover.taken.is_empty();
        self.is_planned && self.ready.is_empty() && self.movers.iter().all(is_idle)
    }

    fn take(&mut self, number: usize, now: Instant) -> Option<Unit> {
        let count = self.movers.len() as u64;
        let all = self.left + self.movers.iter().map(|mover| mover.cost).sum::<u64>();
        let mover = &mut self.movers[number];
        let ahead = (mover.rate.saturating_mul(AHEAD_TENTHS) / 10).max(AHEAD_MIN);
        // at the end, no mover takes more than its share
        let share = if self.is_planned {
            all / count
        } else {
            u64::MAX
        };
        let ahead = ahead.min(share.max(UNIT_MIN));
        let is_stuck = now.since(mover.moved_at) > PATIENCE;
        if mover.cost >= ahead && !is_stuck {
            return None;
        }
        let len = (ahead / 4).clamp(UNIT_MIN, UNIT_MAX) / UNIT_STEP * UNIT_STEP;
        let first = self.ready.front_mut()?;
        // a short rest is no unit of its own
        let unit = if first.bytes() > len + len / 2 && !self.has_files {
            self.left = self.left.saturating_sub(len);
            first.split(len)
        } else {
            self.left = self.left.saturating_sub(first.cost());
            self.ready.pop_front()?
        };
        mover.cost += unit.cost();
        mover.moved_at = now;
        mover.taken.push(unit.clone());
        Some(unit)
    }
}

impl Mover {
    /// Measures the rate over half a second or more.
    fn measure(&mut self, now: Instant) {
        let (since, before) = *self.measured.get_or_insert((now, self.arrived));
        let millis = now.since(since).as_millis() as u64;
        if millis >= 500 {
            let rate = (self.arrived - before).saturating_mul(1000) / millis;
            self.rate = if self.rate > 0 {
                self.rate.midpoint(rate)
            } else {
                rate
            };
            self.measured = Some((now, self.arrived));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lighthaul_base::Rng;
    use lighthaul_io::host::clock::unix_nanos;

    use super::*;

    /// Takes all units as movers that fail now and then, and returns how often each byte of each file was staged.
    fn staged(rng: &mut Rng, movers: usize, sizes: &[u64]) -> BTreeMap<Vec<u8>, Vec<Span>> {
        let queue = WorkQueue::new(movers, false);
        for (nth, size) in sizes.iter().enumerate() {
            queue.add(Unit::file(vec![nth as u8], *size));
        }
        queue.close();
        let mut done: BTreeMap<Vec<u8>, Vec<Span>> = BTreeMap::new();
        let mut held: Vec<Vec<Unit>> = vec![Vec::new(); movers];
        while !queue.is_done() {
            let number = rng.below(movers as u64) as usize;
            let session = queue.lock().movers[number].session;
            match rng.below(8) {
                0 => {
                    queue.end_session(number, true);
                    held[number].clear();
                    assert_eq!(queue.take(number, session), None, "the session has ended");
                }
                1..4 => {
                    let unit = queue.lock().take(number, Instant::ZERO);
                    held[number].extend(unit);
                }
                _ => {
                    if let Some(unit) = held[number].pop() {
                        let path = unit.listed.path.clone();
                        queue.staged(number, &path, unit.span());
                        done.entry(path).or_default().push(unit.span());
                    }
                }
            }
        }
        for number in 0..movers {
            assert_eq!(queue.begin_session(number), None);
        }
        done
    }

    #[test]
    fn each_byte_is_staged_once_whatever_movers_fail() {
        let seed = unix_nanos();
        eprintln!("seed {seed}");
        let mut rng = Rng::new(seed);
        for _ in 0..100 {
            let movers = 1 + rng.below(4) as usize;
            let count = rng.below(20);
            let sizes: Vec<_> = (0..count).map(|_| 1 + rng.below(1 << 29)).collect();
            let done = staged(&mut rng, movers, &sizes);
            for (nth, size) in sizes.iter().enumerate() {
                let mut spans = done[&vec![nth as u8]].clone();
                spans.sort_unstable();
                let end = spans.iter().fold(0, |at, (from, till)| {
                    assert!(*from == at && till > from, "{spans:?}");
                    *till
                });
                assert_eq!(end, *size);
            }
        }
    }

    #[test]
    fn mover_takes_more_work_only_when_it_has_little_left() {
        let queue = WorkQueue::new(2, false);
        let size = 1 << 30;
        queue.add(Unit::file(b"a".to_vec(), size));
        let mut taken = Vec::new();
        while let Some(unit) = queue.lock().take(0, Instant::ZERO) {
            taken.push(unit);
        }
        let bytes: u64 = taken.iter().map(Unit::bytes).sum();
        assert!(
            (AHEAD_MIN - UNIT_MIN..2 * AHEAD_MIN).contains(&bytes),
            "{bytes}"
        );
        // without progress, it gets one more
        let later = Instant::ZERO + PATIENCE * 2;
        assert!(queue.lock().take(0, later).is_some());
        assert_eq!(queue.lock().take(0, later), None);
        queue.staged(0, b"a", taken[0].span());
        queue.staged(0, b"a", taken[1].span());
        assert!(queue.lock().take(0, later).is_some());
    }

    #[test]
    fn last_work_is_shared() {
        let queue = WorkQueue::new(4, false);
        queue.add(Unit::file(b"a".to_vec(), 64 << 20));
        queue.close();
        let mut bytes = [0; 4];
        for (number, bytes) in bytes.iter_mut().enumerate() {
            while let Some(unit) = queue.lock().take(number, Instant::ZERO) {
                *bytes += unit.bytes();
            }
        }
        assert!(
            bytes
                .iter()
                .all(|bytes| (8 << 20..=24 << 20).contains(bytes)),
            "{bytes:?}"
        );
    }

    #[test]
    fn files_that_cannot_be_staged_do_not_hold_the_others() {
        let queue = WorkQueue::new(1, true);
        queue.add(Unit::file(b"a".to_vec(), 9));
        queue.add(Unit::file(b"b".to_vec(), 9));
        queue.close();
        assert!(queue.take(0, 0).is_some() && queue.take(0, 0).is_some());
        assert_eq!(queue.take(0, 0), None);
        queue.give_up(0, b"a");
        assert!(!queue.is_done());
        queue.staged(0, b"b", (0, 9));
        assert!(queue.is_done());
    }
}
