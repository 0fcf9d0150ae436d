//! Programs that wait for the server, and signals that end their waits.
//!
//! The kernel announces a signal only for some requests, and never for pages that it reads ahead. So a thread looks at the
//! programs whose requests take long. A request of a program that must end, as after Ctrl-C, fails with `EINTR`. Other
//! signals, as of timers and children, do not concern it: programs expect no `EINTR` from files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use fuser::Request;
use lighthaul_base::Instant;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use rustix::process::Signal;

/// Requests that wait for the server.
#[derive(Debug)]
pub(crate) struct Waits {
    clock: Clock,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    requests: BTreeMap<u64, Wait>,
}

/// Request of a program.
#[derive(Debug)]
struct Wait {
    /// Thread of the program.
    thread: u32,
    since: Instant,
    cancellation: Cancellation,
}

/// Entry of a request, which is removed with this value.
struct Entry<'a>(&'a Waits, u64);

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.0.waiting().requests.remove(&self.1);
    }
}

impl Waits {
    /// Starts the thread that looks at programs.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let waits = Arc::new(Self {
            clock: Clock::start(),
            waiting: Mutex::default(),
        });
        let watched = Arc::downgrade(&waits);
        let thread = thread::Builder::new().name("signals".into());
        thread.spawn(move || watch(&watched))?;
        Ok(waits)
    }

    /// Does the work of a request that changes nothing. It ends early if its program has to end.
    pub(crate) fn during<T>(&self, request: &Request, work: impl FnOnce() -> T) -> T {
        let cancellation = Cancellation::default();
        let wait = Wait {
            thread: request.pid(),
            since: self.clock.now(),
            cancellation: cancellation.clone(),
        };
        let _entry = self.add(wait);
        cancellation.cover(work)
    }

    fn add(&self, wait: Wait) -> Entry<'_> {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        waiting.requests.insert(number, wait);
        Entry(self, number)
    }

    /// Cancels requests of programs that have to end.
    fn look(&self) {
        let now = self.clock.now();
        let long: Vec<(u32, Cancellation)> = self
            .waiting()
            .requests
            .values()
            .filter(|wait| now.since(wait.since) >= PATIENCE)
            .map(|wait| (wait.thread, wait.cancellation.clone()))
            .collect();
        for (thread, cancellation) in long {
            if has_to_end(thread) {
                cancellation.cancel();
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn watch(waits: &Weak<Waits>) {
    while let Some(waits) = waits.upgrade() {
        waits.look();
        drop(waits);
        pause(LOOK);
    }
}

/// Returns true if a signal that ends programs waits for a thread, which is unknown if it is 0.
fn has_to_end(thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{thread}/status"));
    status.is_ok_and(|status| has_ending_signal(&status))
}

/// Returns true if a signal that ends programs is pending in the status of a thread, a file of `/proc`.
fn has_ending_signal(status: &str) -> bool {
    let mask = |name: &str| {
        let mut lines = status.lines();
        let found = lines.find_map(|line| line.strip_prefix(name));
        found.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
    };
    let pending = mask("SigPnd:").unwrap_or(0) | mask("ShdPnd:").unwrap_or(0);
    let blocked = mask("SigBlk:").unwrap_or(0);
    let ending = ENDING.iter().map(|signal| 1_u64 << (signal.as_raw() - 1));
    pending & !blocked & ending.sum::<u64>() != 0
}

/// Signals that ask a program to end.
const ENDING: [Signal; 5] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::KILL,
    Signal::TERM,
];
/// Time after which the program of a request is looked at.
const PATIENCE: Duration = Duration::from_millis(100);
/// Interval at which programs are looked at.
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signal_that_ends_programs_is_found() {
        let status = |own: u64, shared: u64, blocked: u64| {
            format!(
                "Name:\tcat\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
            )
        };
        let bit = |signal: Signal| 1_u64 << (signal.as_raw() - 1);
        let interrupt = bit(Signal::INT);
        for (text, expected) in [
            (status(0, 0, 0), false),
            (status(0, interrupt, 0), true),
            (status(bit(Signal::KILL), 0, 0), true),
            (status(0, interrupt, interrupt), false),
            (
                status(bit(Signal::ALARM) | bit(Signal::URG), bit(Signal::CHILD), 0),
                false,
            ),
            (String::new(), false),
        ] {
            assert_eq!(has_ending_signal(&text), expected, "{text}");
        }
        assert!(!has_to_end(std::process::id()));
    }

    #[test]
    fn request_is_forgotten_after_its_end() {
        let waits = Waits::start().unwrap();
        let wait = Wait {
            thread: 0,
            since: waits.clock.now(),
            cancellation: Cancellation::default(),
        };
        drop(waits.add(wait));
        assert!(waits.waiting().requests.is_empty());
    }
}
