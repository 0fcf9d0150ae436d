//! Events of a scheduler as they happen.

use std::fmt::{self, Formatter};
use std::io::Write;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use lighthaul_booking_client::client::ClientError;
use lighthaul_booking_client::events::{Events as Incoming, Notice};
use lighthaul_remote::scheduler::failed;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::raised;

/// Function that waits for the next event for a time.
type Next = dyn FnMut(Duration) -> Poll<Option<Result<Text, ClientError>>> + Send;
/// Event as JSON.
type Text = serde_json::Result<String>;

/// Events as JSON.
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Events {
    next: Mutex<Box<Next>>,
    /// Signs that an event has come.
    notice: Notice,
    /// Process that has the thread which reads the events.
    process: u32,
}

impl Events {
    /// Returns the events that `incoming` receives.
    pub(crate) fn new<T: Serialize + Send + 'static>(incoming: Incoming<T>) -> Self {
        let notice = incoming.notice();
        let text = |event: T| serde_json::to_string(&event);
        let next = move |time| {
            let next = incoming.next_within(time);
            next.map(|event| event.map(|event| event.map(text)))
        };
        Self {
            next: Mutex::new(Box::new(next)),
            notice,
            process: std::process::id(),
        }
    }

    /// Refuses a process that has no thread which reads the events.
    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let text = "the events belong to the parent of this process: begin again here";
        Err(PyRuntimeError::new_err(text))
    }
}

#[pymethods]
impl Events {
    /// Waits for the next event, for at most `seconds`. Returns none if it has not come, and an empty text after the last
    /// one.
    fn next(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        self.check_process()?;
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let next = py.detach(|| {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            next(time)
        });
        match next {
            Poll::Pending => Ok(None),
            Poll::Ready(None) => Ok(Some(String::new())),
            Poll::Ready(Some(Ok(event))) => event.map(Some).map_err(|why| {
                PyRuntimeError::new_err(format!("cannot write an event as JSON: {why}"))
            }),
            Poll::Ready(Some(Err(why))) => Err(raised(py, &failed(why))),
        }
    }

    /// Returns a socket that can be read whenever an event may have come, or no further one comes. It replaces an earlier
    /// one.
    fn socket(&self) -> PyResult<RawFd> {
        self.check_process()?;
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        // a full socket can be read already, and a closed one has no reader
        self.notice.set(move || drop((&ours).write_all(b".")));
        Ok(theirs.into_raw_fd())
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
