//! The grammar of `lighthaul verify` and `manifest`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::output::{OutputArgs, ProgressArgs};
use crate::reach::RemoteArgs;

/// Compare the files of a directory with a list of hashes
///
/// It reads the output of `lighthaul manifest`, sha256sum, md5sum and b3sum (HASH, two spaces, path). It also reads
/// events of `--json` that have a path and a digest. Paths are relative to DIR, and nothing outside it is read. It
/// lists files that differ or are missing; the exit status is 12 if there are any. Files that are not in the list are
/// reported, but do not change the status.
///
/// The files of a DIR on another host are read on that host. This host keeps the list in memory.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul verify SHA256SUMS /data/run1
  lighthaul manifest /data/run1 | lighthaul verify - far.example.org:/data/run1
  lighthaul verify --hash blake3 b3sums.txt .")]
pub struct Verify {
    /// List of hashes; - is standard input
    pub manifest: PathBuf,
    /// Directory with the files: path, `[USER@]HOST:PATH` (ssh) or `lh://HOST[:PORT]/PATH`
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: String,
    /// Hash of the list [default: by the number of digits]
    ///
    /// If two hashes have that number of digits, either may match.
    #[arg(long, value_enum, help_heading = "Verification")]
    pub hash: Option<Hash>,
    #[command(flatten)]
    pub via: RemoteArgs,
    #[command(flatten)]
    pub crew: ThreadArgs,
}

/// Write a list of the hashes of all files in a directory
///
/// Each line is HASH, two spaces and the path relative to DIR, sorted by name, in the format of sha256sum. Directories
/// and links are not listed. A DIR on another host is read there, and its list is sorted in memory here.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul manifest /data/run1 > run1.sha256
  lighthaul manifest --hash md5 . | md5sum -c
  lighthaul manifest lh://far.example.org/run1 > run1.sha256
  lighthaul manifest --json /data/run1 > run1.ndjson")]
pub struct Manifest {
    /// Directory with the files: path, `[USER@]HOST:PATH` (ssh) or `lh://HOST[:PORT]/PATH`
    #[arg(value_hint = ValueHint::AnyPath)]
    pub dir: String,
    /// sha256, md5, blake3, crc32c or adler32
    #[arg(long, value_enum, default_value_t, help_heading = "Verification")]
    pub hash: Hash,
    #[command(flatten)]
    pub via: RemoteArgs,
    #[command(flatten)]
    pub crew: ThreadArgs,
}

/// Threads that read files, their progress, and the format of the results.
#[derive(Args, Clone, Copy, Debug)]
pub struct ThreadArgs {
    /// Files to read at the same time [default: one per CPU]
    #[arg(long, value_name = "N", help_heading = "Advanced")]
    pub jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    pub progress: ProgressArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Hash {
    /// SHA-256, as of sha256sum
    #[default]
    Sha256,
    /// MD5, as of md5sum; detects accidents only
    Md5,
    /// BLAKE3, as of b3sum
    Blake3,
    /// CRC-32C
    Crc32c,
    /// Adler-32
    Adler32,
}
