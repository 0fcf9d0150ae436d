//! The grammar of `lighthaul ls`, `du`, `stat`, `cat`, `mount`, `rm` and `mkdir`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use lighthaul_remote_files::span::FileSpan;

use crate::output::OutputArgs;
use crate::reach::RemoteArgs;

/// List a directory here or on another host
///
/// PLACE is `lh://HOST[:PORT]/PATH`, HOST:PATH (over ssh) or a local path. A link to a directory is followed if it
/// stays below the root. Directories of up to 10000 entries are sorted by name; larger ones are listed in the order of
/// the disk. Names that are not valid text are shown with \xHH, and \ as \\.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul ls lh://far.example.org/results/
  lighthaul ls -lh alice@far.example.org:/data
  lighthaul ls -R lh://far.example.org/results/
  lighthaul ls --json lh://far.example.org/results/ | jq -r 'select(.size > 1e9).path'")]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub struct Ls {
    /// Path, `[USER@]HOST:PATH` (ssh) or `lh://HOST[:PORT]/PATH`
    #[arg(value_hint = ValueHint::AnyPath)]
    pub place: String,
    /// Show names that begin with a dot
    #[arg(short, long, help_heading = "Selection")]
    pub all: bool,
    /// List all subdirectories and their contents, with paths
    #[arg(short = 'R', long, help_heading = "Selection")]
    pub recursive: bool,
    #[command(flatten)]
    pub via: RemoteArgs,
    /// Show permissions, owner, group, size and time
    #[arg(short, long, help_heading = "Output")]
    pub long: bool,
    /// With --long, show sizes like 1.50 MiB
    #[arg(short = 'h', long, help_heading = "Output")]
    pub human_readable: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Show the size of directories, and the number of their files
///
/// It adds the sizes of all files below each place, hidden ones included. Links are not followed. A file with several
/// hard links counts once for each. Sizes have units; --json has bytes.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul du lh://far.example.org/results
  lighthaul du -d 1 alice@far.example.org:/data
  lighthaul du --json /data | jq 'select(.path).bytes'")]
pub struct Du {
    /// Show subdirectories, too, down to this depth
    #[arg(
        short = 'd',
        long,
        value_name = "DEPTH",
        default_value_t = 0,
        help_heading = "Selection"
    )]
    pub max_depth: usize,
    #[command(flatten)]
    pub at: PlaceArgs,
    /// Accepted for compatibility with du; sizes always have units
    #[arg(short = 'h', long, hide = true, help_heading = "Output")]
    pub human_readable: bool,
    /// Accepted for compatibility with du; without -d, only the sums are shown
    #[arg(short, long, hide = true, help_heading = "Output")]
    pub summarize: bool,
}

/// Show the metadata of files
///
/// It shows type, permissions, owner, group, size and time. Links are not followed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul stat lh://far.example.org/results/run1.h5
  lighthaul stat --json far.example.org:/data/a far.example.org:/data/b | jq 'select(.size).size'")]
pub struct Stat {
    #[command(flatten)]
    pub at: PlaceArgs,
}

/// Print files of another host, or ranges of them
///
/// The bytes go to standard output, one file after the other. A link is followed if it stays below the root. A file
/// that changes meanwhile is an error. After a loss of the connection, the command continues where it was.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul cat lh://far.example.org/results/run1.log | less
  lighthaul cat --range 0-1023 lh://far.example.org/results/run1.h5 | xxd
  lighthaul cat --range -4096 far.example.org:/data/run1.log")]
pub struct Cat {
    /// Path, `[USER@]HOST:PATH` (ssh) or `lh://HOST[:PORT]/PATH`
    #[arg(required = true, value_name = "PLACE", value_hint = ValueHint::AnyPath)]
    pub places: Vec<String>,
    /// Print bytes FIRST to LAST, from 0; FIRST- or -COUNT for the end
    #[arg(
        short,
        long,
        value_name = "FIRST-LAST",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    pub range: Option<FileSpan>,
    #[command(flatten)]
    pub via: RemoteArgs,
}

/// Mount a directory of another host here (FUSE)
///
/// Programs can then read its files, create and replace files, and rename and remove. A new file appears there when it
/// is closed or synced; after that it can only grow. The command runs until it is interrupted, or until umount.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul mount lh://far.example.org/results /mnt/results
  lighthaul mount --read-only far.example.org:/data /mnt/data")]
pub struct Mount {
    /// Directory, as `[USER@]HOST:PATH` (ssh) or `lh://HOST[:PORT]/PATH`
    #[arg(value_hint = ValueHint::AnyPath)]
    pub place: String,
    /// Directory of this host on which it is mounted
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Refuse all changes
    #[arg(short, long, help_heading = "Access")]
    pub read_only: bool,
    /// Let other users of this host use the mount
    #[arg(long, help_heading = "Access")]
    pub allow_other: bool,
    #[command(flatten)]
    pub via: RemoteArgs,
}

impl Mount {
    /// Returns the place to mount, and the local directory for it.
    pub fn at(&self) -> (&str, &Path) {
        (&self.place, &self.directory)
    }

    /// Returns true for a mount that refuses changes, and for one that other users can use.
    pub const fn access(&self) -> (bool, bool) {
        (self.read_only, self.allow_other)
    }
}

/// Remove files, links and directories
///
/// Directories need -r and are removed with all their contents. Links are removed, not followed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul rm lh://far.example.org/results/run1.h5
  lighthaul rm -r alice@far.example.org:scratch/old")]
pub struct Rm {
    /// Remove directories with all their contents
    #[arg(short, long, help_heading = "Selection")]
    pub recursive: bool,
    #[command(flatten)]
    pub at: PlaceArgs,
}

/// Create directories
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul mkdir lh://far.example.org/results
  lighthaul mkdir -p far.example.org:/data/2026/november")]
pub struct Mkdir {
    /// Create parent directories; no error if the directory exists
    #[arg(short, long, help_heading = "Selection")]
    pub parents: bool,
    #[command(flatten)]
    pub at: PlaceArgs,
}

/// Places, and options of the connection to their hosts.
#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Path, `[USER@]HOST:PATH` (ssh) or `lh://HOST[:PORT]/PATH`
    #[arg(required = true, value_name = "PLACE", value_hint = ValueHint::AnyPath)]
    pub named: Vec<String>,
    #[command(flatten)]
    pub via: RemoteArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
