//! Copies at the rates of a vector that may end before all data have arrived.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_base::Trc;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_copy::watch::Summary;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::{retry, transfer};

/// Copies at the rates of a vector from `start` on. An attempt after its end uses TCP. As soon as all data have left
/// the circuit, another thread calls `release`, whose result is returned, too; then further attempts use TCP.
///
/// `withdrawn` is called from time to time. Once it returns a reason, the attempt ends, and the next uses TCP.
pub(super) fn follow<T: Send>(
    (job, reporter): (&Job, &mut Reporter<'_>),
    (start, vector): (Timestamp, &Trc),
    release: impl FnOnce() -> T + Send,
    withdrawn: impl Fn() -> Option<String> + Send,
) -> (Result<Summary, Error>, Option<T>) {
    let ordinary = job.ordinary();
    let end = Timestamp(start.0.saturating_add(vector.end().as_nanos()));
    let booked = job.following(vector, start);
    let (signal, released) = channel();
    let (running, done) = channel::<()>();
    let is_free = &AtomicBool::new(false);
    let reason = &Mutex::new(None);
    let on_circuit = &Cancellation::current().part();
    thread::scope(|scope| {
        let release = scope.spawn(move || {
            released.recv().ok()?;
            is_free.store(true, Relaxed);
            Some(release())
        });
        scope.spawn(move || {
            while done.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let why = withdrawn();
                if is_free.load(Relaxed) {
                    break;
                }
                if why.is_some() {
                    *reason.lock().unwrap_or_else(PoisonError::into_inner) = why;
                    on_circuit.cancel();
                    break;
                }
            }
        });
        reporter.signal_release(Some(signal));
        let run = AssertUnwindSafe(|| {
            retry::run_each(job, reporter, |reporter| {
                let is_over = is_late(unix_nanos(), start, end) || is_free.load(Relaxed);
                if is_over || on_circuit.is_cancelled() {
                    return transfer::copy(&ordinary, reporter);
                }
                let booked = || transfer::copy(&booked, reporter);
                let copied = on_circuit.clone().cover(booked);
                let why = reason.lock().unwrap_or_else(PoisonError::into_inner).take();
                match why {
                    Some(why) if copied.is_err() && !interrupt::is_requested() => {
                        reporter.warn(format!("{why}: the copy continues without it"));
                        transfer::copy(&ordinary, reporter)
                    }
                    Some(_) | None => copied,
                }
            })
        });
        let result = catch_unwind(run);
        // the threads end also if the copy has failed
        reporter.signal_release(None);
        drop(running);
        let early = release.join().unwrap_or_else(|panic| resume_unwind(panic));
        (result.unwrap_or_else(|panic| resume_unwind(panic)), early)
    })
}

/// Returns true if an attempt that begins now may move no data before the end. Before the start, an attempt is never
/// late: it connects in the time that was planned for that, however short the vector is.
const fn is_late(now: u64, start: Timestamp, end: Timestamp) -> bool {
    now >= start.0 && now.saturating_add(CALL.as_nanos() as u64) >= end.0
}

/// Interval at which the copy looks whether its circuit was withdrawn.
pub(super) const LOOK: Duration = Duration::from_secs(4);
/// Time until a retried copy moves data.
const CALL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_before_the_start_of_a_short_vector_follows_the_vector() {
        let at = |millis: u64| Timestamp(millis * 1_000_000);
        let is_late = |now, end| is_late(at(now).0, at(5000), at(end));
        for (now, end, late) in [
            (4000, 5260, false),
            (4999, 5001, false),
            (5000, 5260, true),
            (5000, 6001, false),
            (6000, 7000, true),
        ] {
            assert_eq!(is_late(now, end), late, "at {now} of 5000..{end} ms");
        }
    }
}
