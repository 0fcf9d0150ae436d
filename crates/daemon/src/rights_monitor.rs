//! Check of a client's rights while its session runs.
//!
//! `monitored` runs the work of a session, and a second thread calls `judge` once a second:
//!
//! ```text
//! judge refuses twice in a row -> halt -> 2 s to end by itself -> error to client, close
//! judge panics ----------------> halt
//! ```
//!
//! One refusal alone is ignored, because an editor may empty a list before it writes. The caller
//! defines the rights; this file only measures time.

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

/// Runs `work` on a session, and halts the session when `judge` refuses its client. A session that does not end by
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::AtomicU32;

    use crate::error::Fault;
    use lighthaul_io::crypto::identity::Identity;
    use lighthaul_io::crypto::tls::Side;
    use lighthaul_io::net::tcp;
    use lighthaul_session::error::Code;
    use lighthaul_session::message::Message;

    use super::*;

    /// Returns the server's and the client's side of a session on loopback.
    fn sessions() -> [Session; 2] {
        let listener = tcp::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let session = Session::meet(listener.accept().unwrap().0, &Identity::generate());
                let session = session.unwrap();
                session.control.authorize();
                session
            });
            let tcp = tcp::connect("127.0.0.1", port).unwrap();
            let client = Session::start(tcp, Side::Client, &Identity::generate()).unwrap();
            [server.join().unwrap(), client]
        })
    }

    fn refused() -> Result<(), Error> {
        Err(Fault::ReadOnly.into())
    }

    /// Waits until a session is halted. Returns the duration.
    fn until_halted(session: &Session, most: Duration) -> Option<Duration> {
        let clock = session.clock;
        let began = clock.now();
        while clock.now().since(began) < most {
            if session.halt.check().is_err() {
                return Some(clock.now().since(began));
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        None
    }

    #[test]
    fn refused_client_is_halted_within_five_seconds_and_disconnected() {
        let [server, client] = sessions();
        let halted = monitored(&server, refused, || {
            let halted = until_halted(&server, Duration::from_secs(5));
            assert!(halted.is_some());
            // the work does not end by itself
            let told = client.hear_for::<Message>(Duration::from_secs(10));
            told.unwrap_err()
        });
        assert_eq!(halted.text(), Fault::ReadOnly.to_string());
        assert_eq!(server.halt.check().unwrap_err().code(), Code::Permission);
    }

    #[test]
    fn halted_session_has_time_to_end_by_itself() {
        let [server, client] = sessions();
        monitored(&server, refused, || {
            until_halted(&server, Duration::from_secs(5)).unwrap();
            let told = client.hear_for::<Message>(END_TIMEOUT / 2);
            assert!(told.is_err() && !client.was_told() && !client.control.has_ended());
        });
        assert!(!client.was_told() && !client.control.has_ended());
    }

    #[test]
    fn single_refusal_does_not_halt_the_client() {
        let [server, _client] = sessions();
        let calls = AtomicU32::new(0);
        let judge = || match calls.fetch_add(1, Relaxed) {
            1 => refused(),
            _ => Ok(()),
        };
        let halted = monitored(&server, judge, || {
            until_halted(&server, CHECK_INTERVAL * 9 / 2)
        });
        assert_eq!(halted, None);
        let calls = calls.load(Relaxed);
        assert!(
            (3..=4).contains(&calls),
            "a check every second, not {calls}"
        );
    }

    #[test]
    fn session_without_a_working_judge_is_halted() {
        let [server, _client] = sessions();
        let judge = || -> Result<(), Error> { panic!("a fault") };
        let halted = monitored(&server, judge, || {
            until_halted(&server, Duration::from_secs(5))
        });
        assert!(halted.is_some());
    }
}
