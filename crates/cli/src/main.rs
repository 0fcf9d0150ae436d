//! The `lighthaul` command.
//!
//! ```text
//! completion? -> configuration file -> arguments -> signals -> run -> exit status
//! ```
//!
//! The configuration supplies defaults for the arguments, so it is read first; help and the version
//! work even if it is invalid. Each subcommand has a module. It returns an exit status or an error.
//! All errors are printed here, with `--json` also as an event.
#![expect(clippy::disallowed_methods, reason = "commands read variables")]

mod booking;
mod complete;
mod config;
mod copy;
mod doctor;
mod domains;
mod error;
mod files;
mod gateway;
mod jobs;
mod keys;
#[cfg(feature = "lab")]
mod lab;
mod manual;
#[cfg(not(all(feature = "lab", feature = "scheduler")))]
mod missing_feature;
mod monitor;
mod output;
mod probe;
mod serve;
mod shared_options;
mod stream;
mod sums;
mod wrap;

use std::env;
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use clap::FromArgMatches;
use lighthaul_grammar::cli::{Cli, Command};
use lighthaul_grammar::domains::{Domains, DomainsAction};
use lighthaul_grammar::gateway::Gateway;
use lighthaul_grammar::help;
use lighthaul_grammar::jobs::{Jobs, JobsAction};
use lighthaul_io::host::{heap, interrupt};
use lighthaul_mount::run::run as mount;
use lighthaul_remote::{files::cat, ssh::forward::forward};
use lighthaul_session::error::{Code, Error, caught};

use crate::keys::{key, token};
use crate::{config::Config, output::print, shared_options::route};

fn main() -> ExitCode {
    complete::answer();
    heap::retain_freed_memory();
    let grammar = help::command();
    let config = match Config::load(&grammar) {
        Ok(config) => config,
        Err(error) => return unset(&error),
    };
    // the program ends soon, so the memory of all options is not worth the time to free it
    let mut grammar = ManuallyDrop::new(config.apply(grammar));
    let matches = grammar.try_get_matches_from_mut(env::args_os());
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => return shown(error.print()),
        Err(error) => {
            error.print().ok();
            if let Some(path) = config.blame(&error) {
                print::say(&format!(
                    "lighthaul: the value is set in {}",
                    path.display()
                ));
            }
            return ExitCode::from(Code::Usage as u8);
        }
    };
    let Some(command) = &cli.command else {
        manual::version(cli.json);
        return shown(Ok(()));
    };
    if let Err(error) = catch(command) {
        print::say(&format!("lighthaul: signals cannot be caught: {error}"));
    }
    let done = caught("command", || run(command, &config));
    let done = match (done, print::unprinted()) {
        (Ok(0), Some(error)) => Err(error),
        (Err(_), None) if print::has_no_reader() => Ok(0),
        (done, _) => done,
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            if command.is_json() {
                print::error_event(&error);
            }
            failed(&error)
        }
    }
}

/// Catches signals for commands that must finish their work before they stop.
fn catch(command: &Command) -> std::io::Result<()> {
    if let Command::Mount(_) | Command::Gateway(Gateway { action: None, .. }) = command {
        return interrupt::handle_signals_gracefully();
    }
    let is_work = matches!(
        command,
        Command::Cp(_)
            | Command::Jobs(Jobs {
                action: Some(JobsAction::Work(_)),
                ..
            })
            | Command::Stream(_)
            | Command::Serve(_)
            | Command::Monitor(_)
            | Command::Domains(Domains {
                action: Some(DomainsAction::Serve(_)),
                ..
            })
    );
    if is_work {
        interrupt::handle_signals()
    } else {
        Ok(())
    }
}

/// Handles invalid settings: prints the error, or help if it is requested.
fn unset(error: &Error) -> ExitCode {
    match help::command().try_get_matches() {
        Err(help) if !help.use_stderr() => shown(help.print()),
        // programs that ask for the version get it, whatever the settings are
        Ok(matches)
            if let Ok(Cli {
                command: None,
                json,
                ..
            }) = Cli::from_arg_matches(&matches) =>
        {
            manual::version(json);
            shown(Ok(()))
        }
        _ => failed(error),
    }
}

/// Runs the command and returns the exit status.
fn run(command: &Command, config: &Config) -> Result<u8, Error> {
    match command {
        Command::Cp(args) => Ok(copy::run::run(args)),
        Command::Jobs(args) => jobs::run::run(args),
        Command::Stream(args) => stream::run::run(args).map(|()| 0),
        Command::Ls(args) => files::run::ls(args),
        Command::Du(args) => files::run::du(args),
        Command::Stat(args) => files::run::stat(args),
        Command::Cat(args) => cat(&route(&args.via), &args.places, args.range),
        Command::Mount(args) => mount(&route(&args.via), args.at(), args.access()).map(|()| 0),
        Command::Rm(args) => files::run::rm(args),
        Command::Mkdir(args) => files::run::mkdir(args),
        Command::Verify(args) => sums::check::run(args),
        Command::Manifest(args) => sums::make::run(args),
        Command::Serve(args) => serve::run(args).map(|()| 0),
        Command::Gateway(args) => gateway::run::run(args).map(|()| 0),
        Command::Probe(args) => probe::run(args).map(|()| 0),
        Command::Monitor(args) => monitor::run::run(args).map(|()| 0),
        Command::Doctor(args) => doctor::run(args),
        #[cfg(feature = "scheduler")]
        Command::Scheduler(args) => booking::service::run(args).map(|()| 0),
        #[cfg(not(feature = "scheduler"))]
        Command::Scheduler(_) => Err(missing_feature::error("schedulers", "scheduler")),
        Command::Book(args) => booking::book::book(args).map(|()| 0),
        Command::Quote(args) => booking::book::quote(args).map(|()| 0),
        Command::Reservations(args) => booking::list::reservations(args).map(|()| 0),
        Command::Modify(args) => booking::modify::modify(&args.change).map(|()| 0),
        Command::Extend(args) => booking::modify::extend(&args.change).map(|()| 0),
        Command::Cancel(args) => booking::list::cancel(args).map(|()| 0),
        Command::Calendar(args) => booking::calendar::run(args).map(|()| 0),
        Command::Domains(args) => domains::run::domains(args).map(|()| 0),
        Command::Path(args) => domains::run::path(args).map(|()| 0),
        Command::Token(args) => token::token(args).map(|()| 0),
        Command::Sign(args) => token::sign(args).map(|()| 0),
        Command::Key(args) => key::key(args).map(|()| 0),
        Command::Allow(args) => key::allow(args).map(|()| 0),
        Command::Deny(args) => key::deny(args).map(|()| 0),
        Command::Trust(args) => key::trust(args).map(|()| 0),
        Command::Completions(args) => manual::completions(args).map(|()| 0),
        Command::Man(args) => manual::man(args).map(|()| 0),
        Command::Help(args) => manual::help(args).map(|()| 0),
        Command::Forward(args) => forward(args.port).map(|()| 0),
        Command::Config(args) => {
            config.show(&config.apply(help::command()), args.all);
            Ok(0)
        }
        Command::Wrap(args) => Ok(wrap::run(args)),
        #[cfg(feature = "lab")]
        Command::Lab(args) => lab::run::run(args),
        #[cfg(not(feature = "lab"))]
        Command::Lab(_) => Err(missing_feature::error("emulated links", "lab")),
    }
}

/// Returns the exit status of a command that has `printed` help or the version.
fn shown(printed: std::io::Result<()>) -> ExitCode {
    print::record(printed);
    print::unprinted().map_or(ExitCode::SUCCESS, |error| failed(&error))
}

fn failed(error: &Error) -> ExitCode {
    print::say(&format!("lighthaul: {error}"));
    ExitCode::from(error.code() as u8)
}
