//! Limits of the memory and open files of one copy.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::crew::{Crew, LOOK};

/// The most that one copy may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that wait to be sent, or to be written.
    pub memory: usize,
    /// Open files: half of them data, half journals of large files.
    pub files: usize,
}

impl Default for Budget {
    /// As much as a copy has use for.
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            files: 1 << 13,
        }
    }
}

impl Budget {
    /// Files with data that one of so many lanes may have open; writing takes two descriptors for each.
    pub(crate) fn open_max(self, lanes: usize) -> usize {
        (self.files / 4 / lanes.max(1)).clamp(2, OPEN_MAX)
    }

    /// Leave to have journals open.
    pub(crate) fn journals(self) -> Permits {
        let free = (self.files / 2).max(1);
        Permits(Arc::new((Mutex::new(free), Condvar::new())))
    }
}

/// Leave to have a bounded number of something; a clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Permits(Arc<(Mutex<usize>, Condvar)>);

/// Leave to have one, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Permits);

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.0.1.notify_one();
    }
}

impl Permits {
    /// Waits for leave, until the crew has failed, and no longer than [`PATIENCE`].
    pub(crate) fn take(&self, crew: &Crew) -> io::Result<Permit> {
        let mut free = self.lock();
        for _ in 0..PATIENCE.as_millis() / LOOK.as_millis() {
            if *free > 0 {
                *free -= 1;
                return Ok(Permit(self.clone()));
            }
            crew.check().map_err(io::Error::other)?;
            let waited = self.0.1.wait_timeout(free, LOOK);
            (free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Err(io::Error::other(
            "too many large files are written there at once and none is whole; copy fewer at a time, or raise --max-open-files there",
        ))
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files with data that a lane has use for.
const OPEN_MAX: usize = 64;
/// Time for other large files to become whole.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Code, Error};

    #[test]
    fn leave_is_bounded_comes_back_and_is_not_waited_for_once_the_copy_has_failed() {
        let (crew, budget) = (
            Crew::default(),
            Budget {
                memory: 0,
                files: 4,
            },
        );
        let permits = budget.journals();
        let both = [(); 2].map(|()| permits.take(&crew).unwrap());
        std::thread::scope(|scope| {
            let third = scope.spawn(|| permits.take(&crew).unwrap());
            drop(both);
            drop(third.join().unwrap());
        });
        let _both = [(); 2].map(|()| permits.take(&crew).unwrap());
        crew.fail(Error::new(Code::Io, "it is over"));
        assert!(permits.take(&crew).is_err());
    }

    #[test]
    fn lanes_share_open_files() {
        assert_eq!(Budget::default().open_max(2), OPEN_MAX);
        assert_eq!(
            Budget {
                memory: 0,
                files: 32
            }
            .open_max(2),
            4
        );
        assert_eq!(
            Budget {
                memory: 0,
                files: 0
            }
            .open_max(0),
            2
        );
    }
}
