//! Repetition of requests that the server refuses, because it has too many long requests of the session.

use std::time::Duration;

use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;

use crate::failure::{Failure, FailureKind};

/// Time for which a refused request is repeated.
const CROWDED_TIMEOUT: Duration = Duration::from_mins(1);
/// First and longest pause before a request is repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];

/// Repeats a request while the server has too many others. The server has done nothing of a refused one.
pub(super) fn patiently<T>(mut ask: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let clock = Clock::start();
    let deadline = clock.now() + CROWDED_TIMEOUT;
    let task = Cancellation::current();
    let [mut rest, longest] = PAUSES;
    loop {
        match ask() {
            Err(failure) if failure.kind == FailureKind::Crowded && clock.now() < deadline => {}
            result => return result,
        }
        if task.is_cancelled() {
            return Err(Failure::interrupted());
        }
        pause(rest);
        rest = (rest * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_request_is_repeated_until_it_is_cancelled_or_fails_otherwise() {
        let mut left = 3;
        let mut ask = |kind| {
            left -= 1;
            match left {
                0 => Ok(7),
                _ => Err(Failure::new(kind, "refused")),
            }
        };
        assert_eq!(patiently(|| ask(FailureKind::Crowded)), Ok(7));
        let mut asked = 0;
        let mut refuse = |kind| {
            asked += 1;
            Err::<(), _>(Failure::new(kind, "refused"))
        };
        let failure = patiently(|| refuse(FailureKind::Busy)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Busy);
        let task = Cancellation::default();
        task.cancel();
        let failure = task.cover(|| patiently(|| refuse(FailureKind::Crowded)).unwrap_err());
        assert_eq!(failure, Failure::interrupted());
        assert_eq!(asked, 2);
    }
}
