//! A copy that runs.

use std::os::fd::RawFd;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::end_sockets::EndSockets;
use crate::errors::raised;
use crate::records::{ProgressRecord, SummaryRecord};

/// Running copy. It is cancelled when this value is dropped.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Transfer {
    running: lighthaul::Transfer,
    ends: EndSockets,
    /// Process that has the threads of the copy. A child of it has only a copy of this value.
    process: u32,
}

impl Transfer {
    /// Returns the copy that `transfer` runs.
    pub(crate) fn new(transfer: lighthaul::Transfer) -> Self {
        Self {
            running: transfer,
            ends: EndSockets::default(),
            process: std::process::id(),
        }
    }

    fn owned(&self) -> PyResult<&lighthaul::Transfer> {
        if self.process == std::process::id() {
            return Ok(&self.running);
        }
        let text = "the copy runs in the process that started it, of which this is a child: start another one here";
        Err(PyRuntimeError::new_err(text))
    }
}

#[pymethods]
impl Transfer {
    /// Waits for the end of the copy, for at most `seconds`. Returns true if it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let transfer = self.owned()?;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(py.detach(|| transfer.wait_for(time)).is_some())
    }

    /// Returns the latest progress.
    fn progress(&self) -> PyResult<ProgressRecord> {
        Ok(self.owned()?.progress().into())
    }

    /// Cancels the copy.
    fn cancel(&self) {
        self.running.cancel();
    }

    /// Returns the result; none if the copy has not ended. Raises the error that ended it.
    fn result(&self, py: Python<'_>) -> PyResult<Option<SummaryRecord>> {
        let result = self.owned()?.wait_for(Duration::ZERO);
        let summary = result.transpose().map_err(|error| raised(py, &error))?;
        Ok(summary.map(SummaryRecord::from))
    }

    /// Returns a new socket that can be read once the copy has ended.
    fn end_socket(&self) -> PyResult<RawFd> {
        self.ends.socket(self.owned()?)
    }
}
