//! The `lighthaul` command.
#![expect(clippy::disallowed_methods, reason = "a face reads the environment")]

mod args;
mod choice;
mod config;
mod cp;
mod credential;
mod dial;
mod figures;
mod lab;
mod later;
mod log;
mod places;
mod print;
mod probe;
mod remote;
mod serve;
#[cfg(feature = "otel")]
mod traces;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use lighthaul_io::interrupt;
use lighthaul_transfer::error::{Code, Error};

use crate::args::{Cli, Command};
use crate::config::Config;

fn main() -> ExitCode {
    let config = match Config::load(&Cli::command()) {
        Ok(config) => config,
        Err(error) => return failed(&error),
    };
    let command = config.apply(Cli::command());
    let matches = command.clone().try_get_matches();
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
    if matches!(cli.command, Command::Cp(_) | Command::Serve(_))
        && let Err(error) = interrupt::catch()
    {
        print::say(&format!("lighthaul: signals cannot be caught: {error}"));
    }
    let result = match &cli.command {
        Command::Cp(args) => return ExitCode::from(cp::run(args)),
        Command::Serve(args) => serve::run(args).map(|()| 0),
        Command::Probe(args) => probe::run(args).map(|()| 0),
        Command::Token(args) => credential::token(args).map(|()| 0),
        Command::Sign(args) => credential::sign(args).map(|()| 0),
        Command::Key(args) => serve::key(args).map(|()| 0),
        Command::Allow(args) => serve::allow(args).map(|()| 0),
        Command::Trust(args) => serve::trust(args).map(|()| 0),
        Command::Config => {
            config.show(&command);
            Ok(0)
        }
        Command::Lab(args) => lab::run(args),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    print::say(&format!("lighthaul: {error}"));
    ExitCode::from(error.code as u8)
}
