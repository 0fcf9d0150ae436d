//! Signals that ask a process to stop. Each test runs itself again, as a process that may be ended.

use std::hint;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use lighthaul_io::host::interrupt::{
    TOGETHER, handle_signals, handle_signals_gracefully, is_ending, is_requested,
};
use lighthaul_io::host::wait::pause;
use nix::sys::signal::{Signal, raise as raise_here};

const APART: Duration = TOGETHER.saturating_mul(2);

#[test]
fn simultaneous_signals_are_handled_once() {
    assert_eq!(status_of("child_gets_two_signals_at_once").code(), Some(0));
}

#[test]
#[ignore = "called by simultaneous_signals_are_handled_once"]
fn child_gets_two_signals_at_once() {
    handle_signals().unwrap();
    raise(Signal::SIGINT);
    raise(Signal::SIGTERM);
    assert!(is_requested());
}

/// Each thread of a program may handle one of them.
#[test]
fn simultaneous_signals_on_two_threads_are_handled_once() {
    for run in 0..RUNS {
        let status = status_of("child_gets_two_signals_on_two_threads");
        assert_eq!(status.code(), Some(0), "run {run}");
    }
}

/// Runs in which at least one meets the other signal inside its handler.
const RUNS: u32 = 500;

#[test]
#[ignore = "called by simultaneous_signals_on_two_threads_are_handled_once"]
fn child_gets_two_signals_on_two_threads() {
    handle_signals().unwrap();
    let waiting = AtomicU32::new(2);
    let meet = |signal| {
        waiting.fetch_sub(1, Ordering::SeqCst);
        while waiting.load(Ordering::SeqCst) > 0 {
            hint::spin_loop();
        }
        raise(signal);
    };
    thread::scope(|scope| {
        scope.spawn(|| meet(Signal::SIGINT));
        meet(Signal::SIGTERM);
    });
    assert!(is_requested());
}

#[test]
fn second_signal_ends_a_program() {
    assert_eq!(status_of("child_gets_two_signals").code(), Some(130));
}

#[test]
#[ignore = "called by second_signal_ends_a_program"]
fn child_gets_two_signals() {
    handle_signals().unwrap();
    raise(Signal::SIGTERM);
    assert!(is_requested());
    pause(APART);
    raise(Signal::SIGINT);
}

#[test]
fn third_signal_ends_a_graceful_stop() {
    assert_eq!(status_of("child_stops_gracefully").code(), Some(143));
}

#[test]
#[ignore = "called by third_signal_ends_a_graceful_stop"]
fn child_stops_gracefully() {
    handle_signals_gracefully().unwrap();
    raise(Signal::SIGTERM);
    raise(Signal::SIGTERM);
    assert!(is_ending() && !is_requested());
    pause(APART);
    raise(Signal::SIGTERM);
    assert!(is_requested());
    pause(APART);
    raise(Signal::SIGTERM);
}

fn status_of(test: &str) -> ExitStatus {
    let this = std::env::current_exe().expect("the path of this test");
    let mut command = Command::new(this);
    command.args(["--exact", "--ignored", test]);
    command.status().expect("a child that has ended")
}

fn raise(signal: Signal) {
    raise_here(signal).expect("a signal that was raised");
}
