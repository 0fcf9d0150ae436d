//! Command `lighthaul monitor`: samples this host once per interval.
//!
//! ```text
//! sample -> wait for the interval -> sample -> rates -> store, output -> wait ...
//!            |       ^
//!            v       |  results of probes -> store, output
//!         threads that probe paths
//! ```
//!
//! Intervals begin at fixed distances from the start, so the delays of late samples do not add up.
//! A signal ends the command within the interval, which is not a failure.

use std::env;
use std::fs;
use std::io::{self, IsTerminal, Write, stdout};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::escape::escape_json;
use lighthaul_grammar::monitor::Monitor;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::wait;
use lighthaul_monitor::json::{event, path_event};
use lighthaul_monitor::metrics::MonitorMetrics;
use lighthaul_monitor::path::{PathSample, PathTable};
use lighthaul_monitor::perfsonar::results;
use lighthaul_monitor::rates::Rates;
use lighthaul_monitor::sample::host::Sampler;
use lighthaul_monitor::view::frame::{Form, frame};
use lighthaul_monitor::view::path;
use lighthaul_monitor::view::row::{head, row};
use lighthaul_remote::notice::say;
use lighthaul_remote::probes::prober::{PathProber, ProbeSettings};
use lighthaul_remote::probes::schedule::ProbeLimits;
use lighthaul_remote::probes::target::ProbeTarget;
use lighthaul_service::monitor::export;
use lighthaul_session::error::Error;
use serde_json::Value;

use super::history::{self, Recorder};
use super::terminal::{self, Screen};
use crate::error::Fault;
use crate::output::print::output_failed;

/// Shows the load of this host until a signal arrives, or for the given number of intervals.
pub(crate) fn run(args: &Monitor) -> Result<(), Error> {
    if args.history {
        return history::print(args);
    }
    let mut recorder = Recorder::of(args)?;
    let clock = Clock::start();
    let sampler = Sampler::new(clock);
    let mut prober = prober(args, clock)?;
    let metrics = Arc::<MonitorMetrics>::default();
    let export = export(&metrics, args.metrics_listen)?;
    if let Some(address) = export.address {
        say(&format!("lighthaul: metrics at http://{address}/metrics"));
    }
    let mut output = Output::of(args)?;
    let mut before = sampler.sample();
    let mut next = clock.now();
    for _ in 0..args.count.map_or(u64::MAX, u64::from) {
        next += args.interval;
        // intervals that were missed, as while the host was suspended, are left out
        if next < before.at + args.interval / 2 {
            next = before.at + args.interval;
        }
        while clock.now() < next {
            for sample in prober.poll() {
                recorder.store_path(&sample)?;
                metrics.add_path(&sample);
                output.show_path(&sample).map_err(output_failed)?;
            }
            if !output.is_reached(clock, next.min(clock.now() + POLL_INTERVAL))? {
                return Ok(());
            }
        }
        let after = sampler.sample();
        let rates = Rates::between(&before, &after);
        metrics.set_sample(&after);
        recorder.store(&rates)?;
        output
            .show(&rates, &metrics.paths())
            .map_err(output_failed)?;
        before = after;
    }
    Ok(())
}

/// Returns the prober of the paths that the user asked for.
fn prober(args: &Monitor, clock: Clock) -> Result<PathProber, Error> {
    let named = args
        .probes
        .probe
        .iter()
        .map(|text| ProbeTarget::named(text));
    let settings = ProbeSettings {
        named: named.collect::<Result<_, _>>()?,
        has_known: !args.probes.no_probe,
        limits: ProbeLimits {
            interval: args.probes.probe_interval,
            budget: args.probes.probe_limit,
        },
    };
    Ok(PathProber::new(settings, clock))
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
    /// One JSON object per interval, and per probe.
    Json,
    /// Results of probes for perfSONAR.
    Perfsonar,
    /// Live screen of a host with this name.
    Screen {
        screen: Screen,
        host: String,
        has_color: bool,
    },
    /// One line per interval, with a count of the lines.
    Table { rows: u64 },
}

impl Output {
    /// Returns the output that the user asked for, or a live screen on a terminal that can show it.
    fn of(args: &Monitor) -> Result<Self, Error> {
        let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        if args.output.json {
            return Ok(Self::Json);
        }
        if args.perfsonar {
            return Ok(Self::Perfsonar);
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
            Self::Json | Self::Perfsonar | Self::Table { .. } => is_reached(clock, at),
        }
    }

    /// Shows the result of a probe; the screen does with the next interval.
    fn show_path(&self, sample: &PathSample) -> io::Result<()> {
        let lines = match self {
            Self::Json => vec![path_event(sample).to_string()],
            Self::Perfsonar => results(sample).iter().map(Value::to_string).collect(),
            Self::Table { .. } => vec![path::line(sample)],
            Self::Screen { .. } => return Ok(()),
        };
        let mut out = stdout().lock();
        for line in lines {
            writeln!(out, "{}", escape_json(&line))?;
        }
        out.flush()
    }

    /// Shows the rates of an interval.
    fn show(&mut self, rates: &Rates, paths: &PathTable) -> io::Result<()> {
        let mut out = stdout().lock();
        match self {
            Self::Json => writeln!(out, "{}", escape_json(&event(rates).to_string()))?,
            Self::Perfsonar => {}
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
                return screen.show(&frame(rates, paths, &form));
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
/// Longest time until the result of a probe is taken.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// File with the name of this host.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
