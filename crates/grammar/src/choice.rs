//! Options of a copy: selection, metadata and verification.
//!
//! [`FileArgs`] is a part of `lighthaul cp`. Its doc comments are the help texts: the first line is
//! for `-h`, and the rest only for `--help`. [`DeltaChoice`], [`Verify`] and [`DryRun`] are the
//! values of its options. The structs hold what the user wrote. Only combinations that clap can see
//! are checked here; the command line program derives its settings from them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::changes::ChangeArgs;
use crate::rules::Rules;

/// Options of a copy that select entries, preserved metadata and verification.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
// fields: one for each option of a selection
pub struct FileArgs {
    #[command(flatten)]
    pub rules: Rules,
    /// Copy the paths that FILE lists (- for stdin)
    ///
    /// They are relative to the source, which is one directory. --delete cannot be combined with a list.
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub files_from: Option<PathBuf>,
    /// Read a list whose paths end with NUL, not with a line feed
    #[arg(
        short = '0',
        long,
        requires = "files_from",
        help_heading = "Selection",
        hide_short_help = true
    )]
    pub from0: bool,
    /// Skip files that are newer at the target
    #[arg(short, long, help_heading = "Selection")]
    pub update: bool,
    /// Compare by content (BLAKE3), not by size and time
    #[arg(short, long, help_heading = "Selection")]
    pub checksum: bool,
    /// Delete target files that the source does not have
    #[arg(long, help_heading = "Selection")]
    pub delete: bool,
    /// Delete without asking
    #[arg(short, long, help_heading = "Selection", hide_short_help = true)]
    pub yes: bool,
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Show the actions, copy nothing (=all, =explain)
    #[arg(short = 'n', long, value_enum, value_name = "DETAIL", num_args = 0..=1,
          require_equals = true, default_missing_value = "brief", help_heading = "Selection")]
    pub dry_run: Option<DryRun>,
    /// Preserve all that rsync -a does, owner and group too
    ///
    /// Needs root at the target. Set-user-ID and set-group-ID bits are preserved only with the owner.
    #[arg(short, long, help_heading = "Metadata")]
    pub archive: bool,
    /// Preserve hard links
    #[arg(short = 'H', long, help_heading = "Metadata")]
    pub hard_links: bool,
    /// Preserve extended attributes
    #[arg(short = 'X', long, help_heading = "Metadata", hide_short_help = true)]
    pub xattrs: bool,
    /// Preserve access control lists
    #[arg(short = 'A', long, help_heading = "Metadata", hide_short_help = true)]
    pub acls: bool,
    /// Preserve access times
    #[arg(short = 'U', long, help_heading = "Metadata", hide_short_help = true)]
    pub atimes: bool,
    /// Write holes where files have runs of zeros
    ///
    /// Holes of the source are always preserved.
    #[arg(short = 'S', long, help_heading = "Metadata", hide_short_help = true)]
    pub sparse: bool,
    /// Treat devices, FIFOs and sockets at the target as files: replace or delete them
    #[arg(long, help_heading = "Metadata", hide_short_help = true)]
    pub replace_special: bool,
    /// Send only the changes of large files: auto, always or never
    ///
    /// The old version of a file is read at the target. auto does so on paths of up to 1 Gb/s. Files below 256 KiB are
    /// always sent as a whole. With --inplace, all files are sent as a whole.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        env = "LIGHTHAUL_DELTA",
        overrides_with_all = ["delta", "whole_file", "no_whole_file"],
        help_heading = "Network",
        hide_short_help = true
    )]
    pub delta: DeltaChoice,
    /// Send changed files as a whole, as --delta=never does
    #[arg(
        short = 'W',
        long,
        overrides_with_all = ["delta", "whole_file", "no_whole_file"],
        help_heading = "Network",
        hide_short_help = true
    )]
    pub whole_file: bool,
    /// Send only the changes of large files, as --delta=always does
    #[arg(
        long,
        overrides_with_all = ["delta", "whole_file", "no_whole_file"],
        help_heading = "Network",
        hide_short_help = true
    )]
    pub no_whole_file: bool,
    /// Verify files: transfer, disk or none
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        env = "LIGHTHAUL_VERIFY",
        help_heading = "Verification"
    )]
    pub verify: Verify,
    /// Print hashes of each file, as in md5,adler32
    ///
    /// The kinds are md5, adler32, crc32c, sha256 and blake3. With a value, as in adler32=0a1b2c3d, one file is copied,
    /// and gets its name only if it has that hash.
    #[arg(
        long,
        value_name = "KINDS",
        env = "LIGHTHAUL_HASH",
        help_heading = "Verification",
        hide_short_help = true
    )]
    pub hash: Option<String>,
    /// Write files under their final names from the start
    ///
    /// A reader may see an incomplete file, and an interrupted copy leaves one. Other hard links to the file show the
    /// new content. Without it, files have hidden names until they are complete.
    #[arg(
        long,
        conflicts_with = "update",
        help_heading = "Verification",
        hide_short_help = true
    )]
    pub inplace: bool,
    /// Name of a staging directory beside each file
    ///
    /// It holds files until they are complete. It is created and removed as needed, and never copied.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "inplace",
        help_heading = "Verification",
        hide_short_help = true
    )]
    pub partial_dir: Option<PathBuf>,
}

/// Choice of the files that are sent as deltas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DeltaChoice {
    /// Files for which a delta is likely faster
    #[default]
    Auto,
    /// All files that have an old version at the target
    Always,
    /// No files
    Never,
}

/// Comparison before a file gets its final name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    /// Digest of the bytes read at the source and written at the target
    #[default]
    Transfer,
    /// Digest as with transfer, and of the file as read again from disk, without the page cache
    Disk,
    /// No verification
    None,
}

/// Detail of a dry run.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DryRun {
    /// Changes
    Brief,
    /// Changes and unchanged files
    All,
    /// All, with reasons
    Explain,
}
