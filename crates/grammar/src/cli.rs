//! The grammar of the command line.

use clap::{Parser, Subcommand};

use crate::booking::{Book, Calendar, Cancel, Extend, Modify, Quote, Reservations};
use crate::copy::Cp;
use crate::doctor::Doctor;
use crate::domains::{Domains, DomainsAction, Path, PathAction};
use crate::files::{Cat, Du, Ls, Mkdir, Mount, Rm, Stat};
use crate::forward::Forward;
use crate::gateway::{Action, Gateway};
use crate::jobs::{Jobs, JobsAction};
use crate::keys::{Allow, Deny, Key, Sign, Token, Trust};
use crate::lab::Lab;
use crate::manual::{Completions, Config, Help, Man};
use crate::monitor::Monitor;
use crate::probe::Probe;
use crate::scheduler::Scheduler;
use crate::serve::Serve;
use crate::stream::Stream;
use crate::sums::{Manifest, Verify};
use crate::wrap::Wrap;

/// Move bulk data between sites at the speed of the path, verified end to end
#[derive(Debug, Parser)]
#[command(
    name = "lighthaul",
    version,
    override_usage = "lighthaul <COMMAND>",
    max_term_width = 100,
    disable_version_flag = true,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// Print the version, with --json as a JSON object
    #[arg(short = 'V', long, help_heading = "Output")]
    pub version: bool,
    /// With --version, print a JSON object
    #[arg(long, requires = "version", help_heading = "Output", hide = true)]
    pub json: bool,
    /// Command; none with --version
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Cp(Cp),
    Jobs(Jobs),
    Stream(Stream),
    Ls(Ls),
    Du(Du),
    Stat(Stat),
    Cat(Cat),
    Mount(Mount),
    Rm(Rm),
    Mkdir(Mkdir),
    Verify(Verify),
    Manifest(Manifest),
    Serve(Serve),
    Gateway(Gateway),
    Probe(Probe),
    Monitor(Monitor),
    Doctor(Doctor),
    Scheduler(Scheduler),
    Book(Book),
    Quote(Quote),
    Reservations(Reservations),
    Modify(Modify),
    Extend(Extend),
    Cancel(Cancel),
    Calendar(Calendar),
    Domains(Domains),
    Path(Path),
    Wrap(Wrap),
    Key(Key),
    Allow(Allow),
    Deny(Deny),
    Trust(Trust),
    Token(Token),
    Sign(Sign),
    Config(Config),
    #[command(hide = true)]
    Completions(Completions),
    #[command(hide = true)]
    Help(Help),
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
    pub const fn is_json(&self) -> bool {
        match self {
            Self::Cp(args) => args.json,
            Self::Jobs(args) => match &args.action {
                Some(JobsAction::Submit(submit)) => submit.output.json,
                Some(JobsAction::Show(show)) => show.output.json,
                Some(JobsAction::Watch(watch)) => watch.output.json,
                Some(JobsAction::Retry(change) | JobsAction::Cancel(change)) => change.output.json,
                Some(JobsAction::Share(share)) => share.output.json,
                Some(JobsAction::Logs(_) | JobsAction::Work(_)) => false,
                None => args.output.json,
            },
            Self::Stream(args) => args.json,
            Self::Ls(args) => args.output.json,
            Self::Du(args) => args.at.output.json,
            Self::Stat(args) => args.at.output.json,
            Self::Rm(args) => args.at.output.json,
            Self::Mkdir(args) => args.at.output.json,
            Self::Doctor(args) => args.output.json,
            Self::Verify(args) => args.crew.output.json,
            Self::Manifest(args) => args.crew.output.json,
            Self::Probe(args) => args.output.json,
            Self::Monitor(args) => args.output.json,
            Self::Book(args) => args.asking.output.json,
            Self::Quote(args) => args.asking.output.json,
            Self::Reservations(args) => args.asking.output.json,
            Self::Modify(args) => args.change.asking.output.json,
            Self::Extend(args) => args.change.asking.output.json,
            Self::Cancel(args) => args.asking.output.json,
            Self::Calendar(args) => args.asking.output.json,
            Self::Domains(args) => match &args.action {
                Some(DomainsAction::Status(status)) => status.output.json,
                Some(DomainsAction::Serve(_)) => false,
                None => args.status.output.json,
            },
            Self::Path(args) => match &args.action {
                Some(PathAction::List(list)) => list.output.json,
                Some(PathAction::Show(show)) => show.output.json,
                Some(PathAction::Cancel(cancel)) => cancel.output.json,
                None => args.output.json,
            },
            Self::Gateway(args) => {
                matches!(&args.action, Some(Action::Status(status)) if status.output.json)
            }
            Self::Cat(_)
            | Self::Mount(_)
            | Self::Scheduler(_)
            | Self::Serve(_)
            | Self::Wrap(_)
            | Self::Key(_)
            | Self::Allow(_)
            | Self::Deny(_)
            | Self::Trust(_)
            | Self::Token(_)
            | Self::Sign(_)
            | Self::Config(_)
            | Self::Completions(_)
            | Self::Forward(_)
            | Self::Help(_)
            | Self::Man(_)
            | Self::Lab(_) => false,
        }
    }
}
