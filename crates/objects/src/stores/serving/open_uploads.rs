//! Uploads in parts that a bucket has begun, so that the daemon can give up all of them when it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_buckets::call_error::{CallError, Reason};

/// Uploads that are open.
#[derive(Debug, Default)]
pub(crate) struct OpenUploads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Keys of the uploads, by their names in the store.
    open: BTreeMap<String, String>,
    /// Number of uploads whose names are not known yet.
    beginning: usize,
    /// Number of parts that are being sent.
    parts: usize,
    /// True if no more may begin.
    has_ended: bool,
}

/// Part that is being sent.
#[derive(Debug)]
pub(crate) struct SentPart(Arc<OpenUploads>);

impl Drop for SentPart {
    fn drop(&mut self) {
        self.0.state().parts -= 1;
    }
}

impl OpenUploads {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an upload that begins. Fails if the daemon ends.
    pub(crate) fn begin(&self) -> Result<(), CallError> {
        let mut state = self.state();
        if state.has_ended {
            return Err(ended());
        }
        state.beginning += 1;
        Ok(())
    }

    /// Records the name of an upload that has begun, or that it has not.
    pub(crate) fn begun(&self, key: &str, id: Option<&str>) {
        let mut state = self.state();
        state.beginning -= 1;
        state
            .open
            .extend(id.map(|id| (id.to_owned(), key.to_owned())));
    }

    /// Counts a part that is being sent. Fails if the daemon ends.
    pub(crate) fn send(self: &Arc<Self>) -> Result<SentPart, CallError> {
        let mut state = self.state();
        if state.has_ended {
            return Err(ended());
        }
        state.parts += 1;
        Ok(SentPart(Arc::clone(self)))
    }

    /// Returns true if a part is being sent.
    pub(crate) fn sends(&self) -> bool {
        self.state().parts > 0
    }

    /// Forgets an upload that is complete or was given up.
    pub(crate) fn remove(&self, id: &str) {
        self.state().open.remove(id);
    }

    /// Lets no more begin.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
    }

    /// Returns the names and keys of all that are open, and true if others may still become known.
    pub(crate) fn open(&self) -> (Vec<(String, String)>, bool) {
        let state = self.state();
        (
            state.open.clone().into_iter().collect(),
            state.beginning > 0,
        )
    }
}

/// Returns the error of requests after the end of the daemon.
pub(crate) fn ended() -> CallError {
    CallError::new(Reason::Stopped, "the daemon is being stopped")
}
