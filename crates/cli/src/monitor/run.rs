//! Command `lighthaul monitor`: samples this host once per interval.
//!
//! ```text
//! sample -> wait for the interval -> sample -> rates -> store, output -> wait ...
//! ```
//!
//! Intervals begin at fixed distances from the start, so the delays of late samples do not add up.
//! A signal ends the command within the interval, which is not a failure.

use std::env;
use std::fs;
use std::io::{self, IsTerminal, Write, stdout};

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

use super::frame::{Form, frame};
use super::history::{self, Recorder};
use super::row::{head, row};
use super::terminal::{self, Screen};
use crate::error::Fault;
use crate::output::print::output_failed;

/// Shows the load of this host until a signal comes, or for the given number of intervals.
pub(crate) fn run(args: &Monitor) -> Result<(), Error> {
    if args.history {
        return history::print(args);
    }
    let mut recorder = Recorder::of(args)?;
    let clock = Clock::start();
    let sampler = Sampler::new(clock);
    let mut output = Output::of(args)?;
    let mut before = sampler.sample();
    let mut next = clock.now();
    for _ in 0..args.count.map_or(u64::MAX, u64::from) {
        next += args.interval;
        // intervals that were missed, as while the host was suspended, are left out
        if next < before.at + args.interval / 2 {
            next = before.at + args.interval;
        }
        if !output.is_reached(clock, next)? {
            break;
        }
        let after = sampler.sample();
        let rates = Rates::between(&before, &after);
        recorder.store(&rates)?;
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
enum Output {
    /// One JSON object per interval.
    Json,
    /// Live screen of a host with this name.
    Screen {
        screen: Screen,
        host: String,
        has_color: bool,
    },
    /// One line per interval; counts the lines so far.
    Table { rows: u64 },
}

impl Output {
    /// Returns the output that the user asked for, or a live screen on a terminal that can show it.
    fn of(args: &Monitor) -> Result<Self, Error> {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if args.output.json {
            return Ok(Self::Json);
        }
        if !stdout().is_terminal() || env::var_os("TERM").is_some_and(|term| term == "dumb") {
            return Ok(Self::Table { rows: 0 });
        }
        let host = fs::read_to_string(HOST_NAME).unwrap_or_default();
        Ok(Self::Screen {
            screen: Screen::open().map_err(output_failed)?,
            host: host.trim().to_owned(),
            has_color: !is_set("NO_COLOR"),
        })
    }

    /// Waits until `at`. Returns false if a key or a signal asks to end the command.
    fn is_reached(&mut self, clock: Clock, at: Instant) -> Result<bool, Error> {
        match self {
            Self::Screen { screen, .. } => Ok(screen.is_reached(clock, at).map_err(Fault::Wait)?),
            Self::Json | Self::Table { .. } => is_reached(clock, at),
        }
    }

    /// Shows the rates of an interval.
    fn show(&mut self, rates: &Rates) -> io::Result<()> {
        let mut out = stdout().lock();
        match self {
            Self::Json => writeln!(out, "{}", escape_json(&event(rates).to_string()))?,
            Self::Screen {
                screen,
                host,
                has_color,
            } => {
                let (width, height) = terminal::size();
                let form = Form {
                    width,
                    height,
                    has_color: *has_color,
                    host: host.clone(),
                };
                drop(out);
                return screen.show(&frame(rates, &form));
            }
            Self::Table { rows } => {
                if rows.is_multiple_of(HEAD_INTERVAL) {
                    writeln!(out, "{}", head())?;
                }
                writeln!(out, "{}", row(rates))?;
                *rows += 1;
            }
        }
        out.flush()
    }
}

/// Lines of the table after which the headings are printed again.
const HEAD_INTERVAL: u64 = 20;
/// File with the name of this host.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
