//! Halt: request by another thread to end a wait for a peer.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

/// Request by another thread to end a session or a dialog, with its error.
#[derive(Debug, Default)]
pub struct Halt(Mutex<Option<Error>>);

impl Halt {
    /// Ends the session or dialog with `error`, unless it has ended before.
    pub fn stop(&self, error: Error) {
        let mut why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        why.get_or_insert(error);
    }

    /// Fails if the halt was requested.
    pub fn check(&self) -> Result<(), Error> {
        let why = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        why.clone().map_or(Ok(()), Err)
    }
}

/// Halt that is requested on drop at the latest.
#[derive(Debug)]
pub struct HaltOnDrop {
    halt: Arc<Halt>,
    why: Error,
}

impl HaltOnDrop {
    /// Creates a halt with the error `why`.
    pub fn new(why: Error) -> Self {
        let halt = Arc::default();
        Self { halt, why }
    }

    /// Returns the halt, for the session or dialog that it ends.
    pub fn halt(&self) -> Arc<Halt> {
        Arc::clone(&self.halt)
    }

    /// Ends the session or dialog now.
    pub fn stop(&self) {
        self.halt.stop(self.why.clone());
    }
}

impl Drop for HaltOnDrop {
    fn drop(&mut self) {
        self.stop();
    }
}
