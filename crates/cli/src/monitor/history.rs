//! Stored samples: storing new samples, and `lighthaul monitor --history`.

use std::io::{self, BufWriter, Write, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use lighthaul_base::escape::escape_json;
use lighthaul_grammar::monitor::Monitor;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_monitor::history::{History, Record, Retention};
use lighthaul_monitor::json::{event, path_event};
use lighthaul_monitor::path::PathSample;
use lighthaul_monitor::perfsonar::results;
use lighthaul_monitor::rates::Rates;
use lighthaul_monitor::view::path;
use lighthaul_monitor::view::row::{head, row};
use lighthaul_remote::paths;
use lighthaul_session::error::Error;
use serde_json::Value;

use crate::error::Fault;
use crate::output::print::output_failed;

/// Prints the stored samples of the time that the user asked for, the oldest first.
pub(super) fn print(args: &Monitor) -> Result<(), Error> {
    let mut history = History::existing(&store(args)).map_err(Fault::History)?;
    let since = args.since.unwrap_or(SINCE);
    let now = unix_nanos() as f64 / 1e9;
    let mut out = BufWriter::new(stdout().lock());
    if !args.output.json && !args.perfsonar {
        writeln!(out, "{}", head()).map_err(output_failed)?;
    }
    let write = |record: Record| match line(&mut out, &record, args) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    };
    let failed = { history.each(now - since.as_secs_f64(), write) }.map_err(Fault::History)?;
    let written = failed.map_or_else(|| out.flush(), Err);
    written.map_err(output_failed)
}

fn line(out: &mut impl Write, record: &Record, args: &Monitor) -> io::Result<()> {
    let is_json = args.output.json;
    let lines = match record {
        Record::Path(sample) if args.perfsonar => {
            results(sample).iter().map(Value::to_string).collect()
        }
        Record::Rates(_) if args.perfsonar => Vec::new(),
        Record::Rates(rates) if is_json => vec![event(rates).to_string()],
        Record::Rates(rates) => vec![row(rates)],
        Record::Path(sample) if is_json => vec![path_event(sample).to_string()],
        Record::Path(sample) => vec![path::line(sample)],
    };
    let mut lines = lines.iter();
    lines.try_for_each(|line| writeln!(out, "{}", escape_json(line)))
}

/// Store of new samples.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Open database; `None` if the user wants no stored samples.
    history: Option<History>,
    retention: Retention,
}

impl Recorder {
    /// Opens the store that the user asked for.
    pub(super) fn of(args: &Monitor) -> Result<Self, Error> {
        let history = (!args.no_store).then(|| History::open(&store(args)));
        Ok(Self {
            history: history.transpose().map_err(Fault::History)?,
            retention: Retention {
                age: args.keep,
                bytes_max: args.store_max.0,
            },
        })
    }

    /// Stores the rates of an interval.
    pub(super) fn store(&mut self, rates: &Rates) -> Result<(), Error> {
        let Some(history) = &mut self.history else {
            return Ok(());
        };
        Ok({ history.append(rates, self.retention) }.map_err(Fault::History)?)
    }

    /// Stores the result of a probe.
    pub(super) fn store_path(&mut self, sample: &PathSample) -> Result<(), Error> {
        let Some(history) = &mut self.history else {
            return Ok(());
        };
        Ok({ history.append_path(sample, self.retention) }.map_err(Fault::History)?)
    }
}

fn store(args: &Monitor) -> PathBuf {
    args.store.clone().unwrap_or_else(paths::monitor_history)
}

/// Time that `--history` goes back without `--since`.
const SINCE: Duration = Duration::from_hours(1);
