//! Work without Python's lock. That of the main thread has a thread of its own, so that signals reach Python meanwhile.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul::Error;
use lighthaul_io::host::cancellation::Cancellation;
use lighthaul_session::error::caught;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rustix::process::getpid;
use rustix::thread::gettid;

use crate::errors::raised;

/// Does `work` without Python's lock. A signal whose handler raises an exception cancels it.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    if gettid() != getpid() {
        // signals are handled on the main thread alone
        let result = py.detach(|| caught("request", work));
        return result.map_err(|error| raised(py, &error));
    }
    let cancellation = Cancellation::default();
    let (tell, told) = sync_channel(1);
    let covered = cancellation.clone();
    let run = move || {
        // the caller may be gone
        tell.send(covered.cover(|| caught("request", work))).ok();
    };
    thread::Builder::new().name("lighthaul".into()).spawn(run)?;
    let mut told = told;
    loop {
        let waiting = &mut told;
        match py.detach(move || waiting.recv_timeout(SIGNALS_EVERY)) {
            Ok(result) => return result.map_err(|error| raised(py, &error)),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| cancellation.cancel())?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "the request ended without a result",
                ));
            }
        }
    }
}

/// Longest time for which a signal waits.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(50);
