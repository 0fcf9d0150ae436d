//! Queue of copies at a scheduler.

use lighthaul_booking_client::client::Client;
use lighthaul_booking_client::jobs::JobFilter;
use lighthaul_booking_client::json::{JobStatus, NewJob};
use lighthaul_io::crypto::identity;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::events::Events;
use crate::rest::{Access, ask, client, follow, message};

/// Queue of copies at a scheduler.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Queue {
    client: Client,
}

#[pymethods]
impl Queue {
    #[new]
    fn new(py: Python<'_>, access: Access) -> PyResult<Self> {
        client(py, access).map(|client| Self { client })
    }

    /// Submits a job, and returns it. A further call with the same key returns the same job.
    fn submit(&self, py: Python<'_>, job: &str, key: Option<String>) -> PyResult<String> {
        let job: NewJob = message(job)?;
        let key = key.unwrap_or_else(identity::token);
        ask(py, &self.client, move |client| {
            client.submit_job_once(&job, &key)
        })
    }

    /// Returns a job.
    fn job(&self, py: Python<'_>, id: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| client.job(id))
    }

    /// Returns a page of jobs, the newest first.
    fn jobs(
        &self,
        py: Python<'_>,
        owner: Option<String>,
        states: Vec<String>,
        before: Option<u64>,
    ) -> PyResult<String> {
        let state = |name: String| {
            let found = JobStatus::ALL
                .into_iter()
                .find(|state| state.name() == name);
            found.ok_or_else(|| PyValueError::new_err(format!("{name} is no state of jobs")))
        };
        let filter = JobFilter {
            owner,
            states: states.into_iter().map(state).collect::<PyResult<_>>()?,
            before,
            limit: None,
        };
        ask(py, &self.client, move |client| client.jobs(&filter))
    }

    /// Returns the history of a job.
    fn events(&self, py: Python<'_>, id: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| client.job_events(id))
    }

    /// Returns the next pieces of the log of a job.
    fn log(&self, py: Python<'_>, id: u64, attempt: u32, after: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| {
            client.job_log(id, (attempt, after))
        })
    }

    /// Returns the events of a job after `after` as they happen.
    fn follow(&self, py: Python<'_>, id: u64, after: u64) -> PyResult<Events> {
        follow(py, &self.client, move |client| client.follow_job(id, after))
    }

    /// Cancels a job, and returns it.
    fn cancel(&self, py: Python<'_>, id: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| client.cancel_job(id))
    }

    /// Queues a failed or canceled job again, and returns it.
    fn retry(&self, py: Python<'_>, id: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| client.retry_job(id))
    }
}
