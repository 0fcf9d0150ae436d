//! What a copy will need, found out before anything is booked for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::fs::ground::Ground;
use lighthaul_io::host::clock::Clock;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::manifest::Kind;
use lighthaul_transfer::protocol::Protocol;
use lighthaul_transfer::send::walk::{Found, Walk};

use super::copy::Copy;
use crate::args::Cp;
use crate::choice::args::DryRun;
use crate::cp::options;
use crate::print::Printer;
use crate::remote::Place;

/// What is known of a copy before it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rehearsal {
    /// How much is to be sent.
    pub(super) bytes: u64,
    /// How long it takes to reach the far side, and to agree with it.
    pub(super) reach: Duration,
    /// Whether what was sent is to be on the disk there before the copy is done.
    sync: bool,
}

impl Rehearsal {
    /// Finds out how much there is to send from `sources`: by a dry run, unless somebody says it. To a far side that
    /// ssh leads to nothing but the walk is done here, since a dry run might ask for a password twice.
    pub(super) fn of(
        args: &Cp,
        sources: &[Place],
        target: &Place,
        copy: Copy,
    ) -> Result<Self, Error> {
        let found = |(bytes, reach)| Self {
            bytes,
            reach,
            sync: !args.no_sync,
        };
        if let Some(size) = args.booked.book_size {
            return Ok(found((size.0, REACH)));
        }
        if args.choice.files_from.as_deref() == Some(Path::new("-")) {
            let text = "how much there is to send is not seen from here: say it with --book-size";
            return Err(Error::new(Code::Usage, text));
        }
        match (&sources[0], target, &args.choice.files_from) {
            (Place::Here(_), Place::Ssh { .. }, None) => Ok(found((walked(args, sources)?, REACH))),
            _ => run_dry(args, copy).map(found),
        }
    }

    /// How long before its vector begins a copy calls the far side: twice what that took, since the real copy has more to
    /// find out.
    pub(super) fn lead(&self) -> Duration {
        (self.reach * 2).clamp(REACH, REACH_MAX)
    }

    /// How long a copy goes on behind its vector: the last answers take about as many exchanges as the first ones did, and
    /// then the disk there has to have all of what may still be in memory.
    pub(super) fn epilogue(&self) -> Duration {
        let unsynced = if self.sync { self.bytes.min(OBJECT) } else { 0 };
        let sync = Duration::from_nanos(unsynced * 1_000_000_000 / DISK_BYTES_PER_SECOND);
        self.reach.clamp(ANSWERS_MIN, REACH_MAX) + sync
    }
}

/// Has the copy made without any file, and counts.
fn run_dry(args: &Cp, copy: Copy) -> Result<(u64, Duration), Error> {
    let mut dry = Cp {
        // it has no need of datagrams
        protocol: Some(Protocol::Tcp.to_string()),
        ..args.clone()
    };
    dry.choice.dry_run = Some(DryRun::Brief);
    if dry.choice.checksum {
        // what the digests will say is not known before: all of it may be sent
        dry.choice.checksum = false;
        dry.choice.dry_run = Some(DryRun::All);
    }
    let clock = Clock::start();
    let mut printer = Printer::counting();
    copy(&dry, &mut printer)?;
    let took = clock.now().since(Instant::ZERO);
    Ok((printer.counted(), took))
}

/// What there is to send here.
fn walked(args: &Cp, sources: &[Place]) -> Result<u64, Error> {
    let paths: Vec<PathBuf> = sources
        .iter()
        .filter_map(|place| match place {
            Place::Here(path) => Some(path.clone()),
            Place::Ssh { .. } | Place::Daemon { .. } => None,
        })
        .collect();
    let walk = Walk::new(Arc::new(Ground::anywhere()), &paths, options(args)?.rules)?;
    let sizes = walk.map(|found| match found {
        Found::Entry(entry, ..) => match entry.kind {
            Kind::File(size) => size,
            Kind::Folder | Kind::Leave | Kind::Link(_) => 0,
        },
        Found::Skipped(_) | Found::Noted(_) | Found::Excluded(..) | Found::Failed(..) => 0,
    });
    Ok(sizes.fold(0, u64::saturating_add))
}

/// How long it takes to reach the far side, where that was not tried; and at most, where it was.
const REACH: Duration = Duration::from_secs(1);
const REACH_MAX: Duration = Duration::from_secs(10);
/// The least that is kept for the last answers: resends, digests, names.
const ANSWERS_MIN: Duration = Duration::from_millis(500);
/// An object is synced when it is whole, and this is the largest.
const OBJECT: u64 = 1 << 30;
/// The least that is expected of a disk, as who promises should expect it.
const DISK_BYTES_PER_SECOND: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_promised_later_the_more_has_to_be_synced_and_the_longer_answers_take() {
        let epilogue = |bytes, millis, sync| {
            let reach = Duration::from_millis(millis);
            Rehearsal { bytes, reach, sync }.epilogue().as_millis()
        };
        assert_eq!(epilogue(200_000_000, 100, true), 1500);
        assert_eq!(epilogue(200_000_000, 100, false), 500);
        assert_eq!(epilogue(1 << 40, 2000, true), 2000 + 5368);
        assert_eq!(epilogue(1, 60_000, true), 10_000);
    }
}
