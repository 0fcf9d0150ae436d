//! Errors as problems (RFC 9457) with their HTTP status.
//!
//! Each fault of the books, of the calendar and of authentication has one URN, one title and one
//! status. Clients decide by these, never by the text in `detail`, which names the fault and the
//! remedy for people.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use lighthaul_base::Rate;
use lighthaul_booking::error::Error;
use lighthaul_booking_client::json::{CounterOffer, IsoDuration, Problem, Timestamp};
use lighthaul_calendar::{self as calendar, Need, Refusal};
use lighthaul_queue::Error as QueueError;
use tracing::error;
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::identity::AuthError;
use crate::jobs::job_error::JobError;

/// Problem to return.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    problem: Box<Problem>,
    /// Value of `Retry-After`, if a retry can succeed.
    wait: Option<Duration>,
    /// URL of the instance that can answer.
    elsewhere: Option<String>,
}

/// Marks a problem that the instance at a URL can solve.
#[derive(Clone, Debug)]
pub(crate) struct OtherWriter(pub(crate) String);

/// Part of a request that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidInput {
    /// The body is JSON, but not an object.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// The header is not a number.
    #[error("Last-Event-ID must be the number of an event")]
    LastEventId,
    /// The header is empty, too long or not ASCII.
    #[error("Idempotency-Key must have 1 to 255 ASCII characters")]
    IdempotencyKey,
    /// The parameter is zero or exceeds the given maximum.
    #[error("limit must be between 1 and {0}")]
    Limit(usize),
    /// The name is not that of a state of jobs.
    #[error("unknown state {0:?}: use waiting, queued, running, done, failed or canceled")]
    JobState(String),
    /// A part of the path, or a parameter, is not a number.
    #[error("{0:?} is not a number from 0 to 2^64 - 1")]
    Number(String),
}

impl ApiError {
    /// Returns a problem with the URN `kind`.
    pub(crate) fn new(status: StatusCode, kind: &str, title: &str, detail: String) -> Self {
        Self {
            problem: Box::new(Problem {
                kind: format!("urn:lighthaul:problem:{kind}"),
                title: title.to_owned(),
                status: status.as_u16(),
                detail,
                counter_offer: None,
            }),
            wait: None,
            elsewhere: None,
        }
    }

    /// Request that cannot be read.
    pub(crate) fn unreadable(why: &dyn Display) -> Self {
        let detail = format!("cannot read the request: {why}; see /openapi.json for the format");
        Self::new(
            StatusCode::BAD_REQUEST,
            "unreadable",
            "Invalid request",
            detail,
        )
    }

    /// Request with another media type than JSON.
    pub(crate) fn unknown_type() -> Self {
        let detail = "the media type of the request is not JSON: send it with Content-Type: application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(
            status,
            "unreadable",
            "Unsupported media type",
            detail.to_owned(),
        )
    }

    /// Request that is too long.
    pub(crate) fn too_long(most: usize) -> Self {
        let detail = format!("the request has more than {most} bytes: send a shorter one");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "unreadable", "Request too long", detail)
    }

    /// Client above its rate limit.
    pub(crate) fn too_often(wait: Duration) -> Self {
        let detail = format!("too many requests: try again in {} s", seconds(wait));
        let refused = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too-often",
            "Too many requests",
            detail,
        );
        Self {
            wait: Some(wait),
            ..refused
        }
    }

    /// Fault of the scheduler itself.
    pub(crate) fn fault() -> Self {
        let detail = "the scheduler failed while it handled the request: see its log, and check if the change was made";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "fault", "Internal error", detail.to_owned())
    }

    /// Request that took too long.
    pub(crate) fn timed_out() -> Self {
        let detail =
            "the request took too long: try again, with the same Idempotency-Key if it had one";
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "too-long",
            "Timeout",
            detail.to_owned(),
        )
    }

    /// Response that does not fit into the memory for responses.
    pub(crate) fn overloaded() -> Self {
        Self::crowded(
            "the memory for responses is full: try again in a few seconds, or request less at once",
        )
    }

    /// Request body that does not fit into the memory for bodies.
    pub(crate) fn no_room_for_body() -> Self {
        Self::crowded("the memory for requests is full: try again in a few seconds")
    }

    fn crowded(detail: &str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refused = Self::new(status, "crowded", "Overloaded", detail.to_owned());
        Self {
            wait: Some(RETRY_DELAY),
            ..refused
        }
    }

    /// Unknown path.
    pub(crate) fn unknown_path() -> Self {
        let detail = "the path does not exist: see /openapi.json for the paths";
        Self::new(
            StatusCode::NOT_FOUND,
            "nowhere",
            "No such resource",
            detail.to_owned(),
        )
    }

    /// Unsupported method.
    pub(crate) fn no_method() -> Self {
        let detail = "the method is not supported for this path: see /openapi.json";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "method", "Method not allowed", detail.to_owned())
    }

    /// Books that cannot be read or written now.
    pub(crate) fn unavailable(detail: String) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refused = Self::new(status, "unavailable", "Books unavailable", detail);
        Self {
            wait: Some(RETRY_DELAY),
            ..refused
        }
    }

    /// Queue of jobs that cannot be read or written. The log has the reason, with names of hosts and files, which clients
    /// need not know.
    fn queue_fault(fault: &QueueError) -> Self {
        error!("{fault}");
        let new = |status, title, detail: &str| {
            Self::new(status, "unavailable", title, detail.to_owned())
        };
        if let QueueError::Unsure(_) = fault {
            let detail = "it is not known whether the change of the queue was stored: repeat the request with the same \
                          Idempotency-Key, or look at the job";
            return Self {
                wait: Some(RETRY_DELAY),
                ..new(StatusCode::SERVICE_UNAVAILABLE, "Result unknown", detail)
            };
        }
        if fault.may_pass() {
            let detail = "the queue of jobs cannot be used now: try again in a few seconds";
            return Self {
                wait: Some(RETRY_DELAY),
                ..new(StatusCode::SERVICE_UNAVAILABLE, "Queue unavailable", detail)
            };
        }
        let detail = "the queue of jobs cannot be used: ask an operator, who finds the reason in the log of the scheduler";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "fault", "Queue unavailable", detail.to_owned())
    }

    /// Returns the fault, the affected object and the remedy.
    pub(crate) fn detail(&self) -> &str {
        &self.problem.detail
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let new = |status, kind, title| Self::new(status, kind, title, error.to_string());
        match &error {
            Error::Request(_) => new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "misuse",
                "Impossible request",
            ),
            Error::Refused(refusal) => from_refusal(refusal, detail),
            Error::Transition(_) => new(StatusCode::CONFLICT, "order", "Wrong state"),
            Error::Quota(_) => new(StatusCode::FORBIDDEN, "quota", "Quota exceeded"),
            Error::Policy(_) => new(
                StatusCode::FORBIDDEN,
                "policy",
                "Not permitted by the policy",
            ),
            Error::Overlap(_) => new(
                StatusCode::CONFLICT,
                "overlap",
                "Conflict with another circuit",
            ),
            Error::NotFound { .. } | Error::UnknownLink(_) => {
                new(StatusCode::NOT_FOUND, "missing", "Not found")
            }
            Error::Forbidden { .. } => new(StatusCode::FORBIDDEN, "forbidden", "Role required"),
            Error::KeyReused(_) => new(StatusCode::CONFLICT, "idempotency", "Key reused"),
            Error::EventsDropped { .. } => new(StatusCode::GONE, "gone", "Events no longer kept"),
            Error::OtherWriter { url } => Self {
                elsewhere: Some(url.clone()),
                ..Self::unavailable(detail)
            },
            Error::Store(_) | Error::Setup(_) | Error::Io(_) => {
                // it names files and hosts, which clients need not know
                error!("{detail}");
                let detail = "the books cannot be read or written now: try again in a few seconds; the log of the scheduler \
                              has the reason";
                Self::unavailable(detail.to_owned())
            }
        }
    }
}

impl From<JobError> for ApiError {
    fn from(error: JobError) -> Self {
        let new = |status, kind, title| Self::new(status, kind, title, error.to_string());
        match &error {
            JobError::NoQueue => new(StatusCode::NOT_FOUND, "no-queue", "No queue"),
            JobError::Unknown(_) => new(StatusCode::NOT_FOUND, "missing", "Not found"),
            JobError::Misuse(_) | JobError::Place(_) | JobError::Queue(QueueError::Limit(_)) => {
                new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "misuse",
                    "Impossible request",
                )
            }
            JobError::Policy(_) => new(
                StatusCode::FORBIDDEN,
                "policy",
                "Not permitted by the policy",
            ),
            JobError::Forbidden { .. } => new(StatusCode::FORBIDDEN, "forbidden", "Role required"),
            JobError::Queue(
                QueueError::Ended(..) | QueueError::NotFailed(..) | QueueError::Dead(..),
            ) => new(StatusCode::CONFLICT, "order", "Wrong state"),
            JobError::Queue(QueueError::KeyReused(_)) => {
                new(StatusCode::CONFLICT, "idempotency", "Key reused")
            }
            JobError::Queue(QueueError::Quota { .. }) => {
                new(StatusCode::FORBIDDEN, "quota", "Quota exceeded")
            }
            JobError::Queue(fault) => Self::queue_fault(fault),
        }
    }
}

/// Returns the problem of a refusal by the calendar.
fn from_refusal(refusal: &Refusal, detail: String) -> ApiError {
    let conflict = StatusCode::CONFLICT;
    let (status, kind, title) = match refusal {
        Refusal::MissesDeadline(_) => (conflict, "late", "Deadline missed"),
        Refusal::BeyondHorizon(_) => (conflict, "far", "Beyond the horizon"),
        Refusal::FollowingBooked(_) => (conflict, "blocked", "Followed by another booking"),
        Refusal::Ended(_) | Refusal::IdInUse(_) => (conflict, "order", "Wrong state"),
        Refusal::CalendarFull(_) => (StatusCode::SERVICE_UNAVAILABLE, "full", "Calendar full"),
        Refusal::NotFound(_) => (StatusCode::NOT_FOUND, "missing", "Not found"),
        Refusal::Empty
        | Refusal::StartPassed(_)
        | Refusal::RateTooHigh(_)
        | Refusal::RateRange(..)
        | Refusal::RateBelowChannel(_)
        | Refusal::UnknownLink
        | Refusal::NoPath
        | Refusal::InterfaceOffPath
        | Refusal::TooManySteps(_)
        | Refusal::AmountOutOfRange(_) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "impossible",
            "Impossible request",
        ),
    };
    let mut refused = ApiError::new(status, kind, title, detail);
    if let Refusal::MissesDeadline(counter) = refusal {
        refused.problem.counter_offer = Some(offer(counter));
    }
    refused
}

fn offer(counter: &calendar::CounterOffer) -> CounterOffer {
    CounterOffer {
        earliest_end: counter.end.map(Timestamp::from),
        size_by_then: counter.most.and_then(|most| match most {
            Need::Size { bytes, .. } => Some(bytes),
            Need::Hold(_) => None,
        }),
        hold_by_then: counter.most.and_then(|most| match most {
            Need::Size { .. } => None,
            Need::Hold(time) => Some(IsoDuration(time)),
        }),
        rate_needed: counter.rate_max.map(Rate::as_bps),
    }
}

impl From<AuthError> for ApiError {
    fn from(denied: AuthError) -> Self {
        if denied == AuthError::KeysUnavailable {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let title = "Issuer unavailable";
            let refused = Self::new(status, "unavailable", title, denied.to_string());
            let wait = Some(RETRY_DELAY);
            return Self { wait, ..refused };
        }
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "Not authenticated",
            denied.to_string(),
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.problem.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.wait {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(wait)));
        }
        if let Some(url) = self.elsewhere {
            response.extensions_mut().insert(OtherWriter(url));
        }
        response
    }
}

impl IntoResponses for ApiError {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let problem = |description: &str| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content(KIND, content.build()).build())
        };
        BTreeMap::from([
            (
                "4XX".to_owned(),
                problem("The request was refused; `detail` has the remedy"),
            ),
            (
                "5XX".to_owned(),
                problem("The request failed; the same request may succeed later"),
            ),
        ])
    }
}

/// Returns whole seconds, at least one.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

const KIND: &str = "application/problem+json";
/// Delay before a retry when the store or the writer is unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(5);
