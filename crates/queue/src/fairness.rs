//! Fair shares: which owner gets a free slot, and when a running job makes room for an owner that waits.
//!
//! Each slot of an owner has a weight: the number of jobs that the owner runs besides it, divided by the share of the
//! owner. A free slot goes to the owner whose next slot weighs least. A job makes room only if its slot weighs more than
//! the slot that the waiting owner gets. So the waiting owner gets the free slot, each interruption lowers the sum of
//! all weights, and interruptions end. If there are more owners than slots, those without a job take turns.

use std::cmp::Ordering;

/// Running jobs and share of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Jobs that run.
    pub(crate) running: u64,
    /// Share.
    pub(crate) share: u64,
    /// Turn of the job that started last, or of the last one that made room.
    pub(crate) served: u64,
}

impl Load {
    /// Compares the weights of the next slots of two owners.
    pub(crate) fn by_weight(&self, other: &Self) -> Ordering {
        let weighed = |one: &Self, other: &Self| {
            u128::from(one.running).saturating_mul(other.share.max(1).into())
        };
        weighed(self, other).cmp(&weighed(other, self))
    }

    /// Compares the places of two owners in the order of turns.
    pub(crate) fn by_turn(&self, other: &Self) -> Ordering {
        let order = self.by_weight(other);
        order.then(self.served.cmp(&other.served))
    }

    /// Returns the load after one job less.
    pub(crate) const fn with_one_less(self) -> Self {
        Self {
            running: self.running.saturating_sub(1),
            ..self
        }
    }
}

/// Returns true if a job of `holder` makes room for `next`, the owner that waits. The job has run for `age`
/// milliseconds, and `turn` is the least time that a job runs.
pub(crate) fn makes_room(next: Load, holder: Load, (age, attempt): (u64, u32), turn: u64) -> bool {
    // each attempt gets a longer time, so that a copy which starts again each time ends, too
    let (attempt, slice) = (u64::from(attempt.max(1)), turn.saturating_mul(SLICE));
    match next.by_weight(&holder.with_one_less()) {
        Ordering::Less => age >= turn.saturating_mul(attempt.min(SLICE)),
        Ordering::Equal => {
            next.running == 0 && age >= slice.saturating_mul(attempt.min(ATTEMPTS_MAX))
        }
        Ordering::Greater => false,
    }
}

/// Turns after which a job makes room for an owner that has no job, although no owner has more than its share.
const SLICE: u64 = 60;
/// Most attempts that lengthen the time of a job.
const ATTEMPTS_MAX: u64 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    const fn load(running: u64, share: u64) -> Load {
        Load {
            running,
            share,
            served: 0,
        }
    }

    #[test]
    fn jobs_run_for_a_least_time_before_they_make_room() {
        for (next, holder, attempt, least) in [
            (load(0, 1), load(2, 1), 1, Some(10)),
            (load(0, 1), load(2, 1), 7, Some(70)),
            (load(0, 1), load(2, 1), 1000, Some(600)),
            // more owners than slots
            (load(0, 1), load(1, 1), 1, Some(600)),
            (load(0, 1), load(1, 9), 2, Some(1200)),
            // the owner that waits would be behind the other one
            (load(1, 3), load(1, 1), 1, None),
            (load(9, 20), load(1, 1), 1, None),
            (load(1, 2), load(2, 2), 1, None),
            (load(1, u64::MAX), load(2, u64::MAX), 1, None),
        ] {
            let first = (0..2000).find(|age| makes_room(next, holder, (*age, attempt), 10));
            assert_eq!(first, least, "{next:?} {holder:?} {attempt}");
        }
    }

    /// Job in the simulation. Times are turns.
    struct Sim {
        owner: usize,
        /// Time that the job needs without an interruption.
        length: u64,
        attempt: u32,
        started: u64,
    }

    /// Owners, jobs that wait, and slots.
    struct Slots {
        loads: Vec<Load>,
        queued: Vec<Sim>,
        running: Vec<Sim>,
        places: usize,
        turn: u64,
        now: u64,
    }

    impl Slots {
        fn next(&self) -> Option<usize> {
            let owners = self.queued.iter().map(|job| job.owner);
            owners.min_by(|a, b| self.loads[*a].by_turn(&self.loads[*b]).then(a.cmp(b)))
        }

        fn fill(&mut self) {
            while self.running.len() < self.places
                && let Some(owner) = self.next()
            {
                let at = self.queued.iter().position(|job| job.owner == owner);
                let job = self.queued.remove(at.unwrap());
                self.turn += 1;
                let load = &mut self.loads[owner];
                (load.running, load.served) = (load.running + 1, self.turn);
                self.running.push(Sim {
                    attempt: job.attempt + 1,
                    started: self.now,
                    ..job
                });
            }
        }

        /// Interrupts the job at a slot if it makes room. Returns true if an owner had more than its share.
        fn interrupt(&mut self, at: usize) -> Option<bool> {
            let next = self.next()?;
            let job = &self.running[at];
            let (waiting, holder) = (self.loads[next], self.loads[job.owner]);
            let age = self.now - job.started;
            if job.owner == next || !makes_room(waiting, holder, (age, job.attempt), 1) {
                return None;
            }
            assert!(age >= u64::from(job.attempt).min(60));
            let job = self.running.remove(at);
            self.turn += 1;
            self.loads[job.owner] = Load {
                served: self.turn,
                ..holder.with_one_less()
            };
            self.queued.insert(0, job);
            self.fill();
            let owner = self.running.last().map(|job| job.owner);
            assert_eq!(owner, Some(next), "another owner got the slot");
            Some(waiting.by_weight(&holder.with_one_less()).is_lt())
        }
    }

    /// Numbers by splitmix64, below a limit.
    fn random(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |limit| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % limit
        }
    }

    fn slots(below: &mut impl FnMut(u64) -> u64) -> Slots {
        let owners = 1 + below(6);
        let mut share = || {
            if below(8) == 0 {
                1 << below(32)
            } else {
                1 + below(5)
            }
        };
        let loads = (0..owners).map(|_| load(0, share())).collect();
        Slots {
            loads,
            queued: Vec::new(),
            running: Vec::new(),
            places: usize::try_from(1 + below(8)).unwrap(),
            turn: 0,
            now: 0,
        }
    }

    const fn sim(owner: usize, length: u64) -> Sim {
        Sim {
            owner,
            length,
            attempt: 0,
            started: 0,
        }
    }

    #[test]
    fn interruptions_end_and_no_owner_starves() {
        for seed in 0..25 {
            let mut below = random(seed);
            let mut all = slots(&mut below);
            let owners = all.loads.len();
            // the first owner has all slots, then all others come
            for owner in 0..owners {
                for _ in 0..=below(10) + if owner == 0 { 8 } else { 0 } {
                    all.queued.push(sim(owner, u64::MAX));
                }
                if owner == 0 {
                    all.fill();
                }
            }
            let mut beyond = 0;
            let mut waits = vec![0; owners];
            let most = 1440 * owners as u64;
            for now in 1..3 * most {
                all.now = now;
                let at = usize::try_from(below(all.running.len() as u64)).unwrap();
                beyond += usize::from(all.interrupt(at) == Some(true));
                for (owner, wait) in waits.iter_mut().enumerate() {
                    *wait = if all.loads[owner].running == 0 {
                        *wait + 1
                    } else {
                        0
                    };
                    // some of the looks are at slots that are not due
                    assert!(*wait < 2 * most, "seed {seed}: owner {owner} starves");
                }
            }
            assert!(
                beyond <= all.places,
                "seed {seed}: {beyond} at {} slots",
                all.places
            );
            // no slot weighs more than the next one of an owner that waits
            let next = all.next().map(|owner| all.loads[owner]);
            for job in &all.running {
                let left = all.loads[job.owner].with_one_less();
                assert!(
                    next.is_none_or(|next| next.by_weight(&left).is_ge()),
                    "seed {seed}"
                );
            }
        }
    }

    #[test]
    fn job_that_starts_again_each_time_ends_although_short_jobs_keep_coming() {
        for seed in 0..20 {
            let mut below = random(seed);
            let mut all = slots(&mut below);
            let owners = all.loads.len();
            if owners == 1 {
                continue;
            }
            let mut left = 0;
            for owner in 1..owners {
                for _ in 0..=below(4) {
                    all.queued.push(sim(owner, 1 + below(50)));
                    left += 1;
                }
            }
            while left > 0 {
                all.now += 1;
                assert!(all.now < 100_000, "seed {seed}: {left} jobs do not end");
                if all.now.is_multiple_of(2) && all.queued.len() < 100 {
                    all.queued.push(sim(0, 1));
                }
                let now = all.now;
                for job in all
                    .running
                    .extract_if(.., |job| now - job.started >= job.length)
                {
                    let load = &mut all.loads[job.owner];
                    *load = load.with_one_less();
                    left -= usize::from(job.owner > 0);
                }
                all.fill();
                if !all.running.is_empty() {
                    let at = usize::try_from(below(all.running.len() as u64)).unwrap();
                    all.interrupt(at);
                }
            }
        }
    }
}
