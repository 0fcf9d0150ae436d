//! Answer to one request, filled by the thread of its connection.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_files::hash::FileHashes;
use lighthaul_files::request::FileInfo;
use lighthaul_io::host::cancellation::Cancellation;

use crate::failure::{Failure, FailureKind};
use crate::message::{FileVersion, Message};

/// Answer to one request.
#[derive(Debug, Default)]
pub(super) struct Answer {
    parts: Mutex<Parts>,
    ended: Condvar,
}

/// Parts of an answer that have arrived.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Bytes of a range.
    pub(super) data: Vec<u8>,
    /// Items of a directory.
    pub(super) items: Vec<FileInfo>,
    /// Hashes of a file.
    pub(super) hashes: Option<FileHashes>,
    /// End of the answer.
    pub(super) end: Option<Result<Option<FileVersion>, Failure>>,
}

impl Answer {
    /// Returns an empty answer with a buffer for `len` bytes.
    pub(super) fn with_room(len: usize) -> Self {
        let answer = Self::default();
        answer.parts().data.reserve_exact(len);
        answer
    }

    /// Returns the parts that have arrived.
    pub(super) fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the answer is complete.
    pub(super) fn has_ended(&self) -> bool {
        self.parts().end.is_some()
    }

    /// Returns the kind of the failure if the request has failed.
    pub(super) fn failure(&self) -> Option<FailureKind> {
        let parts = self.parts();
        let failure = parts.end.as_ref()?.as_ref().err()?;
        Some(failure.kind)
    }

    /// Waits for the end of the answer, and returns its parts. Fails if the request did, or if the task of this thread is
    /// cancelled.
    pub(super) fn wait(&self) -> Result<MutexGuard<'_, Parts>, Failure> {
        let task = Cancellation::current();
        let mut parts = self.parts();
        while parts.end.is_none() {
            if task.is_cancelled() {
                return Err(Failure::interrupted());
            }
            let waited = self.ended.wait_timeout(parts, LOOK);
            (parts, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match &parts.end {
            Some(Err(failure)) => Err(failure.clone()),
            Some(Ok(_)) | None => Ok(parts),
        }
    }

    /// Waits for the end of the answer, and returns the version in it.
    pub(super) fn version(&self) -> Result<Option<FileVersion>, Failure> {
        let parts = self.wait()?;
        match &parts.end {
            Some(Ok(version)) => Ok(*version),
            Some(Err(_)) | None => Ok(None),
        }
    }

    /// Adds a message, with the body of its frame. Returns true if it is the last one. Nothing is added to an answer that
    /// has failed.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only data and requests are left, and a body is read from data alone"
    )]
    pub(super) fn add(&self, message: Message, body: &[u8]) -> bool {
        let mut parts = self.parts();
        let has_failed = parts.end.is_some();
        match message {
            Message::Listed { .. } | Message::Hashed { .. } | Message::Data { .. }
                if has_failed => {}
            Message::Listed { items, .. } => parts.items.extend(items),
            Message::Hashed { hashes, .. } => parts.hashes = Some(hashes),
            Message::Done { version, .. } => {
                drop(parts);
                self.end(Ok(version));
                return true;
            }
            Message::Failed {
                kind, code, why, ..
            } => {
                drop(parts);
                self.end(Err(Failure::reported(kind, code, why)));
                return true;
            }
            _ => parts.data.extend_from_slice(body),
        }
        false
    }

    /// Ends the answer.
    pub(super) fn end(&self, end: Result<Option<FileVersion>, Failure>) {
        let mut parts = self.parts();
        if end.is_err() {
            parts.items = Vec::new();
        }
        parts.end.get_or_insert(end);
        drop(parts);
        self.ended.notify_all();
    }
}

/// Interval at which a thread that waits looks if its task is cancelled.
pub(super) const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_answer_takes_nothing_more_until_its_end() {
        let answer = Answer::default();
        let listed = || Message::Listed {
            request: 1,
            items: vec![FileInfo {
                path: b"name".to_vec(),
                kind: lighthaul_files::request::FileKind::File,
                size: 0,
                mode: 0,
                user: 0,
                group: 0,
                seconds: 0,
                nanos: 0,
            }],
        };
        assert!(!answer.add(listed(), &[]));
        assert_eq!(answer.parts().items.len(), 1);
        answer.end(Err(Failure::new(FailureKind::Other, "too large")));
        assert!(!answer.add(listed(), &[]));
        assert!(answer.parts().items.is_empty());
        let done = Message::Done {
            request: 1,
            version: None,
        };
        assert!(answer.add(done, &[]));
        assert_eq!(answer.failure(), Some(FailureKind::Other));
    }
}
