//! Check of a client's rights while its session runs.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Thread};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_session::error::{Error, caught};
use lighthaul_session::session::Session;

/// Interval of the checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of consecutive refusals that end a session: an editor may have emptied the list before writing it.
const REFUSALS_MIN: u32 = 2;
/// Time for the end of a halted session.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `work` on a session, and halts the session once `judge` refuses its client. A session that does not end by
/// itself is closed soon after.
pub(crate) fn monitored<T>(
    session: &Session,
    judge: impl Fn() -> Result<(), Error> + Send,
    work: impl FnOnce() -> T,
) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let monitor = scope.spawn(|| {
            let watched = caught("judge", || {
                watch(session, &done, judge);
                Ok(())
            });
            if let Err(error) = watched {
                // a session must not run without checks
                session.halt.stop(error);
            }
        });
        let _end = EndOnDrop(&done, monitor.thread());
        work()
    })
}

/// Ends the monitoring, however the work ends.
struct EndOnDrop<'a>(&'a AtomicBool, &'a Thread);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.unpark();
    }
}

fn watch(session: &Session, done: &AtomicBool, judge: impl Fn() -> Result<(), Error>) {
    let clock = session.clock;
    let wait = |until: Instant| {
        while !done.load(Relaxed) && clock.now() < until {
            thread::park_timeout(clock.until(until));
        }
        done.load(Relaxed)
    };
    let mut refusals = 0;
    while !wait(clock.now() + CHECK_INTERVAL) {
        let halted = session.halt.check();
        let verdict = halted.clone().and_then(|()| judge());
        let Err(error) = verdict else {
            refusals = 0;
            continue;
        };
        refusals += 1;
        if refusals >= REFUSALS_MIN || halted.is_err() {
            session.halt.stop(error.clone());
            if !wait(clock.now() + END_TIMEOUT) {
                session.tell(&error).ok();
                session.control.close();
            }
            return;
        }
    }
}
