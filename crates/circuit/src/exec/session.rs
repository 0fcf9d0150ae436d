//! Conversation with a driver's program: numbered requests, and restarts with a back-off.
//!
//! ```text
//! start -> hello -> request 2 -> request 3 -> ...
//!            |          |  answer of an earlier request: ignored
//!            |          +- no answer in time, garbage, end: killed
//!            +- unknown version, other capabilities: killed
//! killed -> the next request starts it again: at once, then after 1 s, 2 s, 4 s ... 60 s
//! ```
//!
//! A request is never sent twice here: its owner repeats it. A program that ended between two requests is started again
//! before the next one. An answer to a request resets the back-off.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;

use crate::driver::Capabilities;
use crate::error::{Error, ProgramFault, Result};
use crate::exec::answer::Answer;
use crate::exec::config::Config;
use crate::exec::message::{Message, Request};
use crate::exec::program::Program;

/// Conversation with a program.
#[derive(Debug)]
pub(super) struct Session {
    config: Config,
    clock: Clock,
    program: Option<Program>,
    /// Number of the last request.
    seq: u64,
    /// Capabilities at the first start, which may not change.
    capabilities: Option<Capabilities>,
    /// Number of failures since the last answer.
    failures: u32,
    /// Latest failure.
    last_fault: Option<ProgramFault>,
    /// Earliest time of the next start.
    start_at: Instant,
}

impl Session {
    /// Starts the program. Returns the capabilities that it reports too.
    pub(super) fn open(clock: Clock, config: Config) -> Result<(Self, Capabilities)> {
        config.check()?;
        let mut session = Self {
            config,
            clock,
            program: None,
            seq: 0,
            capabilities: None,
            failures: 0,
            last_fault: None,
            start_at: Instant::ZERO,
        };
        session.start().map_err(|fault| session.failed(fault))?;
        let capabilities = session
            .capabilities
            .ok_or_else(|| session.failed(ProgramFault::NoAnswer))?;
        capabilities.check()?;
        Ok((session, capabilities))
    }

    /// Sends a request. Returns what `read` finds in its answer.
    pub(super) fn ask<T>(
        &mut self,
        request: &Request<'_>,
        read: impl FnOnce(&Answer) -> Option<T>,
    ) -> Result<T> {
        self.prepare().map_err(|fault| self.failed(fault))?;
        let answer = self.exchange(request);
        let found = answer.and_then(|answer| match (answer.refusal(), read(&answer)) {
            (Some(reason), _) => Err(ProgramFault::Declined(reason)),
            (None, Some(found)) => Ok(found),
            (None, None) => Err(ProgramFault::NoAnswer),
        });
        match found {
            Ok(found) => {
                self.failures = 0;
                Ok(found)
            }
            Err(fault @ ProgramFault::Declined(_)) => {
                // it follows the protocol, and stays
                self.failures = 0;
                Err(self.failed(fault))
            }
            Err(fault) => {
                self.stop(&fault);
                Err(self.failed(fault))
            }
        }
    }

    /// Starts the program if it does not run, unless it failed a short time ago.
    fn prepare(&mut self) -> std::result::Result<(), ProgramFault> {
        if self.program.as_mut().is_some_and(|one| !one.is_over()) {
            return Ok(());
        }
        self.program = None;
        let wait = self.start_at.since(self.clock.now());
        if !wait.is_zero() {
            let last = self.last_fault.as_ref().map(ToString::to_string);
            let last = last.unwrap_or_default();
            return Err(ProgramFault::Resting { wait, last });
        }
        let started = self.start();
        if let Err(fault) = &started {
            self.stop(fault);
        }
        started
    }

    /// Starts the program and agrees on a version.
    fn start(&mut self) -> std::result::Result<(), ProgramFault> {
        self.program = Some(Program::start(self.clock, &self.config)?);
        self.seq = 0;
        let versions = &[VERSION];
        let answer = self.exchange(&Request::Hello { versions })?;
        if let Some(reason) = answer.refusal() {
            return Err(ProgramFault::Declined(reason));
        }
        let version = answer.version().ok_or(ProgramFault::NoAnswer)?;
        if version != VERSION {
            return Err(ProgramFault::Version {
                theirs: version,
                ours: VERSION,
            });
        }
        let able = answer.capabilities().ok_or(ProgramFault::NoAnswer)?;
        if *self.capabilities.get_or_insert(able) != able {
            return Err(ProgramFault::Changed);
        }
        Ok(())
    }

    /// Sends a request, and waits for the answer with its number.
    fn exchange(&mut self, request: &Request<'_>) -> std::result::Result<Answer, ProgramFault> {
        self.seq += 1;
        let seq = self.seq;
        let line = Message { seq, request }.line();
        let line = line.map_err(|why| ProgramFault::Run {
            why: why.to_string(),
            tail: String::new(),
        })?;
        let Some(program) = &mut self.program else {
            return Err(ProgramFault::NoAnswer);
        };
        let mut old = 0;
        program.exchange(&line, self.config.limit, |line| {
            let answer = Answer::parse(&line.0).map_err(|why| line.malformed(&why.to_string()))?;
            if answer.seq == seq {
                return Ok(Some(answer));
            }
            old += 1;
            // a program that repeats an earlier answer is right about the next one; one that does not stop is broken
            if answer.seq > seq || old > OLD_MAX {
                let why = format!("it is for request {}, and request {seq} waits", answer.seq);
                return Err(line.malformed(&why));
            }
            Ok(None)
        })
    }

    /// Kills the program after a fault, and sets the time of the next start.
    fn stop(&mut self, fault: &ProgramFault) {
        self.program = None;
        self.failures = self.failures.saturating_add(1);
        self.start_at = self.clock.now() + back_off(self.failures);
        self.last_fault = Some(fault.clone());
    }

    fn failed(&self, fault: ProgramFault) -> Error {
        Error::Program {
            program: self.config.program.display().to_string(),
            fault,
        }
    }
}

/// Returns the time until the next start after a number of failures.
fn back_off(failures: u32) -> Duration {
    match failures {
        // one failure may be an accident
        0 | 1 => Duration::ZERO,
        more => (BACKOFF_FIRST * (1 << (more - 2).min(6))).min(BACKOFF_MAX),
    }
}

/// Version of the protocol.
const VERSION: u32 = 1;
/// Maximum number of answers to earlier requests before the right one.
const OLD_MAX: u32 = 16;
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_until_the_next_start_doubles_up_to_a_minute() {
        let seconds = (0..10).map(|failures| back_off(failures).as_secs());
        assert!(seconds.eq([0, 0, 1, 2, 4, 8, 16, 32, 60, 60]));
        assert_eq!(back_off(u32::MAX), BACKOFF_MAX);
    }
}
