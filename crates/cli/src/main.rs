//! The `lighthaul` command.
#![expect(clippy::disallowed_methods, reason = "a face reads the environment")]

mod args;
mod booking;
mod choice;
mod config;
mod cp;
mod credential;
mod dial;
mod doctor;
mod figures;
mod files;
mod gateway;
mod key_args;
mod lab;
mod later;
mod log;
mod manual;
mod name;
mod passage;
mod places;
mod print;
mod probe;
mod reach;
mod remote;
mod secret;
mod serve;
mod stream;
mod sums;
mod third;
#[cfg(feature = "otel")]
mod traces;
mod wrap;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use lighthaul_io::host::{heap, interrupt};
use lighthaul_transfer::error::{Code, Error};

use crate::args::{Cli, Command};
use crate::config::Config;
use crate::gateway::args::Gateway;

fn main() -> ExitCode {
    heap::retain_freed_memory();
    let config = match Config::load(&Cli::command()) {
        Ok(config) => config,
        Err(error) => return unset(&error),
    };
    let grammar = config.apply(Cli::command());
    let matches = grammar.clone().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            error.print().ok();
            if let Some(path) = config.blame(&error) {
                print::say(&format!("lighthaul: that is set in {}", path.display()));
            }
            return ExitCode::from(if error.use_stderr() {
                Code::Usage as u8
            } else {
                0
            });
        }
    };
    let Some(command) = &cli.command else {
        manual::version(cli.json);
        return ExitCode::SUCCESS;
    };
    if let Err(error) = catch(command) {
        print::say(&format!("lighthaul: signals cannot be caught: {error}"));
    }
    let done = run(command, &config, &grammar);
    let done = match (done, print::unprinted()) {
        (Ok(0), Some(error)) => Err(error),
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

/// Has commands that have something to finish asked to stop, rather than stopped.
fn catch(command: &Command) -> std::io::Result<()> {
    if let Command::Gateway(Gateway { action: None, .. }) = command {
        return interrupt::handle_signals_gracefully();
    }
    let is_work = matches!(
        command,
        Command::Cp(_) | Command::Stream(_) | Command::Serve(_)
    );
    if is_work {
        interrupt::handle_signals()
    } else {
        Ok(())
    }
}

/// Help is there also where the settings make no sense, since it says what they can be.
fn unset(error: &Error) -> ExitCode {
    match Cli::command().try_get_matches() {
        Err(help) if !help.use_stderr() => {
            help.print().ok();
            ExitCode::SUCCESS
        }
        _ => failed(error),
    }
}

/// Does what the command says; answers the exit status.
fn run(command: &Command, config: &Config, grammar: &clap::Command) -> Result<u8, Error> {
    match command {
        Command::Cp(args) => Ok(cp::run(args)),
        Command::Stream(args) => stream::run::run(args).map(|()| 0),
        Command::Ls(args) => files::run::ls(args),
        Command::Stat(args) => files::run::stat(args),
        Command::Rm(args) => files::run::rm(args),
        Command::Mkdir(args) => files::run::mkdir(args),
        Command::Verify(args) => sums::check::run(args),
        Command::Manifest(args) => sums::make::run(args),
        Command::Serve(args) => serve::run(args).map(|()| 0),
        Command::Gateway(args) => gateway::run::run(args).map(|()| 0),
        Command::Probe(args) => probe::run(args).map(|()| 0),
        Command::Doctor(args) => doctor::run::run(args),
        Command::Scheduler(args) => booking::service::run(args).map(|()| 0),
        Command::Book(args) => booking::book::book(args).map(|()| 0),
        Command::Quote(args) => booking::book::quote(args).map(|()| 0),
        Command::Reservations(args) => booking::list::reservations(args).map(|()| 0),
        Command::Cancel(args) => booking::list::cancel(args).map(|()| 0),
        Command::Calendar(args) => booking::calendar::run(args).map(|()| 0),
        Command::Token(args) => credential::token(args).map(|()| 0),
        Command::Sign(args) => credential::sign(args).map(|()| 0),
        Command::Key(args) => serve::key(args).map(|()| 0),
        Command::Allow(args) => serve::allow(args).map(|()| 0),
        Command::Deny(args) => serve::deny(args).map(|()| 0),
        Command::Trust(args) => serve::trust(args).map(|()| 0),
        Command::Completions(args) => manual::completions(args).map(|()| 0),
        Command::Man(args) => manual::man(args).map(|()| 0),
        Command::Config => {
            config.show(grammar);
            Ok(0)
        }
        Command::Wrap(args) => Ok(wrap::run::run(args)),
        Command::Lab(args) => lab::run(args),
    }
}

fn failed(error: &Error) -> ExitCode {
    print::say(&format!("lighthaul: {error}"));
    ExitCode::from(error.code as u8)
}
