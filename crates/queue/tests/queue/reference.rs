//! Random work with a queue, compared after each step with a list of jobs in memory.

use std::collections::{BTreeMap, BTreeSet};

use lighthaul_queue::claims::{Order, Report, backoff};
use lighthaul_queue::job::{Attempt, AttemptEnd, JobEnd};
use lighthaul_queue::list::Selection;
use lighthaul_queue::{JobId, JobSpec, JobState, Queue};
use proptest::prelude::*;

use crate::{CASES, Folder, spec};

/// Step of the random work.
#[derive(Clone, Debug)]
enum Action {
    /// Job, and its delay.
    Submit(JobSpec, u64),
    Claim(usize),
    Renew(usize),
    Finish(usize, JobEnd),
    Cancel(u64),
    Retry(u64),
    Pass(u64),
}

fn action() -> impl Strategy<Value = Action> {
    let end = prop::sample::select(vec![
        JobEnd::Done,
        JobEnd::Retry,
        JobEnd::Failed,
        JobEnd::Canceled,
        JobEnd::Released,
    ]);
    prop_oneof![
        4 => (0_u8..3, -1..2, prop::option::of(1_u64..12), prop_oneof![Just(0), 0_u64..5000], prop::bool::weighted(0.1)).prop_map(
            |(owner, priority, after, delay, every)| {
                let spec = JobSpec {
                    owner: format!("owner {owner}"),
                    priority,
                    after: after.map(JobId).into_iter().collect(),
                    every: every.then_some(2000),
                    retries: RETRIES,
                    ..spec()
                };
                Action::Submit(spec, delay)
            }
        ),
        4 => (1_usize..4).prop_map(Action::Claim),
        1 => (0_usize..9).prop_map(Action::Renew),
        4 => (0_usize..9, end).prop_map(|(which, end)| Action::Finish(which, end)),
        1 => (1_u64..15).prop_map(Action::Cancel),
        1 => (1_u64..15).prop_map(Action::Retry),
        2 => prop_oneof![0_u64..2000, Just(30_000)].prop_map(Action::Pass),
    ]
}

/// Job of the reference.
#[derive(Clone, Debug)]
struct Known {
    owner: String,
    priority: i32,
    state: JobState,
    open: Vec<u64>,
    not_before: u64,
    /// Planned time of the run in its series.
    series: u64,
    every: Option<u64>,
    attempt: u32,
    failures: u32,
    losses: u32,
    lease: u64,
    cancel: bool,
}

/// Queue of the reference: all rules in the plainest form.
#[derive(Default)]
struct Reference {
    now: u64,
    jobs: BTreeMap<u64, Known>,
    served: BTreeMap<String, u64>,
    turn: u64,
}

impl Reference {
    fn submit(&mut self, spec: &JobSpec) -> Option<u64> {
        let mut open = Vec::new();
        for other in &spec.after {
            match self.jobs.get(&other.0)?.state {
                JobState::Done => {}
                JobState::Failed | JobState::Canceled => return None,
                JobState::Waiting | JobState::Queued | JobState::Running => open.push(other.0),
            }
        }
        let id = self.jobs.len() as u64 + 1;
        let not_before = if spec.not_before == 0 {
            self.now
        } else {
            spec.not_before
        };
        let ready = open.is_empty() && not_before <= self.now;
        self.jobs.insert(
            id,
            Known {
                owner: spec.owner.clone(),
                priority: spec.priority,
                state: if ready {
                    JobState::Queued
                } else {
                    JobState::Waiting
                },
                open,
                not_before,
                series: not_before,
                every: spec.every,
                attempt: 0,
                failures: 0,
                losses: 0,
                lease: 0,
                cancel: false,
            },
        );
        Some(id)
    }

    fn claim(&mut self) -> Option<u64> {
        let queued = |job: &&Known| job.state == JobState::Queued;
        let priority = self
            .jobs
            .values()
            .filter(queued)
            .map(|job| job.priority)
            .max()?;
        let running = |owner: &str| {
            let runs = |job: &&Known| job.state == JobState::Running && job.owner == owner;
            self.jobs.values().filter(runs).count()
        };
        let (id, job) = self
            .jobs
            .iter()
            .filter(|(_, job)| job.state == JobState::Queued && job.priority == priority)
            .min_by_key(|(id, job)| {
                let served = self.served.get(&job.owner).copied().unwrap_or(0);
                (running(&job.owner), served, job.owner.clone(), **id)
            })?;
        let (id, owner) = (*id, job.owner.clone());
        self.turn += 1;
        self.served.insert(owner, self.turn);
        let now = self.now;
        let job = self.jobs.get_mut(&id)?;
        job.state = JobState::Running;
        job.attempt += 1;
        job.lease = now + LEASE;
        Some(id)
    }

    fn end(&mut self, id: u64, state: JobState) {
        let mut ending = BTreeMap::new();
        self.end_one(id, state, &mut ending);
        while let Some((ended, state)) = ending.pop_first() {
            let waits = |(other, job): (&u64, &Known)| job.open.contains(&ended).then_some(*other);
            let after: BTreeSet<u64> = self.jobs.iter().filter_map(waits).collect();
            for other in after {
                if state == JobState::Done {
                    self.release(ended, other);
                } else {
                    self.end_one(other, JobState::Failed, &mut ending);
                }
            }
        }
    }

    /// Ends a job, and adds it to those whose end the jobs after it must learn.
    fn end_one(&mut self, id: u64, state: JobState, ending: &mut BTreeMap<u64, JobState>) {
        let job = self.jobs.get_mut(&id).unwrap();
        if job.state.is_end() {
            return;
        }
        ending.insert(id, state);
        job.state = state;
        let is_canceled = std::mem::take(&mut job.cancel) || state == JobState::Canceled;
        job.open.clear();
        let again = job.every.filter(|_| !is_canceled);
        if let Some(every) = again {
            job.every = None;
            let mut next = job.clone();
            next.series += every;
            while next.series <= self.now {
                next.series += every;
            }
            next.not_before = next.series;
            next.state = JobState::Waiting;
            next.every = Some(every);
            (next.attempt, next.failures, next.losses) = (0, 0, 0);
            let new = self.jobs.len() as u64 + 1;
            self.jobs.insert(new, next);
        }
    }

    fn release(&mut self, ended: u64, other: u64) {
        let job = self.jobs.get_mut(&other).unwrap();
        job.open.retain(|open| *open != ended);
        if job.open.is_empty() && job.not_before <= self.now {
            job.state = JobState::Queued;
        }
    }

    fn renew(&mut self, attempt: Attempt) -> Order {
        let job = self.jobs.get_mut(&attempt.job.0).unwrap();
        if job.state != JobState::Running || job.attempt != attempt.number {
            return Order::Abandon;
        }
        job.lease = self.now + LEASE;
        if job.cancel {
            Order::Cancel
        } else {
            Order::Continue
        }
    }

    fn finish(&mut self, attempt: Attempt, end: JobEnd) -> bool {
        let Some(job) = self.jobs.get_mut(&attempt.job.0) else {
            return false;
        };
        if job.state != JobState::Running || job.attempt != attempt.number {
            return false;
        }
        let id = attempt.job.0;
        match end {
            JobEnd::Done => self.end(id, JobState::Done),
            JobEnd::Failed => self.end(id, JobState::Failed),
            JobEnd::Canceled => self.end(id, JobState::Canceled),
            JobEnd::Released | JobEnd::Retry if job.cancel => self.end(id, JobState::Canceled),
            JobEnd::Released => job.state = JobState::Queued,
            JobEnd::Retry if job.failures >= RETRIES => self.end(id, JobState::Failed),
            JobEnd::Retry => {
                job.not_before = self.now + backoff(job.failures);
                job.failures += 1;
                job.state = JobState::Waiting;
            }
        }
        true
    }

    fn advance(&mut self) {
        let now = self.now;
        let due = |job: &Known| {
            job.state == JobState::Waiting && job.open.is_empty() && job.not_before <= now
        };
        for job in self.jobs.values_mut() {
            if due(job) {
                job.state = JobState::Queued;
            }
        }
        let lost = |job: &Known| job.state == JobState::Running && job.lease < now;
        let lost: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| lost(job))
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let job = self.jobs.get_mut(&id).unwrap();
            job.losses += 1;
            if job.cancel {
                self.end(id, JobState::Canceled);
            } else if job.losses > 10 {
                self.end(id, JobState::Failed);
            } else {
                job.state = JobState::Queued;
            }
        }
    }

    fn cancel(&mut self, id: u64) -> bool {
        match self.jobs.get_mut(&id) {
            Some(job) if job.state == JobState::Running => job.cancel = true,
            Some(job) if !job.state.is_end() => self.end(id, JobState::Canceled),
            Some(_) | None => return false,
        }
        true
    }

    fn retry(&mut self, id: u64) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        let may = matches!(job.state, JobState::Failed | JobState::Canceled);
        if may {
            job.state = JobState::Queued;
            (job.failures, job.losses, job.cancel) = (0, 0, false);
        }
        may
    }
}

fn check_equal(queue: &mut Queue, reference: &Reference) {
    let all = queue.jobs(&Selection::default(), None, 1000).unwrap();
    let found: BTreeMap<u64, _> = all
        .iter()
        .map(|job| {
            let times = (job.not_before, job.every);
            let counts = (job.attempt, job.failures, job.is_cancel_requested);
            (job.id.0, (job.state, times, counts))
        })
        .collect();
    let known: BTreeMap<u64, _> = reference
        .jobs
        .iter()
        .map(|(id, job)| {
            let times = (job.not_before, job.every);
            (
                *id,
                (job.state, times, (job.attempt, job.failures, job.cancel)),
            )
        })
        .collect();
    assert_eq!(found, known);
}

fn run(actions: Vec<Action>, queue: &mut Queue) {
    let mut reference = Reference {
        now: 1000,
        ..Reference::default()
    };
    // attempts that workers know, also those that were given to others
    let mut attempts: Vec<Attempt> = Vec::new();
    for action in actions {
        let now = reference.now;
        match action {
            Action::Submit(spec, delay) => {
                let not_before = if delay == 0 { 0 } else { now + delay };
                let spec = JobSpec { not_before, ..spec };
                let id = queue.submit(now, std::slice::from_ref(&spec)).ok();
                assert_eq!(id.map(|ids| ids[0].0), reference.submit(&spec));
            }
            Action::Claim(most) => {
                let claimed = queue.claim(now, "worker", LEASE, most).unwrap();
                let expected: Vec<u64> = (0..most).map_while(|_| reference.claim()).collect();
                let found: Vec<u64> = claimed.iter().map(|job| job.id.0).collect();
                assert_eq!(found, expected);
                attempts.extend(claimed.iter().map(lighthaul_queue::Job::attempt));
            }
            Action::Renew(which) if !attempts.is_empty() => {
                let attempt = attempts[which % attempts.len()];
                let report = Report::default();
                let order = queue.renew(now, attempt, LEASE, &report).unwrap();
                assert_eq!(order, reference.renew(attempt));
            }
            Action::Finish(which, end) if !attempts.is_empty() => {
                let attempt = attempts[which % attempts.len()];
                let how = AttemptEnd {
                    end,
                    exit: None,
                    text: String::new(),
                };
                let done = queue
                    .finish(now, attempt, &how, &Report::default())
                    .unwrap();
                assert_eq!(done, reference.finish(attempt, end));
            }
            Action::Renew(_) | Action::Finish(..) => {}
            Action::Cancel(id) => {
                let done = queue.cancel(now, JobId(id)).is_ok();
                assert_eq!(done, reference.cancel(id));
            }
            Action::Retry(id) => {
                let done = queue.retry(now, JobId(id)).is_ok();
                assert_eq!(done, reference.retry(id));
            }
            Action::Pass(time) => {
                reference.now += time;
                queue.advance(reference.now).unwrap();
                reference.advance();
            }
        }
        check_equal(queue, &reference);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]
    #[test]
    fn queue_equals_the_reference_after_each_step(actions in prop::collection::vec(action(), 1..60)) {
        let folder = Folder::new("reference");
        folder.clear();
        run(actions, &mut folder.queue());
    }
}

const LEASE: u64 = 1000;
const RETRIES: u32 = 2;
