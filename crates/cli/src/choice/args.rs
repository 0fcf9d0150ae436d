//! The options.

use std::fs::File;
use std::io::{BufReader, IsTerminal, stdin};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lighthaul_io::fs::metadata::Keep;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::filter::{Ending, FilesFrom, Written};
use lighthaul_transfer::hash::Asked;
use lighthaul_transfer::list::Names;
use lighthaul_transfer::options::{Detail, Options};
use lighthaul_transfer::{digest, filter};

use super::rules::Rules;
use crate::print::ask;

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

impl Choice {
    /// Asks whether to delete, if somebody wants that and nobody has said yes.
    pub(crate) fn confirm(&self, paths: &[String]) -> Result<(), Error> {
        if !self.delete || self.yes || self.dry_run.is_some() {
            return Ok(());
        }
        let refuse = |text: &str| Err(Error::new(Code::Usage, text));
        if !stdin().is_terminal() {
            return refuse("--delete removes files: say --yes too, or look at --dry-run first");
        }
        let target = paths.last().map_or("", String::as_str);
        ask(&format!(
            "Remove from {target} what the source does not have? [y/N] "
        ));
        let mut answer = String::new();
        // a read by itself would go on behind an interrupt
        let clock = Clock::start();
        let mut typed = [Watch::read(stdin().as_raw_fd())];
        while !typed[0].readable {
            interrupt::check()?;
            wait(clock, &mut typed, clock.now() + LOOK).ok();
        }
        stdin().read_line(&mut answer).ok();
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => refuse("nothing was copied, and nothing removed"),
        }
    }

    /// The paths of `--files-from`, if there is a list.
    pub(crate) fn names(&self) -> Result<Option<Names>, Error> {
        let Some(path) = &self.files_from else {
            return Ok(None);
        };
        let ending = if self.from0 {
            Ending::Nul
        } else {
            Ending::Line
        };
        if path.as_os_str() == "-" {
            return Ok(Some(Names::new(FilesFrom::new(
                BufReader::new(stdin()),
                ending,
            ))));
        }
        let file = File::open(path);
        let file = file.map_err(|e| Error::file(Code::Open, "cannot open the list", path, &e))?;
        Ok(Some(Names::new(FilesFrom::new(
            BufReader::new(file),
            ending,
        ))))
    }

    /// The same for both sides; `digest` is what people asked for.
    pub(crate) fn options(&self, digest: digest::Kind, sync: bool) -> Result<Options, Error> {
        if self.delete && self.files_from.is_some() {
            let text = "--delete compares whole folders, of which --files-from names only parts";
            return Err(Error::new(Code::Usage, text));
        }
        let partial_dir = self
            .partial_dir
            .as_ref()
            .map(|dir| dir.as_os_str().as_bytes().to_vec());
        if let Some(dir) = &partial_dir
            && (dir.is_empty() || dir.contains(&b'/') || dir == b"." || dir == b"..")
        {
            let text = "--partial-dir takes the name of a folder, which is made beside each file";
            return Err(Error::new(Code::Usage, text));
        }
        let mut rules = self.rules.0.clone();
        if let Some(dir) = &partial_dir {
            // what is not whole there is no business of the other side, and no rubbish
            rules.push(Written::Exclude([dir.as_slice(), b"/"].concat()));
        }
        Ok(Options {
            copy: None,
            rules: filter::Rules::parse(&rules)?,
            listed: self.files_from.is_some(),
            keep: Keep {
                mode: true,
                owner: self.archive,
                accessed: self.atimes,
                modified: true,
                xattrs: self.xattrs,
                acls: self.acls,
            },
            hard_links: self.hard_links,
            sparse: self.sparse,
            checksum: self.checksum,
            update: self.update,
            delete: self.delete,
            dry_run: self.dry_run.map(|detail| match detail {
                DryRun::Brief => Detail::Brief,
                DryRun::All => Detail::All,
                DryRun::Explain => Detail::Explain,
            }),
            replace_special: self.replace_special,
            inplace: self.inplace,
            partial_dir,
            protocol: String::new(),
            streams: 0,
            trc: String::new(),
            trc_in: None,
            shared: false,
            stall: 0,
            sync,
            hash: match &self.hash {
                Some(list) => Asked::list(list)?,
                None => Vec::new(),
            },
            verify_disk: self.verify == Verify::Disk,
            digest: match self.verify {
                Verify::None => digest::Kind::None,
                Verify::Transfer | Verify::Disk => digest,
            },
        })
    }
}

/// How often it is looked whether somebody interrupted, while a question waits for its answer.
const LOOK: Duration = Duration::from_millis(100);
