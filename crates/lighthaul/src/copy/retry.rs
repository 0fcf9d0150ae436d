//! Attempts of a copy: retries after network failures, and the time to stop.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_copy::watch::Summary;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::wait;
use lighthaul_session::error::{Code, Error};

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::transfer;
use crate::fault::Fault;
use crate::list::List;

/// Longest pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Copies, and retries after network failures, until the copy succeeds or the end time of the request is reached.
pub(crate) fn run(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    run_each(job, reporter, |reporter| transfer::copy(job, reporter))
}

/// Runs `copy` as [`run`] does, for each attempt.
pub(crate) fn run_each(
    job: &Job,
    reporter: &mut Reporter<'_>,
    copy: impl Fn(&mut Reporter<'_>) -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    let request = &job.request;
    let _alarm = request.stop_at.map(stop_at).transpose()?;
    let mut pause = Duration::from_secs(1);
    // a list from a pipe cannot be read again, and a retry would count the deletions of a limit from zero
    let again = !request.list.as_ref().is_some_and(List::is_read_once)
        && request.options.max_delete.is_none();
    let mut left = if again { request.retries } else { 0 };
    let mut early_left = 1;
    let mut was_stopped = false;
    loop {
        let result = copy(reporter);
        let error = match result {
            Ok(summary) => return Ok(reporter.whole(summary)),
            Err(error) => error,
        };
        was_stopped |= error.code() == Code::Stopping;
        let passing = matches!(
            error.code(),
            Code::Network | Code::TimedOut | Code::Stopping
        );
        if interrupt::is_requested() && has_come(request.stop_at) {
            return Err(Fault::StopTime.into());
        }
        if passing {
            // Ctrl-C ends ssh, and with it connections through it
            interrupt::check()?;
        }
        if !passing || left == 0 {
            return Err(error);
        }
        // a daemon that was stopped may take some time to start again
        if !reporter.has_started() && !was_stopped {
            // a login of the user that others share may end at any time
            if early_left == 0 || !reporter.is_connected_by_ssh() {
                return Err(error);
            }
            early_left -= 1;
        }
        left -= 1;
        reporter.try_again(error, pause, left);
        sleep(pause)?;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Stops the work of this thread at a time, unless the returned value is dropped earlier.
pub(crate) fn stop_at(at: Timestamp) -> Result<Sender<()>, Error> {
    let pause = Duration::from_nanos(at.0.saturating_sub(unix_nanos()));
    let work = Cancellation::current();
    let (copying, end) = channel();
    let wait = move || {
        if end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            work.cancel();
        }
    };
    let thread = thread::Builder::new().name("alarm".into());
    thread.spawn(wait).map_err(Fault::Thread)?;
    Ok(copying)
}

/// Returns true if the time has come.
pub(crate) fn has_come(stop_at: Option<Timestamp>) -> bool {
    stop_at.is_some_and(|at| at.0 <= unix_nanos())
}

/// Waits for `pause`; fails if the copy is interrupted.
pub(crate) fn sleep(pause: Duration) -> Result<(), Error> {
    let clock = Clock::start();
    while clock.now() < Instant::ZERO + pause {
        interrupt::check()?;
        let until = clock.now() + Duration::from_millis(100);
        wait(clock, &mut [], until).map_err(Fault::Wait)?;
    }
    Ok(())
}
