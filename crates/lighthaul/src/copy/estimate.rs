//! Size and duration of a copy, measured before its reservation.
//!
//! `Estimate` counts the bytes by a dry run, which also measures the time to connect. Two cases
//! need no dry run: the booking has the size, and for a target behind ssh this host walks the
//! sources. The durations surround the vector of the circuit:
//!
//! ```text
//! lead: connect | steps of the vector: data | epilogue: last answers, writes to disk
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::manifest::EntryKind;
use lighthaul_files::options::Action;
use lighthaul_files::walk::{Found, Walk};
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::host::clock::Clock;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::transfer;
use crate::event::Event;
use crate::fault::Fault;
use crate::list::List;
use crate::request::Booking;

/// Size and duration of a copy, estimated before the copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    /// Bytes to send.
    pub(super) bytes: u64,
    /// Time to connect and to exchange the first messages.
    pub(super) reach: Duration,
    /// Loss on the path that an earlier copy has measured, in parts per million.
    lost_ppm: u32,
    /// True if files must be on the disk of the target before the copy is done.
    sync: bool,
}

impl Estimate {
    /// Counts the bytes to send by a dry run, unless the booking gives them. For a target behind ssh this host walks
    /// the sources. A dry run might ask for a password, which the copy needs again.
    pub(super) fn of(job: &Job, booking: &Booking) -> Result<Self, Error> {
        let found = |(bytes, reach, lost_ppm)| Self {
            bytes,
            reach,
            lost_ppm,
            sync: job.request.options.sync,
        };
        if let Some(size) = booking.size {
            return Ok(found((size.0, REACH, 0)));
        }
        if job.request.list.as_ref().is_some_and(List::is_read_once) {
            return Err(Fault::ListSize.into());
        }
        let walked = match &job.request.target {
            Place::Ssh { .. } => here(job)?,
            Place::Here(_) | Place::Daemon { .. } | Place::Object { .. } => None,
        };
        match walked {
            Some(bytes) => Ok(found((bytes, REACH, 0))),
            None => run_dry(job).map(found),
        }
    }

    /// Returns the bytes that the circuit must carry: the bytes of the files and of the packet headers.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.bytes / HEADS).max(1)
    }

    /// Returns the addition to the size for packets that are sent again, in percent. It is twice the loss that was last
    /// measured, and a reserve for losses that are not known and for the first milliseconds. What does not fit is sent
    /// on the stream.
    pub(super) fn margin_percent(&self) -> u8 {
        let lost = (u64::from(self.lost_ppm) * 2).div_ceil(10_000);
        RESERVE
            .saturating_add(u8::try_from(lost).unwrap_or(u8::MAX))
            .min(MARGIN_MAX)
    }

    /// Returns the time by which the copy connects before the start of the vector. It is twice the measured time, since
    /// the real copy exchanges more messages.
    pub(super) fn lead(&self) -> Duration {
        (self.reach * 2).clamp(REACH, LEAD_MAX)
    }

    /// Returns the duration of the copy after its vector. The last answers take about as many round
    /// trips as the first ones. Then the target writes the bytes in its memory to disk.
    pub(super) fn epilogue(&self) -> Duration {
        let unsynced = if self.sync { self.bytes.min(OBJECT) } else { 0 };
        let sync = Duration::from_nanos(unsynced * 1_000_000_000 / DISK_BYTES_PER_SECOND);
        self.reach.clamp(ANSWERS_MIN, REACH_MAX) + sync
    }
}

/// Counts the bytes of the sources if they are on this host and no list selects entries.
pub(super) fn here(job: &Job) -> Result<Option<u64>, Error> {
    let here = |place: &Place| match place {
        Place::Here(path) => Some(path.clone()),
        Place::Ssh { .. } | Place::Daemon { .. } | Place::Object { .. } => None,
    };
    let paths: Option<Vec<PathBuf>> = job.request.sources.iter().map(here).collect();
    let paths = paths.filter(|_| job.request.list.is_none());
    paths.map(|paths| walked(job, &paths)).transpose()
}

/// Counts the bytes to send by a dry run, and measures the time of the dry run. Returns the known loss on the path,
/// too.
fn run_dry(job: &Job) -> Result<(u64, Duration, u32), Error> {
    let clock = Clock::start();
    let mut bytes = 0_u64;
    let mut count = |event| {
        if let Event::Copy(CopyEvent::Planned(planned)) = event
            && !matches!(
                planned.action,
                Action::Delete | Action::Exclude | Action::Skip
            )
        {
            bytes = bytes.saturating_add(planned.bytes);
        }
    };
    let mut reporter = Reporter::new(&mut count);
    transfer::copy(&job.dry(), &mut reporter)?;
    let lost_ppm = reporter.lost_ppm();
    Ok((bytes, clock.now().since(Instant::ZERO), lost_ppm))
}

/// Counts the bytes to send from this host.
fn walked(job: &Job, paths: &[PathBuf]) -> Result<u64, Error> {
    let options = job.options()?;
    let access = Arc::new(options.sources(FileAccess::anywhere()));
    let walk = Walk::new(access, paths, options.walk())?;
    let sizes = walk.map(|found| match found {
        Found::Entry(entry, ..) => match entry.kind {
            EntryKind::File(size) => size,
            EntryKind::Folder | EntryKind::FolderEnd | EntryKind::Link(_) => 0,
        },
        Found::Mount(..)
        | Found::Skipped(_)
        | Found::Noted(_)
        | Found::Excluded(..)
        | Found::Failed(..) => 0,
    });
    Ok(sizes.fold(0, u64::saturating_add))
}

/// Time to connect if it was not measured.
const REACH: Duration = Duration::from_secs(1);
/// Maximum time to connect.
const REACH_MAX: Duration = Duration::from_secs(10);
/// Maximum time by which a copy connects before its start. Within it, the scheduler moves no reservation.
const LEAD_MAX: Duration = Duration::from_secs(8);
/// Minimum for the last answers: retransmissions, digests, names.
const ANSWERS_MIN: Duration = Duration::from_millis(500);
/// Bytes of a file per byte of packet headers: 1440 in a packet of 1500.
const HEADS: u64 = 24;
/// Minimum margin, in percent.
const RESERVE: u8 = 2;
/// Maximum margin, in percent.
const MARGIN_MAX: u8 = 50;
/// Size of the largest object; an object is synced when it is complete.
const OBJECT: u64 = 1 << 30;
/// Write rate that a promise assumes of a disk.
const DISK_BYTES_PER_SECOND: u64 = 200_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promise_allows_for_syncing_and_round_trips() {
        let epilogue = |bytes, millis, sync| {
            let reach = Duration::from_millis(millis);
            let estimate = Estimate {
                bytes,
                reach,
                lost_ppm: 0,
                sync,
            };
            estimate.epilogue().as_millis()
        };
        assert_eq!(epilogue(200_000_000, 100, true), 1500);
        assert_eq!(epilogue(200_000_000, 100, false), 500);
        assert_eq!(epilogue(1 << 40, 2000, true), 2000 + 5368);
        assert_eq!(epilogue(1, 60_000, true), 10_000);
    }

    #[test]
    fn copy_connects_when_its_reservation_is_settled() {
        for (reach, lead) in [
            (0, 1000),
            (700, 1400),
            (3999, 7998),
            (5000, 8000),
            (60_000, 8000),
        ] {
            let estimate = Estimate {
                bytes: 1,
                reach: Duration::from_millis(reach),
                lost_ppm: 0,
                sync: true,
            };
            assert_eq!(estimate.lead(), Duration::from_millis(lead), "{reach}");
        }
    }

    #[test]
    fn margin_follows_the_known_loss() {
        let of = |lost_ppm| Estimate {
            bytes: 24_000_000,
            reach: REACH,
            lost_ppm,
            sync: true,
        };
        assert_eq!(of(0).wire_bytes(), 25_000_000);
        for (lost_ppm, percent) in [
            (0, 2),
            (1, 3),
            (10_000, 4),
            (120_000, 26),
            (1_000_000, 50),
            (u32::MAX, 50),
        ] {
            assert_eq!(of(lost_ppm).margin_percent(), percent, "{lost_ppm}");
        }
    }
}
