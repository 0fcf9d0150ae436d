//! Repetition of requests after failures that may pass.
//!
//! A scheduler that restarts, or that refuses a request since it is busy, answers soon. Only requests that may be
//! executed twice are repeated: reading, and requests with an idempotency key.

use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;

use crate::client_error::{ClientError, MAY_PASS};

/// Failure of one request.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ClientError,
    /// Pause that the scheduler asks for.
    pub(crate) wait: Option<Duration>,
    /// True if the same request may succeed later.
    pub(crate) may_pass: bool,
}

impl Failure {
    /// Returns a failure that a repetition does not mend.
    pub(crate) const fn lasting(error: ClientError) -> Self {
        Self {
            error,
            wait: None,
            may_pass: false,
        }
    }

    /// Returns the failure, which may pass unless the caller has sent too many requests. After all others, the scheduler
    /// may have executed the request, and its answer was lost.
    pub(crate) fn unless_limited(self) -> Self {
        let is_limited =
            matches!(&self.error, ClientError::Problem(problem) if problem.status == 429);
        Self {
            may_pass: self.may_pass && !is_limited,
            ..self
        }
    }

    /// Returns the failure of a refusal with a status of HTTP.
    pub(crate) fn refusal(error: ClientError, status: u16, wait: Option<Duration>) -> Self {
        Self {
            error,
            wait,
            may_pass: MAY_PASS.contains(&status),
        }
    }
}

/// Sends a request, and again with growing pauses after failures that may pass, for [`PATIENCE`] and until the thread is
/// cancelled.
pub(crate) fn patiently<T>(mut send: impl FnMut() -> Result<T, Failure>) -> Result<T, ClientError> {
    let clock = Clock::start();
    let start = clock.now();
    for nth in 0..REPETITIONS {
        match send() {
            Err(failure)
                if failure.may_pass
                    && clock.now().since(start) < PATIENCE
                    && interrupt::check().is_ok() =>
            {
                let asked = failure.wait.unwrap_or_default().min(PAUSE_MAX);
                pause((PAUSE * 2_u32.pow(nth)).max(asked));
            }
            done => return done.map_err(|failure| failure.error),
        }
    }
    send().map_err(|failure| failure.error)
}

/// Time after which a request is not repeated again. A host that does not answer takes longer already.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most repetitions of a request.
const REPETITIONS: u32 = 5;
/// First pause; each one after it is twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest pause that a scheduler may ask for.
const PAUSE_MAX: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(may_pass: bool) -> Failure {
        let error = ClientError::Network {
            url: "u".to_owned(),
            why: "w".to_owned(),
        };
        Failure {
            may_pass,
            ..Failure::lasting(error)
        }
    }

    #[test]
    fn only_failures_that_may_pass_are_repeated() {
        let mut count = 0;
        let answer = patiently(|| {
            count += 1;
            if count > 1 { Ok(7) } else { Err(failure(true)) }
        });
        assert_eq!((answer.ok(), count), (Some(7), 2));
        let mut count = 0;
        let refused: Result<(), _> = patiently(|| {
            count += 1;
            Err(failure(false))
        });
        assert_eq!((refused.is_err(), count), (true, 1));
    }
}
