//! `lighthaul manifest`.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use lighthaul_files::sums::file_sums::{FileSums, WantedSums, compute};
use lighthaul_files::sums::line::line;
use lighthaul_files::sums::pool::{self, Consumer};
use lighthaul_files::sums::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_grammar::sums::Manifest;
use lighthaul_session::error::{Code, Error, FileAction};
use serde_json::json;

use super::show::SumsPrinter;
use super::workers::workers;
use crate::output::print::say;

/// Writes a list of hashes.
pub(crate) fn run(args: &Manifest) -> Result<u8, Error> {
    let open = |e| Error::file(FileAction::Open, &args.dir, &e);
    let access = FileAccess::beneath(&args.dir).map_err(open)?;
    let walk = Walk::new(&access).map_err(open)?;
    let wanted = WantedSums {
        hashes: vec![args.hash.kind()],
        crc128: false,
    };
    let bytes = AtomicU64::new(0);
    let mut writer = ManifestWriter {
        args,
        printer: SumsPrinter::new(args.crew, args.output.json, &bytes),
    };
    let hash = |found: Found| match found {
        Ok(path) => {
            let taken = access
                .read(&path)
                .and_then(|mut file| compute(&mut file, &wanted, &bytes));
            (path, taken)
        }
        Err((path, error)) => (path, Err(error)),
    };
    pool::run(walk, workers(args.crew), hash, &mut writer)?;
    writer.printer.finish()?;
    Ok(if writer.printer.failures == 0 {
        0
    } else {
        Code::Partial as u8
    })
}

struct ManifestWriter<'a> {
    args: &'a Manifest,
    printer: SumsPrinter<'a>,
}

impl Consumer<(PathBuf, io::Result<FileSums>)> for ManifestWriter<'_> {
    type Error = Error;

    fn take(&mut self, (path, taken): (PathBuf, io::Result<FileSums>)) -> Result<(), Error> {
        self.printer.files += 1;
        self.printer.tick();
        let octets = path.as_os_str().as_bytes();
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let place = self.args.dir.join(&path);
                let error = Error::file(FileAction::Read, &place, &error);
                if self.printer.json {
                    return self.printer.fail(octets, "unreadable", &error.text());
                }
                // standard output carries the list for programs, so failures are printed on standard error
                self.printer.failures += 1;
                say(&format!("lighthaul: {error}"));
                return Ok(());
            }
        };
        for (name, digits) in &taken.sums {
            if self.printer.json {
                let more = json!({"size": taken.size, "digest": format!("{name}:{digits}")});
                self.printer.event("file", octets, more)?;
            } else {
                self.printer.print(&line(digits, octets))?;
            }
        }
        Ok(())
    }

    fn tick(&mut self) {
        self.printer.tick();
    }
}
