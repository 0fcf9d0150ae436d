//! Attempts of a copy: retries after network failures, and the time to stop.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::counted;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_copy::watch::Summary;
use lighthaul_grammar::copy::Cp;
use lighthaul_grammar::time::Time;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::wait;
use lighthaul_session::error::{Code, Error};

use crate::copy::printer::Printer;
use crate::error::Fault;

/// Longest pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Runs `copy`, and retries it after network failures, until it succeeds or the time of `--stop-at`.
pub(crate) fn run(
    args: &Cp,
    printer: &mut Printer,
    copy: impl Fn(&Cp, &mut Printer) -> Result<Summary, Error>,
) -> Result<Summary, Error> {
    if let Some(Time(at)) = args.later.stop_at {
        stop_at(at);
    }
    let mut pause = Duration::from_secs(1);
    // a list from a pipe cannot be read again, and a retry would count the deletions of --max-delete from zero
    let again = args.choice.files_from.as_deref() != Some(Path::new("-"))
        && args.choice.change.max_delete.is_none();
    let mut left = if again { args.later.retries } else { 0 };
    let mut early_left = 1;
    let mut was_stopped = false;
    loop {
        let result = copy(args, printer);
        let error = match result {
            Ok(summary) => return Ok(printer.whole(summary)),
            Err(error) => error,
        };
        was_stopped |= error.code() == Code::Stopping;
        let passing = matches!(
            error.code(),
            Code::Network | Code::TimedOut | Code::Stopping
        );
        if interrupt::is_requested() && stopped(args) {
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
        if !printer.has_started() && !was_stopped {
            // a login of the user that others share may end at any time
            if early_left == 0 || !printer.is_connected_by_ssh() {
                return Err(error);
            }
            early_left -= 1;
        }
        left -= 1;
        printer.try_again();
        let text = format!(
            "{error}; retrying in {} s ({} left)",
            pause.as_secs(),
            counted(left.into(), "retry", "retries")
        );
        printer.warn(&text);
        sleep(pause)?;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Stops this process at a time.
fn stop_at(at: Timestamp) {
    let pause = Duration::from_nanos(at.0.saturating_sub(unix_nanos()));
    std::thread::spawn(move || {
        std::thread::sleep(pause);
        interrupt::request();
    });
}

fn stopped(args: &Cp) -> bool {
    let stop_at = args.later.stop_at;
    stop_at.is_some_and(|Time(at)| at.0 <= unix_nanos())
}

/// Waits; fails if it is interrupted.
pub(crate) fn sleep(pause: Duration) -> Result<(), Error> {
    let clock = Clock::start();
    while clock.now() < Instant::ZERO + pause {
        interrupt::check()?;
        let until = clock.now() + Duration::from_millis(100);
        wait(clock, &mut [], until).map_err(Fault::Wait)?;
    }
    Ok(())
}

/// Returns the error, with the command that resumes an interrupted copy.
pub(crate) fn with_command(args: &Cp, error: Error) -> Error {
    let gateway = args.via.through.gateway.as_ref();
    let tells_password = gateway.is_some_and(|gateway| gateway.credentials.is_some());
    if error.code() != Code::Interrupted || args.choice.dry_run.is_some() {
        return error;
    }
    let words = std::env::args_os().map(|word| {
        let word = word.to_string_lossy();
        shlex::try_quote(&word).map_or_else(|_| word.to_string(), Into::into)
    });
    let words: Vec<String> = words.collect();
    let command = if tells_password {
        "the same command".to_owned()
    } else {
        words.join(" ")
    };
    Fault::Interrupted(command).into()
}
