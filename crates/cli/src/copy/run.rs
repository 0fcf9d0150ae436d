//! `lighthaul cp`.

use std::env;
use std::io::{IsTerminal, stderr};

use lighthaul::Client;
use lighthaul_copy::watch::Summary;
use lighthaul_grammar::choice::{DryRun, Verify};
use lighthaul_grammar::copy::Cp;
use lighthaul_grammar::output::Progress;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error};

use crate::copy::confirm::confirm;
use crate::copy::options::request;
use crate::copy::printer::{Printer, Settings};
use crate::copy::summary::Proof;
use crate::copy::{failures, fault_messages};
use crate::error::Fault;
use crate::shared_options;

/// Copies, shows progress, and returns the exit status.
pub(crate) fn run(args: &Cp) -> u8 {
    let settings = Settings {
        progress: shown_progress(args),
        json: args.json,
        stats: args.stats,
        quiet: args.quiet,
        proof: match (&args.choice.dry_run, args.choice.verify) {
            (Some(_), _) => Proof::DryRun,
            (None, Verify::None) => Proof::None,
            (None, _) if args.choice.checksum => Proof::All,
            (None, _) => Proof::Moved,
        },
        reasons: matches!(args.choice.dry_run, Some(DryRun::Explain)),
        explain: args.explain,
        verbose: args.verbose,
        items: args.itemize_changes,
        sends: sends(args),
        asks_rate: args.rate.is_some() || args.later.limit.is_some(),
    };
    let mut printer = Printer::new(settings);
    let result = failures::open(&args.later).and_then(|failures| {
        let summary = copy(args, &mut printer).map_err(fault_messages::in_options)?;
        Ok((summary, failures))
    });
    let (result, failures) = match result {
        Ok((summary, failures)) => (Ok(summary), failures),
        Err(error) => (Err(with_command(args, error)), None),
    };
    printer.finish(&result);
    if let (Ok(summary), Some(file)) = (&result, failures)
        && let Err(error) = failures::note(args, &file, summary)
    {
        printer.note(&format!("lighthaul: {error}"));
    }
    match result {
        Ok(summary) => status(&summary),
        Err(error) => error.code() as u8,
    }
}

/// Copies, after the question before deletions.
fn copy(args: &Cp, printer: &mut Printer) -> Result<Summary, Error> {
    let request = request(args)?;
    let mut settings = lighthaul::Settings::default();
    settings.route = shared_options::route(&args.via);
    settings.scheduler = Some(shared_options::booking_scheduler(&args.booked.at));
    let client = Client::new(settings);
    confirm(args, &client, &request)?;
    client.run(request, &mut |event| printer.observe(event))
}

/// Returns true if the source is on this host.
fn sends(args: &Cp) -> bool {
    let source = args.paths.first().map(|path| Place::parse(path));
    matches!(source, Some(Ok(Place::Here(_))))
}

/// Returns the progress to show.
fn shown_progress(args: &Cp) -> Progress {
    let progress = args.progress.progress;
    match progress {
        Progress::Auto if args.partial_progress && stderr().is_terminal() => Progress::Bar,
        Progress::Auto if args.partial_progress => Progress::Plain,
        Progress::Auto | Progress::Bar | Progress::Plain | Progress::None => progress,
    }
}

/// Returns the error, with the command that resumes an interrupted copy.
fn with_command(args: &Cp, error: Error) -> Error {
    let gateway = args.via.through.gateway.as_ref();
    let tells_password = gateway.is_some_and(|gateway| gateway.credentials.is_some())
        || args
            .paths
            .iter()
            .any(|path| Place::parse(path).is_ok_and(|place| place.has_query()));
    if error.code() != Code::Interrupted || args.choice.dry_run.is_some() {
        return error;
    }
    let words = env::args_os().map(|word| {
        let word = word.to_string_lossy();
        shlex::try_quote(&word).map_or_else(|_| word.to_string(), Into::into)
    });
    let words: Vec<String> = words.collect();
    let command = if tells_password {
        "the same command".to_owned()
    } else {
        words.join(" ")
    };
    Fault::Interrupted(command).into()
}

/// Returns true for exit statuses that apply to every entry that is not in place.
const fn is_whole(code: u8) -> bool {
    code == Code::Changed as u8 || code == Code::DeleteLimit as u8
}

/// Returns 0, or the code that all failures have, or that of a partial copy.
fn status(summary: &Summary) -> u8 {
    let mut codes = summary.failures.iter().map(|failed| failed.code);
    match codes.next() {
        None => 0,
        Some(code) if summary.entries == 0 && codes.all(|other| other == code) => code,
        Some(code) if is_whole(code) && codes.all(|other| other == code) => code,
        Some(_) => Code::Partial as u8,
    }
}
