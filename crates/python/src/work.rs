//! Work without Python's lock. That of the main thread has a thread of its own, so that signals reach Python meanwhile.
//! Work of another thread is cancelled by the [`Cancellation`] that its Python code runs in.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use lighthaul::Error;
use lighthaul_io::host::cancellation::Cancellation as Task;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::caught;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rustix::process::getpid;
use rustix::thread::gettid;

use crate::errors::raised;

/// Cancellation of requests that wait on other threads.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Cancellation(Task);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self(Task::default())
    }

    /// Cancels the requests.
    fn cancel(&self) {
        self.0.cancel();
    }

    /// Calls `work` and returns its result. Its requests fail once they are cancelled.
    fn run(&self, py: Python<'_>, work: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.0.clone().cover(|| {
            interrupt::check().map_err(|error| raised(py, &error.into()))?;
            work.call0().map(Bound::unbind)
        })
    }
}

/// Does `work` without Python's lock. A signal whose handler raises an exception cancels it.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    if gettid() != getpid() {
        // signals are handled on the main thread alone
        let checked = || {
            interrupt::check()
                .map_err(Error::from)
                .and_then(|()| work())
        };
        let result = py.detach(|| caught("request", checked));
        return result.map_err(|error| raised(py, &error));
    }
    let cancellation = Task::default();
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
