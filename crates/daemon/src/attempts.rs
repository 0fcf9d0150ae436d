//! Attempts of one copy: a new attempt ends the previous one, which may still wait for a lost connection.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::Error;
use lighthaul_session::halt::Halt;
use lighthaul_session::session::Session;

use crate::error::Fault;

/// Time until an earlier attempt must have ended.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Running attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    under_way: Mutex<BTreeMap<AttemptId, Arc<Halt>>>,
    one_ended: Condvar,
}

/// Identity of a copy: the key of the client, the number of the copy, and its part.
type AttemptId = (Fingerprint, [u8; 16], &'static str);

/// Running attempt, which ends on drop.
#[derive(Debug)]
pub(crate) struct RunningAttempt<'a>(&'a Attempts, AttemptId);

impl Drop for RunningAttempt<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
        self.0.one_ended.notify_all();
    }
}

impl Attempts {
    /// Ends earlier attempts at the part of a copy that `session` serves, and registers the new attempt. Returns
    /// nothing for a request that is not part of a copy.
    pub(crate) fn enter(
        &self,
        session: &Session,
        options: Option<&Options>,
        part: &'static str,
    ) -> Result<Option<RunningAttempt<'_>>, Error> {
        let Some(copy) = options.and_then(|options| options.copy) else {
            return Ok(None);
        };
        let name = (session.peer, copy, part);
        self.take_over(name, &session.halt, END_TIMEOUT).map(Some)
    }

    fn take_over(
        &self,
        name: AttemptId,
        halt: &Arc<Halt>,
        timeout: Duration,
    ) -> Result<RunningAttempt<'_>, Error> {
        let clock = Clock::start();
        let mut under_way = self.lock();
        while let Some(earlier) = under_way.get(&name) {
            earlier.stop(Fault::Replaced.into());
            let left = timeout.saturating_sub(clock.now().since(Instant::ZERO));
            if left.is_zero() {
                return Err(Fault::EarlierAttempt.into());
            }
            let waited = self.one_ended.wait_timeout(under_way, left);
            (under_way, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        under_way.insert(name, Arc::clone(halt));
        Ok(RunningAttempt(self, name))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptId, Arc<Halt>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use lighthaul_session::error::Code;

    use super::*;

    fn name(copy: u8, part: &'static str) -> AttemptId {
        (Fingerprint::from_octets([7; 32]), [copy; 16], part)
    }

    #[test]
    fn new_attempt_ends_the_earlier_attempt_and_waits_for_its_end() {
        let attempts = Attempts::default();
        let halt = Arc::<Halt>::default();
        let first = attempts
            .take_over(name(1, "in"), &halt, END_TIMEOUT)
            .unwrap();
        // other copies and other parts of the same copy run at the same time
        let _others = [name(2, "in"), name(1, "out")].map(|name| {
            attempts
                .take_over(name, &Arc::default(), END_TIMEOUT)
                .unwrap()
        });
        assert_eq!(halt.check(), Ok(()));
        thread::scope(|scope| {
            scope.spawn(|| {
                let first = first;
                while halt.check().is_ok() {
                    thread::yield_now();
                }
                drop(first);
            });
            let second = Arc::<Halt>::default();
            let _second = attempts
                .take_over(name(1, "in"), &second, END_TIMEOUT)
                .unwrap();
            assert_eq!(second.check(), Ok(()));
        });
    }

    #[test]
    fn attempt_fails_if_the_earlier_attempt_does_not_end() {
        let attempts = Attempts::default();
        let _first = attempts
            .take_over(name(1, "in"), &Arc::default(), END_TIMEOUT)
            .unwrap();
        let again = attempts.take_over(name(1, "in"), &Arc::default(), Duration::from_millis(20));
        assert_eq!(again.unwrap_err().code(), Code::TimedOut);
    }
}
