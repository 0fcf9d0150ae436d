//! The grammar of the command line.

use clap::{Parser, Subcommand};

use crate::grammar::booking::{Book, Calendar, Cancel, Quote, Reservations};
use crate::grammar::copy::Cp;
use crate::grammar::doctor::Doctor;
use crate::grammar::files::{Ls, Mkdir, Rm, Stat};
use crate::grammar::forward::Forward;
use crate::grammar::gateway::{Action, Gateway};
use crate::grammar::keys::{Allow, Deny, Key, Sign, Token, Trust};
use crate::grammar::lab::Lab;
use crate::grammar::manual::{Completions, Man};
use crate::grammar::probe::Probe;
use crate::grammar::scheduler::Scheduler;
use crate::grammar::serve::Serve;
use crate::grammar::stream::Stream;
use crate::grammar::sums::{Manifest, Verify};
use crate::grammar::wrap::Wrap;

/// Move bulk data between sites at the speed of the path, verified end to end
#[derive(Debug, Parser)]
#[command(
    name = "lighthaul",
    version,
    max_term_width = 100,
    disable_version_flag = true,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Cli {
    /// Print the version
    #[arg(short = 'V', long, help_heading = "Output")]
    pub(crate) version: bool,
    /// With --version, print a JSON object
    #[arg(long, requires = "version", help_heading = "Output")]
    pub(crate) json: bool,
    /// Command; none with --version
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Cp(Cp),
    Stream(Stream),
    Ls(Ls),
    Stat(Stat),
    Rm(Rm),
    Mkdir(Mkdir),
    Verify(Verify),
    Manifest(Manifest),
    Serve(Serve),
    Gateway(Gateway),
    Probe(Probe),
    Doctor(Doctor),
    Scheduler(Scheduler),
    Book(Book),
    Quote(Quote),
    Reservations(Reservations),
    Cancel(Cancel),
    Calendar(Calendar),
    Wrap(Wrap),
    Key(Key),
    Allow(Allow),
    Deny(Deny),
    Trust(Trust),
    Token(Token),
    Sign(Sign),
    /// Print the settings in force and where each comes from
    Config,
    Completions(Completions),
    #[command(hide = true)]
    Forward(Forward),
    #[command(hide = true)]
    Man(Man),
    /// Emulate hosts and links on this machine, for tests
    #[command(subcommand)]
    Lab(Lab),
}

impl Command {
    /// Returns true if standard output is for programs.
    pub(crate) const fn is_json(&self) -> bool {
        match self {
            Self::Cp(args) => args.json,
            Self::Stream(args) => args.json,
            Self::Ls(args) => args.output.json,
            Self::Stat(args) => args.at.output.json,
            Self::Rm(args) => args.at.output.json,
            Self::Mkdir(args) => args.at.output.json,
            Self::Doctor(args) => args.output.json,
            Self::Verify(args) => args.output.json,
            Self::Manifest(args) => args.output.json,
            Self::Probe(args) => args.output.json,
            Self::Book(args) => args.asking.output.json,
            Self::Quote(args) => args.asking.output.json,
            Self::Reservations(args) => args.asking.output.json,
            Self::Cancel(args) => args.asking.output.json,
            Self::Calendar(args) => args.asking.output.json,
            Self::Gateway(args) => {
                matches!(&args.action, Some(Action::Status(status)) if status.output.json)
            }
            Self::Scheduler(_)
            | Self::Serve(_)
            | Self::Wrap(_)
            | Self::Key(_)
            | Self::Allow(_)
            | Self::Deny(_)
            | Self::Trust(_)
            | Self::Token(_)
            | Self::Sign(_)
            | Self::Config
            | Self::Completions(_)
            | Self::Forward(_)
            | Self::Man(_)
            | Self::Lab(_) => false,
        }
    }
}
