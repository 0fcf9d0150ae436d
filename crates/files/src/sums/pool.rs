//! Pool of worker threads, whose results come in the order of jobs.
//!
//! [`run`] gives jobs to workers, and results to the [`Consumer`] in the calling thread. At most
//! 256 jobs and results for each worker are in memory: a slow job stops the supply of others after
//! that. A panic of a worker continues in the caller. When the consumer fails, workers end after
//! their present job.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Consumer of results.
pub trait Consumer<R> {
    /// Error that stops the pool.
    type Error;

    /// Takes the next result, in the order of jobs.
    fn take(&mut self, result: R) -> Result<(), Self::Error>;

    /// Shows progress; called when a result waits for an earlier result, and after 200 ms without a result.
    fn tick(&mut self);
}

/// Runs `work` on all `jobs` in `workers` threads, until the jobs end or the consumer fails.
pub fn run<J: Send, R: Send, F: Consumer<R>>(
    jobs: impl Iterator<Item = J>,
    workers: usize,
    work: impl Fn(J) -> R + Sync,
    consumer: &mut F,
) -> Result<(), F::Error> {
    let workers = workers.max(1);
    let window = (workers * WINDOW_EACH) as u64;
    // the queue has room for all jobs of the window, so that sending never waits
    let (send_job, queue) = sync_channel(workers * WINDOW_EACH);
    let queue = Mutex::new(queue);
    let (done, results) = channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (queue, work, done) = (&queue, &work, done.clone());
            scope.spawn(move || {
                while let Some((number, job)) = next(queue) {
                    let result = catch_unwind(AssertUnwindSafe(|| work(job)));
                    if done.send((number, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut jobs = jobs.fuse();
        let (mut given, mut taken) = (0_u64, 0_u64);
        let mut finished_early = BTreeMap::new();
        // dropping these at the end of the block ends the workers
        let (send_job, results) = (send_job, results);
        loop {
            while given - taken < window
                && let Some(job) = jobs.next()
            {
                send_job.send((given, job)).ok();
                given += 1;
            }
            if given == taken {
                return Ok(());
            }
            match results.recv_timeout(TICK) {
                Ok((number, Ok(result))) => {
                    finished_early.insert(number, result);
                    if number != taken {
                        consumer.tick();
                    }
                }
                // other workers would wait for jobs, and this thread for the result
                Ok((_, Err(panic))) => resume_unwind(panic),
                Err(RecvTimeoutError::Timeout) => consumer.tick(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            while let Some(result) = finished_early.remove(&taken) {
                taken += 1;
                consumer.take(result)?;
            }
        }
    })
}

fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.recv().ok()
}

/// Maximum number of jobs per worker in the queue or waiting for an earlier result.
const WINDOW_EACH: usize = 256;
/// Interval of calls to the consumer.
const TICK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Results, their largest number, and the number of ticks.
    struct List(Vec<u64>, usize, usize);

    impl Consumer<u64> for List {
        type Error = &'static str;

        fn take(&mut self, result: u64) -> Result<(), &'static str> {
            self.0.push(result);
            if self.0.len() == self.1 {
                return Err("enough");
            }
            Ok(())
        }

        fn tick(&mut self) {
            self.2 += 1;
        }
    }

    #[test]
    fn results_are_returned_in_order_and_their_number_is_bounded() {
        let held = AtomicU64::new(0);
        let finished = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        let jobs = (0..20_000).inspect(|_| {
            let held = held.fetch_add(1, Ordering::SeqCst) + 1 - finished.load(Ordering::SeqCst);
            most.fetch_max(held, Ordering::SeqCst);
        });
        let mut list = List(Vec::new(), usize::MAX, 0);
        let square = |job: u64| {
            // the first job holds up all others
            while job == 0 && finished.load(Ordering::SeqCst) < 500 {
                thread::yield_now();
            }
            finished.fetch_add(1, Ordering::SeqCst);
            job * job
        };
        assert_eq!(run(jobs, 3, square, &mut list), Ok(()));
        assert!(list.0.iter().copied().eq((0..20_000).map(|job| job * job)));
        assert!(most.load(Ordering::SeqCst) <= 3 * WINDOW_EACH as u64);
        // of the first 500 jobs that finished, all but those of the last moment waited
        assert!(list.2 >= 490, "progress is shown meanwhile: {}", list.2);
    }

    #[test]
    fn panic_of_a_worker_ends_the_pool() {
        let mut list = List(Vec::new(), usize::MAX, 0);
        let break_down = |job: u64| {
            assert!(job != 300, "broken on purpose");
            job
        };
        let attempt = || run(0..1000, 3, break_down, &mut list);
        assert!(catch_unwind(AssertUnwindSafe(attempt)).is_err());
    }

    #[test]
    fn error_of_the_consumer_ends_the_pool() {
        let mut list = List(Vec::new(), 10, 0);
        assert_eq!(run(0_u64.., 2, |job| job, &mut list), Err("enough"));
        assert_eq!(list.0, (0..10).collect::<Vec<_>>());
        let mut list = List(Vec::new(), 10, 0);
        assert_eq!(run(0..0, 2, |job| job, &mut list), Ok(()));
    }
}
