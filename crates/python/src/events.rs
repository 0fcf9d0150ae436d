//! Events of a scheduler as they happen.

use std::fmt::{self, Formatter};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lighthaul_booking_client::client::ClientError;
use lighthaul_booking_client::events::Events as Incoming;
use lighthaul_remote::scheduler::failed;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::raised;

/// Function that waits for the next event for a time.
type Next = dyn FnMut(Duration) -> Poll<Option<Result<String, ClientError>>> + Send;

/// Events as JSON.
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Events {
    next: Mutex<Box<Next>>,
    /// Process that has the thread which reads the events.
    process: u32,
}

impl Events {
    /// Returns the events that `incoming` receives.
    pub(crate) fn new<T: Serialize + Send + 'static>(incoming: Incoming<T>) -> Self {
        let text = |event: &T| serde_json::to_string(event).unwrap_or_default();
        let next = move |time| {
            let next = incoming.next_within(time);
            next.map(|event| event.map(|event| event.map(|event| text(&event))))
        };
        Self {
            next: Mutex::new(Box::new(next)),
            process: std::process::id(),
        }
    }
}

#[pymethods]
impl Events {
    /// Waits for the next event, for at most `seconds`. Returns none if it has not come, and an empty text after the last
    /// one.
    fn next(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        if self.process != std::process::id() {
            let text = "the events belong to the parent of this process: begin again here";
            return Err(PyRuntimeError::new_err(text));
        }
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let next = py.detach(|| {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next(time)
        });
        match next {
            Poll::Pending => Ok(None),
            Poll::Ready(None) => Ok(Some(String::new())),
            Poll::Ready(Some(Ok(event))) => Ok(Some(event)),
            Poll::Ready(Some(Err(why))) => Err(raised(py, &failed(why))),
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
