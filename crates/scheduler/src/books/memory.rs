//! What is remembered of a store outside of it, so that one that went backwards is seen.
//!
//! A store that was restored from a copy, or that failed over to a server that lags, lacks what was answered since. To go on
//! with it would give the numbers of those reservations to others, so that it is refused till an operator says so.

use std::fs;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::store::{Mark, Store};
use crate::word::Moment;

/// The farthest point of a store's history that was seen.
#[derive(Debug)]
pub(super) struct Memory {
    seen: Option<Mark>,
    /// Whether a store that went backwards is taken, once.
    accepts: bool,
    /// Where it is remembered from one start to the next.
    path: Option<PathBuf>,
    /// When it was written there.
    written: Option<Moment>,
    /// Numbers up to this one may have been given in a history that is lost.
    floor: u64,
}

impl Memory {
    /// What a file says; nothing is seen yet if there is none.
    pub(super) fn open(path: Option<PathBuf>, accepts: bool) -> Self {
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        Self {
            seen: text.as_deref().and_then(parse),
            accepts,
            path,
            written: None,
            floor: 0,
        }
    }

    /// The last number that may have been given in a history that is lost.
    pub(super) const fn floor(&self) -> u64 {
        self.floor
    }

    /// Refuses a store whose history lacks what was seen; says whether it is taken all the same.
    pub(super) fn check(&mut self, store: &mut dyn Store, mark: &Mark) -> Result<bool> {
        let Some(seen) = self.seen.as_ref().filter(|seen| *seen != mark) else {
            return Ok(false);
        };
        let reach = store.reach(&seen.epoch)?;
        if reach.is_some_and(|reach| seen.seq <= reach) {
            return Ok(false);
        }
        if std::mem::take(&mut self.accepts) {
            self.floor = seen.seq.max(mark.seq).saturating_add(JUMP);
            return Ok(true);
        }
        Err(Error::Store(format!(
            "the store of the books went backwards: change {} was seen in it, and now it has {} changes; it was restored from a \
             copy, or its server failed over to one that lags. Bring back the newer store, or start the scheduler once with \
             --accept-restored to forget what was booked since",
            seen.seq,
            reach.unwrap_or(mark.seq)
        )))
    }

    /// Remembers where the history stands.
    pub(super) fn keep(&mut self, now: Moment, mark: Mark) {
        if !mark.epoch.is_empty() && self.seen.as_ref() != Some(&mark) {
            self.seen = Some(mark);
            self.write(now);
        }
    }

    /// Remembers a batch of the same epoch.
    pub(super) fn advance(&mut self, now: Moment, seq: u64) {
        if let Some(seen) = &mut self.seen {
            seen.seq = seq;
            self.write(now);
        }
    }

    /// Writes it down, once a second at most: what is older is seen as well, if less of it.
    fn write(&mut self, now: Moment) {
        let is_due = self
            .written
            .is_none_or(|at| now.0 >= at.0.saturating_add(SECOND));
        let (Some(path), Some(seen)) = (&self.path, self.seen.as_ref().filter(|_| is_due)) else {
            return;
        };
        self.written = Some(now);
        let next = path.with_extension("seen-next");
        let text = format!("{} {}\n", seen.epoch, seen.seq);
        // without it a restored store is not seen, and everything else goes on
        let written = fs::write(&next, text).and_then(|()| fs::rename(&next, path));
        if let Err(why) = written {
            tracing::warn!(
                "cannot remember the state of the store in {}: {why}",
                path.display()
            );
        }
    }
}

fn parse(text: &str) -> Option<Mark> {
    let (epoch, seq) = text.trim().split_once(' ')?;
    Some(Mark {
        epoch: epoch.to_owned(),
        seq: seq.parse().ok()?,
    })
}

/// How many numbers are left out behind a history that was lost.
const JUMP: u64 = 1_000_000;
/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
