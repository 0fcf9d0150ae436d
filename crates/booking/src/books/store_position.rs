//! Record of the latest known position of the store, to detect a store that was restored from an old copy.
//!
//! A store that was restored from a backup, or failed over to a lagging server, lacks later
//! answers. New reservations would then get the numbers of lost ones. Such a store is refused until
//! an operator accepts it.
//!
//! ```text
//! bound on disk --> batch in the store --> mark written --> answer
//!                                                   `--> mark on disk, once a second
//! ```
//!
//! The mark is exact after a stop and after a kill. A power failure may lose the marks of the last
//! second or two, but not the bound. Numbers up to the bound are not given again, even if the loss
//! is not detected. An answer waits for the disk of the store only: waiting for that of the mark
//! would double the time and protect no number.
//!
//! Each instance has its own file. In a shared file, the mark of a lagging instance would replace
//! that of the other.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::durable;

use crate::error::{Result, StoreError};
use crate::store::{Position, Store};

/// Latest known position of a store.
#[derive(Debug)]
pub(super) struct StorePosition {
    seen: Option<Position>,
    /// True while a store that is older than before is accepted, which happens once.
    accepts: bool,
    /// File that keeps the position between runs.
    note: Option<PositionFile>,
    /// True if the file was damaged, so that the position is unknown.
    is_damaged: bool,
    /// Highest number that may have been given in a lost history.
    floor: u64,
    /// Time at which the file was last synced to the disk.
    synced: Timestamp,
}

/// File with a mark and a bound.
#[derive(Debug)]
struct PositionFile {
    path: PathBuf,
    file: Option<File>,
    /// Last number that may be given before the bound is raised.
    bound: u64,
    /// True if the last write failed.
    has_failed: bool,
    /// True if the last write may not be on the disk.
    is_unsynced: bool,
}

impl StorePosition {
    /// Reads the file at `path`. If it does not exist, no position is known.
    ///
    /// Fails if the file cannot be read or is damaged, unless `accepts` is set.
    pub(super) fn open(path: Option<PathBuf>, accepts: bool) -> Result<Self> {
        let mut memory = Self {
            seen: None,
            accepts,
            note: None,
            is_damaged: false,
            floor: 0,
            synced: Timestamp(0),
        };
        let Some(path) = path else {
            return Ok(memory);
        };
        match fs::read(&path) {
            Ok(octets) => match parse(&octets) {
                Some((seen, bound)) => {
                    memory.seen = Some(seen);
                    memory.floor = bound;
                }
                None => memory.is_damaged = true,
            },
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(_) => memory.is_damaged = true,
        }
        if memory.is_damaged && !accepts {
            return Err(StoreError::PositionDamaged(path).into());
        }
        memory.note = Some(PositionFile {
            path,
            file: None,
            bound: memory.floor,
            has_failed: false,
            is_unsynced: false,
        });
        Ok(memory)
    }

    /// Returns the last number that may have been given in a lost history.
    pub(super) const fn floor(&self) -> u64 {
        self.floor
    }

    /// Refuses a store that lacks the known position. Returns true if it is accepted nevertheless.
    pub(super) fn check(&mut self, store: &mut dyn Store, mark: &Position) -> Result<bool> {
        if std::mem::take(&mut self.is_damaged) {
            self.accept(mark);
            return Ok(true);
        }
        let Some(seen) = self.seen.as_ref().filter(|seen| *seen != mark) else {
            return Ok(false);
        };
        let reach = store.epoch_end(&seen.epoch)?;
        if reach.is_some_and(|reach| seen.seq <= reach) {
            return Ok(false);
        }
        if self.accepts {
            self.accept(mark);
            return Ok(true);
        }
        Err(StoreError::WentBackwards {
            seen: seen.seq,
            found: reach.unwrap_or(mark.seq),
        }
        .into())
    }

    /// Accepts a store that lacks the known position, once.
    fn accept(&mut self, mark: &Position) {
        self.accepts = false;
        let seen = self.seen.as_ref().map_or(0, |seen| seen.seq);
        let last = self.floor.max(seen).max(mark.seq);
        self.floor = last.saturating_add(JUMP);
    }

    /// Stores the position of the store.
    pub(super) fn keep(&mut self, mark: Position) {
        if mark.epoch.is_empty() || self.seen.as_ref() == Some(&mark) {
            return;
        }
        let is_new = self
            .seen
            .as_ref()
            .is_none_or(|seen| seen.epoch != mark.epoch);
        self.seen = Some(mark);
        self.write(is_new);
    }

    /// Reserves numbers up to `seq` on the disk. It raises the bound in steps, so that few changes
    /// wait for the disk.
    pub(super) fn reserve(&mut self, seq: u64) {
        let note = self.note.as_mut().filter(|note| note.bound < seq);
        if let Some(note) = note {
            note.bound = seq.saturating_add(STEP);
            self.write(true);
        }
    }

    /// Stores the number of a batch in the same epoch.
    pub(super) fn advance(&mut self, seq: u64) {
        if let Some(seen) = &mut self.seen {
            seen.seq = seq;
            self.write(false);
        }
    }

    /// Syncs the file to the disk, at most once a second.
    pub(super) fn sync(&mut self, now: Timestamp) {
        let is_unsynced = self.note.as_ref().is_some_and(|note| note.is_unsynced);
        if is_unsynced && now.0.abs_diff(self.synced.0) >= SYNC_EVERY {
            self.synced = now;
            self.write(true);
        }
    }

    /// Writes the file; `durably` waits for the disk.
    fn write(&mut self, durably: bool) {
        let (Some(note), Some(seen)) = (&mut self.note, &self.seen) else {
            return;
        };
        let written = note.write(seen, self.floor, durably);
        // a failure disables only the detection of a restored store
        if let Some(why) = note.new_failure(&written) {
            tracing::warn!(
                "cannot write the position of the store to {}: {why}",
                note.path.display()
            );
        }
        note.is_unsynced = !durably || written.is_err();
    }
}

impl Drop for StorePosition {
    /// Lowers the bound to the last given number, so that the next start skips no numbers.
    fn drop(&mut self) {
        if let (Some(note), Some(seen)) = (&mut self.note, &self.seen)
            && note.file.is_some()
        {
            note.bound = seen.seq;
            self.write(true);
        }
    }
}

impl PositionFile {
    fn write(&mut self, seen: &Position, floor: u64, durably: bool) -> io::Result<()> {
        let bound = self.bound.max(seen.seq).max(floor);
        let text = line(seen, bound);
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open(&text)?,
        };
        let file = self.file.insert(file);
        // the line fits in a sector, so that a power failure leaves the old or the new one
        file.write_all_at(text.as_bytes(), 0)?;
        if durably { file.sync_data() } else { Ok(()) }
    }

    /// Records the result of a write. Returns its error if the write before did not fail.
    fn new_failure<'a>(&mut self, written: &'a io::Result<()>) -> Option<&'a io::Error> {
        let had_failed = std::mem::replace(&mut self.has_failed, written.is_err());
        written.as_ref().err().filter(|_| !had_failed)
    }

    /// Opens the file, or replaces it if its line cannot be overwritten in place.
    fn open(&self, text: &str) -> io::Result<File> {
        let open = || OpenOptions::new().write(true).open(&self.path);
        let is_whole = |file: &File| {
            file.metadata()
                .is_ok_and(|about| about.len() == text.len() as u64)
        };
        if let Some(file) = open().ok().filter(is_whole) {
            return Ok(file);
        }
        durable::replace(&self.path, text.as_bytes())?;
        open()
    }
}

/// Returns a line of constant length with a checksum.
fn line(seen: &Position, bound: u64) -> String {
    let text = format!("{} {} {bound}", seen.epoch, seen.seq);
    let sum = Fingerprint::of(text.as_bytes());
    format!("{:<LEN$}\n", format!("{text} {sum}"))
}

/// Parses a line; `None` if the checksum is wrong.
fn parse(octets: &[u8]) -> Option<(Position, u64)> {
    let text = std::str::from_utf8(octets).ok()?;
    let (text, sum) = text.trim_end().rsplit_once(' ')?;
    let is_whole = sum.parse() == Ok(Fingerprint::of(text.as_bytes()));
    let mut words = text.split(' ');
    let (epoch, seq, bound) = (words.next()?, words.next()?, words.next()?);
    let mark = Position {
        epoch: epoch.to_owned(),
        seq: seq.parse().ok()?,
    };
    is_whole.then_some((mark, bound.parse().ok()?))
}

/// Numbers that are skipped after a lost history.
const JUMP: u64 = 1_000_000;
/// Distance by which the bound is raised.
const STEP: u64 = 1000;
/// Minimum time between two syncs of a mark, in nanoseconds.
const SYNC_EVERY: u64 = 1_000_000_000;
/// Length of the line in bytes.
const LEN: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_synced_at_most_once_a_second() {
        let name = format!("lighthaul-mark-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut memory = StorePosition::open(Some(path.clone()), false).unwrap();
        let is_unsynced = |memory: &StorePosition| memory.note.as_ref().unwrap().is_unsynced;
        let begin = Timestamp(1_800_000_000 * SYNC_EVERY);
        memory.keep(Position {
            epoch: "abc".to_owned(),
            seq: 0,
        });
        memory.reserve(1);
        assert!(!is_unsynced(&memory), "a bound is synced at once");
        for (later, stays) in [(0, false), (SYNC_EVERY - 1, true), (SYNC_EVERY, false)] {
            memory.advance(later + 1);
            assert!(is_unsynced(&memory));
            memory.sync(Timestamp(begin.0 + later));
            assert_eq!(is_unsynced(&memory), stays, "after {later} ns");
        }
        // a clock that was set back does not delay the sync
        memory.advance(9);
        memory.sync(Timestamp(1));
        assert!(!is_unsynced(&memory));
        drop(memory);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn file_that_cannot_be_read_is_damaged() {
        let folder = std::env::temp_dir();
        assert!(StorePosition::open(Some(folder.clone()), false).is_err());
        let accepted = StorePosition::open(Some(folder.clone()), true).unwrap();
        assert!(accepted.is_damaged);
        let missing = StorePosition::open(Some(folder.join("lighthaul-no-mark")), false).unwrap();
        assert!(!missing.is_damaged);
    }

    #[test]
    fn bound_is_raised_in_steps_and_new_epochs_are_synced_at_once() {
        let name = format!("lighthaul-bound-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut memory = StorePosition::open(Some(path.clone()), false).unwrap();
        let mark = |epoch: &str, seq| Position {
            epoch: epoch.to_owned(),
            seq,
        };
        memory.keep(mark("abc", 0));
        for (seq, bound) in [(1, 1001), (500, 1001), (1001, 1001), (1002, 2002)] {
            memory.reserve(seq);
            let written = parse(&fs::read(&path).unwrap());
            assert_eq!(written, Some((mark("abc", 0), bound)), "{seq}");
        }
        let is_unsynced = |memory: &StorePosition| memory.note.as_ref().unwrap().is_unsynced;
        memory.keep(mark("abc", 1));
        assert!(is_unsynced(&memory));
        memory.keep(mark("abd", 1));
        assert!(!is_unsynced(&memory));
        drop(memory);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn lasting_write_failure_is_reported_once() {
        let path = std::env::temp_dir().join("lighthaul-no-mark");
        let mut memory = StorePosition::open(Some(path), false).unwrap();
        let note = memory.note.as_mut().unwrap();
        let mut is_new = |written: io::Result<()>| note.new_failure(&written).is_some();
        let failed = || Err(io::Error::other("the disk is full"));
        assert_eq!([is_new(failed()), is_new(failed())], [true, false]);
        assert_eq!([is_new(Ok(())), is_new(failed())], [false, true]);
    }

    #[test]
    fn file_of_another_length_is_replaced() {
        let name = format!("lighthaul-long-mark-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "x".repeat(300)).unwrap();
        let mut memory = StorePosition::open(Some(path.clone()), true).unwrap();
        memory.keep(Position {
            epoch: "abc".to_owned(),
            seq: 7,
        });
        assert_eq!(fs::read(&path).unwrap().len(), LEN + 1);
        drop(memory);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn position_of_a_store_without_an_epoch_is_not_kept() {
        let mut memory = StorePosition::open(None, false).unwrap();
        let mark = |epoch: &str, seq| Position {
            epoch: epoch.to_owned(),
            seq,
        };
        memory.keep(mark("", 3));
        assert_eq!(memory.seen, None);
        memory.keep(mark("abc", 7));
        memory.keep(mark("", 9));
        assert_eq!(memory.seen, Some(mark("abc", 7)));
    }

    #[test]
    fn damaged_line_is_not_read() {
        let mark = Position {
            epoch: "abc".to_owned(),
            seq: 7,
        };
        let text = line(&mark, 1007);
        assert_eq!(text.len(), LEN + 1);
        assert_eq!(parse(text.as_bytes()), Some((mark, 1007)));
        for damaged in [
            String::new(),
            text[..20].to_owned(),
            text.replacen("1007", "1008", 1),
            text.replacen("abc", "abd", 1),
            "abc 7\n".to_owned(),
            "\0".repeat(256),
        ] {
            assert_eq!(parse(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
