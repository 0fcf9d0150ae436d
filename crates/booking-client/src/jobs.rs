//! Jobs at a scheduler: submission, reading, changes. All of them are repeated after failures that may pass.

use std::fmt::Write;

use lighthaul_io::crypto::identity;
use ureq::http::Method;

use crate::client::{Client, ClientError, percent};
use crate::json::{JobEventView, JobLogPiece, JobPage, JobStatus, JobView, NewJob};
use crate::patience::{Failure, patiently};

/// Selection of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Owner of the jobs to list.
    pub owner: Option<String>,
    /// States; all if empty.
    pub states: Vec<JobStatus>,
    /// Number before which the list begins.
    pub before: Option<u64>,
    /// Most jobs, up to 1000 [default: 100].
    pub limit: Option<usize>,
}

impl Client {
    /// Submits a job. Repeats the request if the response is lost, without submitting twice.
    pub fn submit_job(&self, job: &NewJob) -> Result<JobView, ClientError> {
        self.submit_job_once(job, &identity::token())
    }

    /// Submits a job with an idempotency key. A second call with the same key returns the job of the first.
    pub fn submit_job_once(&self, job: &NewJob, key: &str) -> Result<JobView, ClientError> {
        patiently(|| self.try_send(Method::POST, "/v1/jobs", Some(key), job))
    }

    /// Returns a job.
    pub fn job(&self, id: u64) -> Result<JobView, ClientError> {
        self.read_patiently(&format!("/v1/jobs/{id}"))
    }

    /// Returns a part of the list of jobs, the newest first.
    pub fn jobs(&self, filter: &JobFilter) -> Result<JobPage, ClientError> {
        let mut path = format!("/v1/jobs?limit={}", filter.limit.unwrap_or(100));
        if let Some(owner) = &filter.owner {
            write!(path, "&owner={}", percent(owner)).ok();
        }
        if !filter.states.is_empty() {
            let names: Vec<&str> = filter.states.iter().map(|state| state.name()).collect();
            write!(path, "&state={}", names.join(",")).ok();
        }
        if let Some(before) = filter.before {
            write!(path, "&before={before}").ok();
        }
        self.read_patiently(&path)
    }

    /// Returns the history of a job, the oldest event first.
    pub fn job_events(&self, id: u64) -> Result<Vec<JobEventView>, ClientError> {
        self.read_patiently(&format!("/v1/jobs/{id}/events"))
    }

    /// Returns the history of a job, without repetition.
    pub(crate) fn try_job_events(&self, id: u64) -> Result<Vec<JobEventView>, Failure> {
        self.try_get(&format!("/v1/jobs/{id}/events"))
    }

    /// Returns the next pieces of a job's log after `after`, an attempt and a number within it.
    pub fn job_log(&self, id: u64, after: (u32, u64)) -> Result<Vec<JobLogPiece>, ClientError> {
        let (attempt, after) = after;
        self.read_patiently(&format!(
            "/v1/jobs/{id}/log?attempt={attempt}&after={after}"
        ))
    }

    /// Cancels a job. A running copy stops soon.
    pub fn cancel_job(&self, id: u64) -> Result<JobView, ClientError> {
        self.change_job(id, "cancel")
    }

    /// Queues a failed or canceled job again.
    pub fn retry_job(&self, id: u64) -> Result<JobView, ClientError> {
        self.change_job(id, "retry")
    }

    /// Changes a job. Repeats the request if the response is lost, without changing the job twice.
    fn change_job(&self, id: u64, verb: &str) -> Result<JobView, ClientError> {
        let (path, key) = (format!("/v1/jobs/{id}/{verb}"), identity::token());
        let body = serde_json::json!({});
        patiently(|| self.try_send(Method::POST, &path, Some(&key), &body))
    }
}
