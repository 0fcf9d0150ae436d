//! The question before files are removed.

use std::io::{IsTerminal, stdin};
use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_grammar::choice::FileArgs;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::Error;

use crate::error::usage;
use crate::output::print::ask;

/// Asks before `--delete`, unless `--yes` or `--dry-run` is given.
pub(crate) fn confirm(choice: &FileArgs, paths: &[String]) -> Result<(), Error> {
    if !choice.delete || choice.yes || choice.dry_run.is_some() {
        return Ok(());
    }
    let refuse = |text: &'static str| Err(usage(text));
    if !stdin().is_terminal() {
        return refuse("--delete removes files: add --yes, or look at --dry-run first");
    }
    let target = paths.last().map_or("", String::as_str);
    ask(&format!(
        "Remove from {target} what the source does not have? [y/N] "
    ));
    let mut answer = String::new();
    // a read alone would continue after an interrupt
    let clock = Clock::start();
    let mut typed = [Watch::read(stdin().as_raw_fd())];
    while !typed[0].readable {
        interrupt::check()?;
        wait(clock, &mut typed, clock.now() + LOOK).ok();
    }
    stdin().read_line(&mut answer).ok();
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => refuse("nothing was copied, and nothing removed"),
    }
}

/// Interval at which interrupts are checked while the question waits for a reply.
const LOOK: Duration = Duration::from_millis(100);
