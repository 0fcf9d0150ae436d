//! The O(1) processor scheduler of Linux 2.6 as the RBUDP+ paper describes it (sections 3 and 4, figures 2 to 4).
//! It decides which task of a receiving host runs, and predicts when the receiver will lose the processor.
//!
//! Tasks wait in an active and an expired array of queues, one for each priority. The first task of the best
//! non-empty queue runs. At the end of its time slice the task gets a new priority from its average sleep time. An
//! interactive task returns to the active array unless expired tasks starve. Any other task moves to the expired
//! array, which becomes the active one as soon as that is empty. Numbers that the paper omits come from
//! `kernel/sched.c` of 2.6.9: slices of 100 ms at nice 0, at most one second of sleep, a bonus of five either way.
//! Tasks of a better nice value have longer slices there, up to 800 ms.
//!
//! All tasks but the receiver are CPU-bound and never sleep. There is no tick: slices end to the nanosecond. The
//! receiver needs processor time only to handle datagrams and messages.

use alloc::collections::VecDeque;
use core::ops::Range;
use core::time::Duration;

use lighthaul_base::{Absence, Instant, Rng};

/// Tasks of a host and the state of its processor.
#[derive(Clone, Debug)]
pub struct Processor {
    now: Instant,
    tasks: VecDeque<Task>,
    active: Queues,
    expired: Queues,
    /// Time at which the expired array last became non-empty.
    expired_since: Instant,
    running: Option<usize>,
    /// Predictions of the monitor, and the time at which each was made.
    predictions: VecDeque<(Instant, Absence)>,
    counts: Predictions,
    /// Times at which other tasks run although the receiver has work, in order.
    away: VecDeque<Range<Instant>>,
}

/// Numbers of predictions that a monitor has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predictions {
    /// By figure 3: the receiver stays in the active array.
    pub stays_active: u64,
    /// Figure 4: the receiver moves to the expired array.
    pub expires: u64,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// Priority without a bonus: 20, and the nice value.
    fixed: usize,
    slice: Duration,
    sleep_average: Duration,
    /// Priority; a smaller number runs first.
    priority: usize,
}

impl Processor {
    /// Returns a host with a receiver that has slept and `competitors` tasks that never sleep, with the nice value
    /// `nice`. `seed` determines the remaining time slices of the competitors.
    pub fn new(competitors: u32, nice: i8, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let receiver = Task {
            fixed: FIXED_PRIORITY,
            slice: slice(FIXED_PRIORITY),
            sleep_average: SLEEP_AVERAGE_MAX,
            priority: priority(FIXED_PRIORITY, SLEEP_AVERAGE_MAX),
        };
        let fixed = FIXED_PRIORITY.saturating_add_signed(isize::from(nice.clamp(-20, 19)));
        let greedy = priority(fixed, Duration::ZERO);
        let mut processor = Self {
            now: Instant::ZERO,
            tasks: VecDeque::from([receiver]),
            active: Queues::EMPTY,
            expired: Queues::EMPTY,
            expired_since: Instant::ZERO,
            running: None,
            predictions: VecDeque::new(),
            counts: Predictions::default(),
            away: VecDeque::new(),
        };
        processor.active.push(receiver.priority, RECEIVER);
        for task in 1..=competitors as usize {
            processor.tasks.push_back(Task {
                fixed,
                slice: Duration::from_nanos(1 + rng.below(slice(fixed).as_nanos() as u64)),
                sleep_average: Duration::ZERO,
                priority: greedy,
            });
            processor.active.push(greedy, task);
        }
        processor
    }

    /// Adds `work` for the receiver, which starts at `now` or after its earlier work. Returns the end of the work.
    pub fn run(&mut self, now: Instant, work: Duration) -> Instant {
        self.forget_away(now);
        if self.now < now {
            self.sleep(now);
        }
        let mut left = work;
        while !left.is_zero() {
            let task = self.pick();
            if task == RECEIVER {
                left -= self.spend(task, left);
            } else {
                let from = self.now;
                self.spend(task, Duration::MAX);
                match self.away.back_mut() {
                    Some(last) if last.end == from => last.end = self.now,
                    Some(_) | None => self.away.push_back(from..self.now),
                }
            }
        }
        self.now
    }

    /// True if another task runs at `now` although the receiver has work. `now` never goes back.
    pub fn is_away(&mut self, now: Instant) -> bool {
        self.forget_away(now);
        self.away.front().is_some_and(|away| away.start <= now)
    }

    /// Returns the numbers of predictions so far.
    pub const fn counts(&self) -> Predictions {
        self.counts
    }

    /// Returns the time at which the receiver has finished its work.
    pub const fn free_at(&self) -> Instant {
        self.now
    }

    /// Returns the time of the monitor's next prediction, or [`Instant::NEVER`].
    pub fn next_prediction_at(&self) -> Instant {
        self.predictions
            .front()
            .map_or(Instant::NEVER, |(at, _)| *at)
    }

    /// Takes the monitor's next prediction.
    pub fn take_prediction(&mut self) -> Option<Absence> {
        self.predictions.pop_front().map(|(_, absence)| absence)
    }

    fn forget_away(&mut self, now: Instant) {
        while self.away.front().is_some_and(|away| away.end <= now) {
            self.away.pop_front();
        }
    }

    /// Runs the competitors until `now` while the receiver sleeps, and then wakes the receiver.
    fn sleep(&mut self, now: Instant) {
        let slept = now.since(self.now);
        if self.running == Some(RECEIVER) {
            self.running = None;
        } else {
            self.active.remove(RECEIVER);
            self.expired.remove(RECEIVER);
        }
        if self.tasks.len() == 1 {
            self.now = now;
        }
        while self.now < now {
            let task = self.pick();
            self.spend(task, now.since(self.now));
        }
        let receiver = &mut self.tasks[RECEIVER];
        receiver.sleep_average = (receiver.sleep_average + slept).min(SLEEP_AVERAGE_MAX);
        receiver.priority = priority(receiver.fixed, receiver.sleep_average);
        self.active.push(receiver.priority, RECEIVER);
        // a task that wakes up preempts a running task of lower priority
        if let Some(running) = self.running
            && self.tasks[RECEIVER].priority < self.tasks[running].priority
        {
            self.active
                .push_front(self.tasks[running].priority, running);
            self.running = None;
        }
    }

    /// Returns the task that runs from now on.
    fn pick(&mut self) -> usize {
        if let Some(task) = self.running {
            return task;
        }
        if self.active.is_empty() {
            core::mem::swap(&mut self.active, &mut self.expired);
        }
        let task = self.active.pop();
        self.running = Some(task);
        if task == RECEIVER {
            self.predict();
        }
        task
    }

    /// Runs the task for `time` or until the end of its slice. Returns the time that it ran.
    fn spend(&mut self, nth: usize, time: Duration) -> Duration {
        let task = &mut self.tasks[nth];
        let time = time.min(task.slice);
        task.slice -= time;
        task.sleep_average = task.sleep_average.saturating_sub(time);
        self.now += time;
        if task.slice.is_zero() {
            self.expire(nth);
        }
        time
    }

    /// Gives a task a new slice and priority, and queues it.
    fn expire(&mut self, nth: usize) {
        self.running = None;
        let task = &mut self.tasks[nth];
        task.slice = slice(task.fixed);
        task.priority = priority(task.fixed, task.sleep_average);
        let (fixed, priority) = (task.fixed, task.priority);
        if is_interactive(fixed, priority) && !self.is_starving() {
            self.active.push(priority, nth);
            return;
        }
        if self.expired.is_empty() {
            self.expired_since = self.now;
        }
        self.expired.push(priority, nth);
    }

    fn is_starving(&self) -> bool {
        let limit = SLEEP_AVERAGE_MAX * self.tasks.len() as u32;
        !self.expired.is_empty() && self.now.since(self.expired_since) >= limit
    }

    /// Predicts the next loss of the processor and its duration, when the receiver gets the processor (figure 3).
    fn predict(&mut self) {
        let receiver = self.tasks[RECEIVER];
        let rested = receiver.sleep_average.saturating_sub(receiver.slice);
        let rested = priority(receiver.fixed, rested);
        let stays = is_interactive(receiver.fixed, rested) && !self.is_starving();
        let worst = if stays {
            receiver.priority + DELTA
        } else {
            // figure 4: the receiver moves to the expired array, behind all active tasks
            PRIORITIES - 1
        };
        let slices = |queues: &Queues, worst: usize| -> Duration {
            let greedy = |task: &&Task| task.slice > task.sleep_average;
            let waiting = queues.up_to(worst).map(|nth| &self.tasks[nth]);
            waiting.filter(greedy).map(|task| task.slice).sum()
        };
        let mut len = slices(&self.active, worst);
        if !stays {
            len += slices(&self.expired, rested);
        }
        if !len.is_zero() {
            let absence = Absence {
                from: self.now + receiver.slice,
                len,
                every: Duration::ZERO,
            };
            self.predictions.push_back((self.now, absence));
            if stays {
                self.counts.stays_active += 1;
            } else {
                self.counts.expires += 1;
            }
        }
    }
}

/// Queue of tasks for each priority.
#[derive(Clone, Debug)]
struct Queues([VecDeque<usize>; PRIORITIES]);

impl Queues {
    const EMPTY: Self = Self([const { VecDeque::new() }; PRIORITIES]);

    fn push(&mut self, priority: usize, task: usize) {
        self.0[priority].push_back(task);
    }

    fn push_front(&mut self, priority: usize, task: usize) {
        self.0[priority].push_front(task);
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(VecDeque::is_empty)
    }

    /// Takes the first task of the best non-empty queue. There always is one.
    fn pop(&mut self) -> usize {
        let mut first = self.0.iter_mut().find_map(VecDeque::pop_front);
        first.take().unwrap_or(RECEIVER)
    }

    fn remove(&mut self, task: usize) {
        for queue in &mut self.0 {
            queue.retain(|other| *other != task);
        }
    }

    /// Returns the tasks with the priority `worst` or a better one.
    fn up_to(&self, worst: usize) -> impl Iterator<Item = usize> {
        self.0.iter().take(worst + 1).flatten().copied()
    }
}

/// Returns the dynamic priority of a task, like `effective_prio()`: the fixed priority less the bonus for sleep.
fn priority(fixed: usize, sleep_average: Duration) -> usize {
    let bonus = sleep_average.as_nanos() * BONUS_MAX as u128 / SLEEP_AVERAGE_MAX.as_nanos();
    (fixed + BONUS_MAX / 2)
        .saturating_sub(bonus as usize)
        .min(PRIORITIES - 1)
}

/// True for an interactive task, like `TASK_INTERACTIVE()`: the better its nice value, the less sleep it needs.
fn is_interactive(fixed: usize, priority: usize) -> bool {
    // rounds toward nice 0, as the kernel's macros do
    let scaled = fixed.abs_diff(FIXED_PRIORITY) * BONUS_MAX / PRIORITIES;
    if fixed < FIXED_PRIORITY {
        priority + INTERACTIVE <= fixed + scaled
    } else {
        priority + INTERACTIVE + scaled <= fixed
    }
}

/// Returns the time slice of a task, as `task_timeslice()` does.
fn slice(fixed: usize) -> Duration {
    let base = if fixed < FIXED_PRIORITY {
        SLICE * 4
    } else {
        SLICE
    };
    (base * (PRIORITIES - fixed) as u32 / (PRIORITIES as u32 / 2)).max(SLICE_MIN)
}

const RECEIVER: usize = 0;
/// Number of priorities of user processes.
const PRIORITIES: usize = 40;
/// Priority of nice 0 without a bonus.
const FIXED_PRIORITY: usize = 20;
const BONUS_MAX: usize = 10;
const INTERACTIVE: usize = 2;
/// Maximum drop of the receiver's priority at the end of its slice that the monitor expects.
const DELTA: usize = 2;
/// Time slice of a task with the nice value 0.
const SLICE: Duration = Duration::from_millis(100);
/// Shortest time slice of a task.
const SLICE_MIN: Duration = Duration::from_millis(5);
const SLEEP_AVERAGE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + MS * millis as u32
    }

    #[test]
    fn receiver_without_competitors_is_never_descheduled() {
        let mut processor = Processor::new(0, 0, 1);
        assert_eq!(processor.run(at(5), MS * 700), at(705));
        assert_eq!(processor.run(at(10), MS), at(706));
        assert_eq!(processor.next_prediction_at(), Instant::NEVER);
    }

    #[test]
    fn receiver_that_sleeps_preempts_competitors() {
        let mut processor = Processor::new(5, 0, 1);
        let mut now = at(1000);
        for _ in 0..1000 {
            assert_eq!(processor.run(now, MS), now + MS);
            now += MS * 4;
        }
        assert_eq!(processor.next_prediction_at(), Instant::NEVER);
    }

    #[test]
    fn receiver_that_never_sleeps_gets_a_fair_share() {
        for competitors in [1, 2, 5] {
            let mut processor = Processor::new(competitors, 0, 7);
            let took = processor.run(at(0), MS * 20_000).as_secs_f64();
            let fair = 20.0 * f64::from(competitors + 1);
            assert!((took / fair - 1.0).abs() < 0.06, "{took} s, not {fair} s");
        }
    }

    #[test]
    fn predicted_absence_matches_for_busy_receiver() {
        let mut processor = Processor::new(5, 0, 3);
        // the receiver has used up its sleep bonus by then
        processor.run(at(0), MS * 5_000);
        while processor.take_prediction().is_some() {}
        let mut right = 0;
        for _ in 0..100 {
            let before = processor.now;
            processor.run(before, MS * 10);
            let away = processor.now.since(before).saturating_sub(MS * 10);
            if away.is_zero() {
                continue;
            }
            // the prediction was made at the previous turn
            let Some(absence) = processor.take_prediction() else {
                break;
            };
            right += u32::from(absence.len == away || absence.len.abs_diff(away) < MS);
        }
        assert!(right >= 8, "{right} of about ten are right");
    }

    #[test]
    fn slices_and_priorities_match_linux() {
        let slices = [0, 10, 19, 20, 39].map(|fixed| slice(fixed).as_millis());
        assert_eq!(slices, [800, 600, 420, 100, 5]);
        assert_eq!(priority(20, Duration::ZERO), 25);
        assert_eq!(priority(20, SLEEP_AVERAGE_MAX), 15);
        assert_eq!(priority(39, Duration::ZERO), 39);
        // at nice 0, seven tenths of a second of sleep make a task interactive
        let at = |tenths: u32| is_interactive(20, priority(20, MS * 100 * tenths));
        assert_eq!([6, 7].map(at), [false, true]);
        assert!(!is_interactive(11, priority(11, Duration::ZERO)));
    }

    /// Figure 3: competitors at the receiver's priority less delta or better run when its slice ends.
    #[test]
    fn active_receiver_predicts_competitors_within_delta() {
        // a receiver that has slept has priority 15, and 16 after its slice; these tasks have 16, 17 and 19
        for (nice, foreseen, runs) in [(-9, true, true), (-8, true, false), (-6, false, false)] {
            let mut processor = Processor::new(1, nice, 5);
            // the receiver runs for its slice, and sleeps while the competitor does
            let mut right = 0;
            for turn in 0..20 {
                let now = at(1000) + MS * 1500 * turn;
                processor.run(now, MS);
                let absence = processor.take_prediction();
                let took = processor.run(now, MS * 100).since(now);
                let away = took.saturating_sub(MS * 101);
                if let Some(absence) = absence {
                    right += u32::from(absence.len == away && !away.is_zero());
                }
            }
            let counts = processor.counts();
            assert_eq!(counts.stays_active > 10, foreseen, "{nice}: {counts:?}");
            assert_eq!(right > 10, runs, "{nice}: {right} are right");
        }
    }

    #[test]
    fn receiver_is_descheduled_while_other_tasks_run() {
        let mut processor = Processor::new(1, 0, 1);
        processor.run(at(0), MS * 2000);
        let away = (0..1900)
            .filter(|millis| processor.is_away(at(*millis)))
            .count();
        assert!((700..1100).contains(&away), "{away} ms");
        assert!(!processor.is_away(at(100_000)));
    }
}
