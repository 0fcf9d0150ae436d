//! Command `lighthaul manifest`: writes a list of the hashes of all files in a directory.
//!
//! For a local directory, worker threads hash the files, and the lines keep the order of the walk.
//! Another host sends hashes in the order of its disk, so that list is collected and sorted by
//! path. `ManifestWriter` prints lines as coreutils do, or events of JSON. A file that cannot be
//! read is reported, and the command continues; its exit status then is that of a partial failure.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use lighthaul_files::sums::file_sums::{FileSums, WantedSums, compute};
use lighthaul_files::sums::pool::{self, Consumer};
use lighthaul_files::sums::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_grammar::sums::Manifest;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Code, Error, FileAction};
use serde_json::json;

use super::hash_kind::hash_kind;
use super::remote::{self, RemoteSums};
use super::show::SumsPrinter;
use super::workers::workers;
use crate::output::print::hash_line;

/// Writes a list of hashes.
pub(crate) fn run(args: &Manifest) -> Result<u8, Error> {
    let bytes = AtomicU64::new(0);
    let place = Place::parse(&args.dir)?;
    let mut writer = ManifestWriter {
        dir: Path::new(OsStr::from_bytes(place.path())),
        printer: SumsPrinter::new(args.crew, &bytes),
        codes: BTreeSet::new(),
    };
    if let Place::Here(_) = place {
        write_here(args, &mut writer, &bytes)?;
    } else {
        write_remote(args, &place, &mut writer)?;
    }
    writer.printer.finish()?;
    Ok(writer.status())
}

fn write_here(
    args: &Manifest,
    writer: &mut ManifestWriter<'_>,
    bytes: &AtomicU64,
) -> Result<(), Error> {
    let open = |e| Error::file(FileAction::Open, writer.dir, &e);
    let access = FileAccess::beneath(writer.dir).map_err(open)?;
    let walk = Walk::new(&access).map_err(open)?;
    let wanted = WantedSums {
        hashes: vec![hash_kind(args.hash)],
        crc128: false,
    };
    let hash = |found: Found| match found {
        Ok(path) => {
            let taken = access
                .read(&path)
                .and_then(|mut file| compute(&mut file, &wanted, bytes));
            (path, taken)
        }
        Err((path, error)) => (path, Err(error)),
    };
    pool::run(walk, workers(args.crew), hash, writer)
}

/// Writes the list of a directory on another host, which sends it in the order of its disk.
fn write_remote(
    args: &Manifest,
    place: &Place,
    writer: &mut ManifestWriter<'_>,
) -> Result<(), Error> {
    let mut all = BTreeMap::new();
    let kinds = vec![hash_kind(args.hash)];
    remote::hash(place, &args.via, kinds, |part| {
        match part {
            RemoteSums::File(path, taken) => {
                let at = writer.dir.join(OsStr::from_bytes(&path));
                let at = place.with_host(&at.to_string_lossy());
                let taken = taken.map_err(|why| format!("cannot read {at}: {why}"));
                all.insert(path, taken);
            }
            RemoteSums::Failed(code, why) => {
                writer.codes.insert(code);
                writer.printer.warn(&why);
            }
        }
        Ok(())
    })?;
    all.into_iter()
        .try_for_each(|(path, taken)| writer.write(Path::new(OsStr::from_bytes(&path)), taken))
}

struct ManifestWriter<'a> {
    dir: &'a Path,
    printer: SumsPrinter<'a>,
    /// Exit statuses of directories that could not be read.
    codes: BTreeSet<u8>,
}

impl Consumer<(PathBuf, io::Result<FileSums>)> for ManifestWriter<'_> {
    type Error = Error;

    fn take(&mut self, (path, taken): (PathBuf, io::Result<FileSums>)) -> Result<(), Error> {
        self.printer.tick();
        let place = self.dir.join(&path);
        let taken = taken.map_err(|error| Error::file(FileAction::Read, &place, &error).text());
        self.write(&path, taken)
    }

    fn tick(&mut self) {
        self.printer.tick();
    }
}

impl ManifestWriter<'_> {
    /// Returns the exit status: of the failures if no file was readable, or of a partial failure.
    fn status(&self) -> u8 {
        let mut codes = self.codes.iter();
        match (codes.next(), codes.next()) {
            _ if self.printer.failures == 0 => 0,
            (Some(code), None) if self.printer.files == 0 => *code,
            _ => Code::Partial as u8,
        }
    }

    /// Writes the lines of a file, or reports the failure to read it.
    fn write(&mut self, path: &Path, taken: Result<FileSums, String>) -> Result<(), Error> {
        self.printer.files += 1;
        let octets = path.as_os_str().as_bytes();
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                if self.printer.json {
                    return self.printer.fail(octets, "unreadable", &error);
                }
                // standard output carries the list for programs, so failures are printed on standard error
                self.printer.warn(&error);
                return Ok(());
            }
        };
        for (name, digits) in &taken.sums {
            if self.printer.json {
                let more = json!({"size": taken.size, "digest": format!("{name}:{digits}")});
                self.printer.event("file", octets, more)?;
            } else {
                self.printer.print(&hash_line(digits, octets))?;
            }
        }
        Ok(())
    }
}
