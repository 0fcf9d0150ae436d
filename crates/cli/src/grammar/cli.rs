//! The grammar of the command line.

use clap::{Parser, Subcommand};

use crate::grammar::booking::{Book, Calendar, Cancel, Quote, Reservations};
use crate::grammar::copy::Cp;
use crate::grammar::doctor::Doctor;
use crate::grammar::files::{Ls, Mkdir, Rm, Stat};
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

/// Moves bulk data between sites as fast as the path and both hosts allow, verified end to end.
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
    #[arg(short = 'V', long)]
    pub(crate) version: bool,
    /// With --version, print it as a JSON object
    #[arg(long, requires = "version")]
    pub(crate) json: bool,
    /// What to do; nothing beside --version
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
    /// Let others copy to and from this host
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
    /// Print this user's key, or (as root) this host's with --host
    Key(Key),
    /// Let the holder of a key copy to and from this host
    Allow(Allow),
    /// Keep the holder of a key out from now on, whoever vouches for it
    Deny(Deny),
    /// Accept a daemon's key from now on
    Trust(Trust),
    /// Make a token whose bearer may copy to and from this host
    Token(Token),
    /// Sign for the holder of a key, who may then call daemons that take your word for it
    Sign(Sign),
    /// Print the options that are in force, and where each is from
    Config,
    Completions(Completions),
    #[command(hide = true)]
    Man(Man),
    /// Try things out between hosts that exist only on this machine
    #[command(subcommand)]
    Lab(Lab),
}

impl Command {
    /// Whether standard output is for programs.
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
            Self::Probe(args) => args.json,
            Self::Book(args) => args.asking.output.json,
            Self::Quote(args) => args.asking.output.json,
            Self::Reservations(args) => args.asking.output.json,
            Self::Cancel(args) => args.asking.output.json,
            Self::Calendar(args) => args.asking.output.json,
            Self::Gateway(args) => {
                matches!(&args.action, Some(Action::Status(status)) if status.json)
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
            | Self::Man(_)
            | Self::Lab(_) => false,
        }
    }
}
