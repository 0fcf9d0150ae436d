//! `lighthaul manifest`.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use lighthaul_io::fs::ground::Ground;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::sums::crew::{Foreman, work};
use lighthaul_transfer::sums::take::{Taken, Wanted, take};
use serde_json::json;

use super::args::Manifest;
use super::line::line;
use super::show::Shower;
use super::walk::{Found, Walk};
use crate::print::say;

/// Writes a list of hashes.
pub(crate) fn run(args: &Manifest) -> Result<u8, Error> {
    let open = |e| Error::file(Code::Open, "cannot open", &args.dir, &e);
    let ground = Ground::beneath(&args.dir).map_err(open)?;
    let walk = Walk::new(&ground).map_err(open)?;
    let wanted = Wanted {
        hashes: vec![args.hash.kind()],
        crc128: false,
    };
    let bytes = AtomicU64::new(0);
    let mut maker = Maker {
        args,
        shower: Shower::new(args.crew, args.output.json, &bytes),
    };
    let hash = |found: Found| match found {
        Ok(path) => {
            let taken = ground
                .read(&path)
                .and_then(|mut file| take(&mut file, &wanted, &bytes));
            (path, taken)
        }
        Err((path, error)) => (path, Err(error)),
    };
    work(walk, args.crew.workers(), hash, &mut maker)?;
    maker.shower.finish()?;
    Ok(if maker.shower.failures == 0 {
        0
    } else {
        Code::Partial as u8
    })
}

struct Maker<'a> {
    args: &'a Manifest,
    shower: Shower<'a>,
}

impl Foreman<(PathBuf, io::Result<Taken>)> for Maker<'_> {
    type Error = Error;

    fn take(&mut self, (path, taken): (PathBuf, io::Result<Taken>)) -> Result<(), Error> {
        self.shower.files += 1;
        self.shower.look();
        let octets = path.as_os_str().as_bytes();
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let place = self.args.dir.join(&path);
                let error = Error::file(Code::Io, "cannot read", &place, &error);
                if self.shower.json {
                    return self.shower.fail(octets, "unreadable", &error.text);
                }
                // the list is for programs, so what is missing in it is said elsewhere
                self.shower.failures += 1;
                say(&format!("lighthaul: {error}"));
                return Ok(());
            }
        };
        for (name, digits) in &taken.sums {
            if self.shower.json {
                let more = json!({"size": taken.size, "digest": format!("{name}:{digits}")});
                self.shower.event("file", octets, more)?;
            } else {
                self.shower.print(&line(digits, octets))?;
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        self.shower.look();
    }
}
