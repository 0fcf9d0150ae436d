//! Signals that ask a process to stop. Each test runs itself again, as a process that may be ended.

use std::process::{Command, ExitStatus};
use std::time::Duration;

use lighthaul_io::interrupt::{
    TOGETHER, handle_signals, handle_signals_gracefully, is_ending, is_requested,
};
use lighthaul_io::wait::pause;
use nix::sys::signal::{Signal, raise as raise_here};

const APART: Duration = TOGETHER.saturating_mul(2);

#[test]
fn signals_that_come_together_count_as_one() {
    assert_eq!(
        status_of("process_that_is_signalled_as_timeout_does").code(),
        Some(0)
    );
}

#[test]
#[ignore = "called by signals_that_come_together_count_as_one"]
fn process_that_is_signalled_as_timeout_does() {
    handle_signals().unwrap();
    raise(Signal::SIGINT);
    raise(Signal::SIGTERM);
    assert!(is_requested());
}

#[test]
fn second_signal_ends_the_process() {
    assert_eq!(
        status_of("process_that_is_signalled_twice").code(),
        Some(130)
    );
}

#[test]
#[ignore = "called by second_signal_ends_the_process"]
fn process_that_is_signalled_twice() {
    handle_signals().unwrap();
    raise(Signal::SIGTERM);
    assert!(is_requested());
    pause(APART);
    raise(Signal::SIGINT);
}

#[test]
fn process_with_work_to_finish_ends_at_the_third_signal() {
    assert_eq!(status_of("process_with_work_to_finish").code(), Some(143));
}

#[test]
#[ignore = "called by process_with_work_to_finish_ends_at_the_third_signal"]
fn process_with_work_to_finish() {
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
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", test]);
    command.status().unwrap()
}

fn raise(signal: Signal) {
    raise_here(signal).unwrap();
}
