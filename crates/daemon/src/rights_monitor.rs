//! Whether who was let in may stay.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, Thread};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_session::error::{Error, caught};
use lighthaul_session::session::Session;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// So often in a row nobody may be let in: an editor may have emptied a file that it is about to fill.
const DOUBTS: u32 = 2;
/// How long a session that is halted may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Runs `work` on a session, and halts it once `judge` turns away whoever is at its other end. However it is halted, it
/// does not go on for long.
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
                // no session goes on that is not watched
                session.halt.stop(error);
            }
        });
        let _leave = Leave(&done, monitor.thread());
        work()
    })
}

/// Sends the monitor home, however the work ended.
struct Leave<'a>(&'a AtomicBool, &'a Thread);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.unpark();
    }
}

fn watch(session: &Session, done: &AtomicBool, judge: impl Fn() -> Result<(), Error>) {
    let clock = session.clock;
    let rest = |until: Instant| {
        while !done.load(Relaxed) && clock.now() < until {
            thread::park_timeout(clock.until(until));
        }
        done.load(Relaxed)
    };
    let mut doubts = 0;
    while !rest(clock.now() + LOOK) {
        let halted = session.halt.check();
        let verdict = halted.clone().and_then(|()| judge());
        let Err(error) = verdict else {
            doubts = 0;
            continue;
        };
        doubts += 1;
        if doubts >= DOUBTS || halted.is_err() {
            session.halt.stop(error.clone());
            if !rest(clock.now() + GRACE) {
                session.tell(&error).ok();
                session.control.close();
            }
            return;
        }
    }
}
