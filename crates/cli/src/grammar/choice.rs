//! The options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::grammar::rules::Rules;

/// What somebody wants of a copy besides its places.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "flags are bools")]
pub(crate) struct Choice {
    /// Keep all that rsync's -a keeps: owner and group too, as root, and with them a file's set-user-ID and
    /// set-group-ID, which it loses otherwise
    #[arg(short, long)]
    pub(crate) archive: bool,
    /// Keep extended attributes
    #[arg(short = 'X', long)]
    pub(crate) xattrs: bool,
    /// Keep access lists
    #[arg(short = 'A', long)]
    pub(crate) acls: bool,
    /// Replace and delete devices, FIFOs and sockets at the target as if they were files
    #[arg(long)]
    pub(crate) replace_special: bool,
    /// Keep names of one file names of one file
    #[arg(short = 'H', long)]
    pub(crate) hard_links: bool,
    /// Leave holes where files have zeros; holes that are there stay in any case
    #[arg(short = 'S', long)]
    pub(crate) sparse: bool,
    /// Keep the times of the last access
    #[arg(short = 'U', long)]
    pub(crate) atimes: bool,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Copy the paths that FILE lists, seen from the one source; - is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Option<PathBuf>,
    /// Paths in the list end with a NUL each
    #[arg(short = '0', long, requires = "files_from")]
    pub(crate) from0: bool,
    /// Do nothing, but tell what would be done
    #[arg(short = 'n', long, value_enum, value_name = "DETAIL", num_args = 0..=1,
          require_equals = true, default_missing_value = "brief")]
    pub(crate) dry_run: Option<DryRun>,
    /// Leave alone what is newer at the target
    #[arg(short, long)]
    pub(crate) update: bool,
    /// Compare files by their bytes (BLAKE3), not by size and time
    #[arg(short, long)]
    pub(crate) checksum: bool,
    /// Remove from the target's folders what the source's do not have
    #[arg(long)]
    pub(crate) delete: bool,
    /// Do not ask before --delete
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Write files under their own names, not under hidden ones until they are whole: whoever reads one
    /// before may see a part of it, and what was there is gone
    #[arg(long, conflicts_with = "update")]
    pub(crate) inplace: bool,
    /// Write files in a folder of this name beside their places until they are whole; it is made and
    /// removed as needed, and never copied
    #[arg(long, value_name = "DIR", conflicts_with = "inplace")]
    pub(crate) partial_dir: Option<PathBuf>,
    /// Tell hashes of every file, as in md5,adler32; with a value, as in adler32=0a1b2c3d, publish the one
    /// file only if it has that: md5, adler32, crc32c, sha256, blake3
    #[arg(long, value_name = "KINDS", env = "LIGHTHAUL_HASH")]
    pub(crate) hash: Option<String>,
    /// Prove that the target has what the source has before a file gets its name
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        env = "LIGHTHAUL_VERIFY"
    )]
    pub(crate) verify: Verify,
}

/// What is compared before a file gets its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verify {
    /// Digests of the bytes that were sent and those that were written
    #[default]
    Transfer,
    /// The same, and the file once more as its disk returns it, past the page cache
    Disk,
    /// Nothing
    None,
}

/// How much a dry run tells.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DryRun {
    /// What would change
    Brief,
    /// What would not change, too
    All,
    /// And why
    Explain,
}
