//! Questions to the user on the terminal.

use std::io::{Write, stderr, stdin};
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::Error;

/// Prints `question` on standard error, and returns true if the answer on standard input is yes.
pub fn is_confirmed(question: &str) -> Result<bool, Error> {
    write!(stderr(), "{}", escape(question, LINE_MAX)).ok();
    stderr().flush().ok();
    // a read alone would continue after an interrupt
    let clock = Clock::start();
    let mut typed = [Watch::read(stdin().as_raw_fd())];
    while !typed[0].readable {
        interrupt::check()?;
        wait(clock, &mut typed, clock.now() + INTERVAL).ok();
    }
    let mut answer = String::new();
    stdin().read_line(&mut answer).ok();
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Interval at which interrupts are checked while the question waits for a reply.
const INTERVAL: Duration = Duration::from_millis(100);
