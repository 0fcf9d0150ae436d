//! Command `lighthaul monitor`: samples this host once per interval.
//!
//! ```text
//! sample -> wait for the interval -> sample -> rates -> output -> wait ...
//! ```
//!
//! Intervals begin at fixed distances from the start, so the delays of late samples do not add up.
//! A signal ends the command within the interval, which is not a failure.

use std::io::{self, Write, stdout};

use lighthaul_base::Instant;
use lighthaul_base::escape::escape_json;
use lighthaul_grammar::monitor::Monitor;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::wait;
use lighthaul_monitor::json::event;
use lighthaul_monitor::rates::Rates;
use lighthaul_monitor::sample::host::Sampler;
use lighthaul_session::error::Error;

use super::row::{head, row};
use crate::error::Fault;
use crate::output::print::output_failed;

/// Shows the load of this host until a signal comes, or for the given number of intervals.
pub(crate) fn run(args: &Monitor) -> Result<(), Error> {
    let clock = Clock::start();
    let sampler = Sampler::new(clock);
    let mut output = Output {
        is_json: args.output.json,
        rows: 0,
    };
    let mut before = sampler.sample();
    let mut next = clock.now();
    for _ in 0..args.count.map_or(u64::MAX, u64::from) {
        next += args.interval;
        // intervals that were missed, as while the host was suspended, are left out
        if next < before.at + args.interval / 2 {
            next = before.at + args.interval;
        }
        if !is_reached(clock, next)? {
            break;
        }
        let after = sampler.sample();
        let rates = Rates::between(&before, &after);
        output.show(&rates).map_err(output_failed)?;
        before = after;
    }
    Ok(())
}

/// Waits until `at`. Returns false if a stop was requested before.
fn is_reached(clock: Clock, at: Instant) -> Result<bool, Error> {
    while clock.now() < at {
        if interrupt::is_requested() {
            return Ok(false);
        }
        wait(clock, &mut [], at).map_err(Fault::Wait)?;
    }
    Ok(!interrupt::is_requested())
}

/// Output of the command.
#[derive(Debug)]
struct Output {
    is_json: bool,
    /// Lines of the table so far.
    rows: u64,
}

impl Output {
    /// Prints the rates of an interval.
    fn show(&mut self, rates: &Rates) -> io::Result<()> {
        let mut out = stdout().lock();
        if self.is_json {
            writeln!(out, "{}", escape_json(&event(rates).to_string()))?;
        } else {
            if self.rows.is_multiple_of(HEAD_INTERVAL) {
                writeln!(out, "{}", head())?;
            }
            writeln!(out, "{}", row(rates))?;
            self.rows += 1;
        }
        out.flush()
    }
}

/// Lines of the table after which the headings are printed again.
const HEAD_INTERVAL: u64 = 20;
