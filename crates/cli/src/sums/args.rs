//! The grammar of the commands that compare files with lists of hashes.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lighthaul_files::hash;

use crate::args::Progress;
use crate::files::args::Output;

/// Compare the files of a folder with a list of their hashes.
///
/// Takes what `lighthaul manifest`, sha256sum, md5sum and b3sum write (HASH, two spaces, path), and events of
/// `--json` that have a path and a digest. Paths are below DIR, and nothing outside it is read. Lists what
/// differs or is missing; the status is 12 if anything is.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul verify SHA256SUMS /data/run1
  lighthaul manifest /data/run1 | ssh far.example.org lighthaul verify - /data/run1
  lighthaul verify --hash blake3 b3sums.txt .")]
pub(crate) struct Verify {
    /// The list; - is standard input
    pub(crate) manifest: PathBuf,
    /// The folder
    pub(crate) dir: PathBuf,
    /// What the digits are; else their number tells, and where that fits two, either will do
    #[arg(long, value_enum)]
    pub(crate) hash: Option<Hash>,
    #[command(flatten)]
    pub(crate) crew: Crew,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Write a list of the hashes of all files in a folder.
///
/// Each line is HASH, two spaces and the path below DIR, in the order of names, as sha256sum and its like write and
/// check them. Folders and links are not listed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  lighthaul manifest /data/run1 > run1.sha256
  lighthaul manifest --hash md5 . | md5sum -c
  lighthaul manifest --json /data/run1 > run1.ndjson")]
pub(crate) struct Manifest {
    /// The folder
    pub(crate) dir: PathBuf,
    /// Which hash
    #[arg(long, value_enum, default_value_t)]
    pub(crate) hash: Hash,
    #[command(flatten)]
    pub(crate) crew: Crew,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// How many work, and what they show of it.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Crew {
    /// Files that are read at a time [default: one for each CPU]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Show progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub(crate) progress: Progress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hash {
    /// SHA-256, as sha256sum has it
    #[default]
    Sha256,
    /// MD5, as md5sum has it: against accidents only
    Md5,
    /// BLAKE3, as b3sum has it
    Blake3,
    /// CRC-32C
    Crc32c,
    /// Adler-32
    Adler32,
}

impl Hash {
    /// What it is called below.
    pub(crate) const fn kind(self) -> hash::Kind {
        match self {
            Self::Sha256 => hash::Kind::Sha256,
            Self::Md5 => hash::Kind::Md5,
            Self::Blake3 => hash::Kind::Blake3,
            Self::Crc32c => hash::Kind::Crc32c,
            Self::Adler32 => hash::Kind::Adler32,
        }
    }
}

impl Crew {
    /// How many work.
    pub(crate) fn workers(self) -> usize {
        self.jobs
            .or_else(|| std::thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get)
            .min(WORKERS_MAX)
    }
}

/// No disk wants more readers.
const WORKERS_MAX: usize = 64;
