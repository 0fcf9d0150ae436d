//! The attempts of a copy: a later one ends an earlier one, which may not have noticed that nobody is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_files::options::Options;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::session::{Halt, Session};

/// How long an earlier try may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The attempts that are under way.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    under_way: Mutex<BTreeMap<AttemptId, Arc<Halt>>>,
    one_ended: Condvar,
}

/// What all attempts of a copy have in common: whose they are, which copy that is, and which part of it.
type AttemptId = (Fingerprint, [u8; 16], &'static str);

/// A try's being under way, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RunningAttempt<'a>(&'a Attempts, AttemptId);

impl Drop for RunningAttempt<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
        self.0.one_ended.notify_all();
    }
}

impl Attempts {
    /// Ends earlier attempts of the copy that `session` is to do this part of, if it can have any, and takes their place.
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
        self.take_over(name, &session.halt, PATIENCE).map(Some)
    }

    fn take_over(
        &self,
        name: AttemptId,
        halt: &Arc<Halt>,
        patience: Duration,
    ) -> Result<RunningAttempt<'_>, Error> {
        let clock = Clock::start();
        let mut under_way = self.lock();
        while let Some(earlier) = under_way.get(&name) {
            let text = "a later try of the same copy goes on";
            earlier.stop(Error::new(Code::Network, text));
            let left = patience.saturating_sub(clock.now().since(Instant::ZERO));
            if left.is_zero() {
                let text = "an earlier try of this copy has not ended there yet";
                return Err(Error::new(Code::TimedOut, text));
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

    use super::*;

    fn name(copy: u8, part: &'static str) -> AttemptId {
        (Fingerprint::from_octets([7; 32]), [copy; 16], part)
    }

    #[test]
    fn a_later_try_waits_until_the_earlier_one_that_it_ends_has_let_go() {
        let attempts = Attempts::default();
        let halt = Arc::<Halt>::default();
        let first = attempts.take_over(name(1, "in"), &halt, PATIENCE).unwrap();
        // other copies, and other parts of the same, go on beside it
        let _others = [name(2, "in"), name(1, "out")]
            .map(|name| attempts.take_over(name, &Arc::default(), PATIENCE).unwrap());
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
                .take_over(name(1, "in"), &second, PATIENCE)
                .unwrap();
            assert_eq!(second.check(), Ok(()));
        });
    }

    #[test]
    fn who_waits_in_vain_says_so() {
        let attempts = Attempts::default();
        let _first = attempts
            .take_over(name(1, "in"), &Arc::default(), PATIENCE)
            .unwrap();
        let again = attempts.take_over(name(1, "in"), &Arc::default(), Duration::from_millis(20));
        assert_eq!(again.unwrap_err().code, Code::TimedOut);
    }
}
