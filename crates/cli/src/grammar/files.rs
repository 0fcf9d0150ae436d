//! The grammar of the commands that leave files where they are.

use clap::Args;

use crate::grammar::output::Output;
use crate::grammar::reach::Via;

/// List a folder here or on another host.
///
/// PLACE is `lh://HOST[:PORT]/PATH`, HOST:PATH (over ssh) or a path here. A link to a folder is followed
/// if it leads nowhere but below the root. Folders of up to 10000 entries come in the order of names,
/// larger ones as they are on the disk. Names that are not text have \xHH in them, and \ is \\.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul ls lh://far.example.org/results/
  lighthaul ls -l alice@far.example.org:/data
  lighthaul ls --json lh://far.example.org/results/ | jq -r 'select(.size > 1e9).path'")]
pub(crate) struct Ls {
    /// What to list
    pub(crate) place: String,
    /// Show permissions, owner, group, size and time, too
    #[arg(short, long)]
    pub(crate) long: bool,
    /// Show names that begin with a dot, too
    #[arg(short, long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) via: Via,
}

/// Show what is at a place.
///
/// That is its kind, permissions, owner, group, size and time. Links are not followed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul stat lh://far.example.org/results/run1.h5
  lighthaul stat --json far.example.org:/data/a far.example.org:/data/b | jq 'select(.size).size'")]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) at: Places,
}

/// Remove files, links and folders.
///
/// Folders go with -r alone, and all that is in them with them. Links are removed, not followed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul rm lh://far.example.org/results/run1.h5
  lighthaul rm -r alice@far.example.org:scratch/old")]
pub(crate) struct Rm {
    #[command(flatten)]
    pub(crate) at: Places,
    /// Remove folders, with all that is in them
    #[arg(short, long)]
    pub(crate) recursive: bool,
}

/// Make folders.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul mkdir lh://far.example.org/results
  lighthaul mkdir -p far.example.org:/data/2026/november")]
pub(crate) struct Mkdir {
    #[command(flatten)]
    pub(crate) at: Places,
    /// Make the folders above it, too, and do not complain if it is there
    #[arg(short, long)]
    pub(crate) parents: bool,
}

/// Places, and how their hosts are reached.
#[derive(Args, Debug)]
pub(crate) struct Places {
    /// Where, on one host or several
    #[arg(required = true, value_name = "PLACE")]
    pub(crate) named: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) via: Via,
}
