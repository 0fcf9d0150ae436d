//! Why something was not done, as a problem (RFC 9457) with the HTTP status that fits.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use lighthaul_base::Rate;
use lighthaul_calendar::{self as calendar, Need, Refusal};
use utoipa::IntoResponses;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};

use crate::error::Error;
use crate::identity::Denied;
use crate::word::{CounterOffer, Moment, Problem, Span};

/// A problem on its way out.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    problem: Box<Problem>,
    /// When it makes sense to ask again.
    wait: Option<Duration>,
    /// Where to ask instead.
    elsewhere: Option<String>,
}

/// That a problem is to be solved by asking another instance.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere(pub(crate) String);

impl Refused {
    /// A problem of `kind`, which programs know it by.
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

    /// What cannot be read.
    pub(crate) fn unreadable(why: &dyn Display) -> Self {
        let why = in_words(&why.to_string());
        let detail =
            format!("the request cannot be read: {why}; /openapi.json says what is understood");
        Self::new(
            StatusCode::BAD_REQUEST,
            "unreadable",
            "Not understood",
            detail,
        )
    }

    /// What is said in another way than JSON.
    pub(crate) fn unknown_type() -> Self {
        let detail =
            "the request is not said to be JSON: send it with Content-Type: application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, "unreadable", "Not JSON", detail.to_owned())
    }

    /// What is too long.
    pub(crate) fn too_long(most: usize) -> Self {
        let detail = format!("the request has more than {most} bytes: say it with fewer");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "unreadable", "Too long", detail)
    }

    /// What comes too often.
    pub(crate) fn too_often(wait: Duration) -> Self {
        let detail = format!("that was asked too often: ask again in {} s", seconds(wait));
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

    /// What we did not do by a fault of our own.
    pub(crate) fn fault() -> Self {
        let detail = "a fault of the scheduler ended the request: look into its log, and whether it was done";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "fault", "The scheduler failed", detail.to_owned())
    }

    /// What has taken too long.
    pub(crate) fn late() -> Self {
        let detail =
            "the request took too long: ask again, with the same Idempotency-Key if it had one";
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "too-long",
            "Too slow",
            detail.to_owned(),
        )
    }

    /// What would be too much beside other answers that nobody takes.
    pub(crate) fn crowded() -> Self {
        let detail =
            "too many answers are on their way: ask again in a few seconds, or for less at once";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refused = Self::new(status, "crowded", "Too much at once", detail.to_owned());
        Self {
            wait: Some(BREATH),
            ..refused
        }
    }

    /// What there is not.
    pub(crate) fn nowhere() -> Self {
        let detail = "nothing is answered there: /openapi.json says what is";
        Self::new(
            StatusCode::NOT_FOUND,
            "nowhere",
            "No such resource",
            detail.to_owned(),
        )
    }

    /// What is not done with what there is.
    pub(crate) fn no_method() -> Self {
        let detail = "that is not done with it: /openapi.json says what is";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "method", "No such method", detail.to_owned())
    }

    /// What to wait for, as the writer is not to be had.
    pub(crate) fn unavailable(detail: String) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refused = Self::new(status, "unavailable", "The books cannot be written", detail);
        Self {
            wait: Some(BREATH),
            ..refused
        }
    }

    /// What happened, to what, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.problem.detail
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let new = |status, kind, title| Self::new(status, kind, title, error.to_string());
        match &error {
            Error::Misuse(_) => new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "misuse",
                "It makes no sense",
            ),
            Error::Refused(refusal) => from_refusal(refusal, detail),
            Error::Illegal(_) => new(StatusCode::CONFLICT, "order", "Not now"),
            Error::Quota(_) => new(StatusCode::FORBIDDEN, "quota", "Too much for one"),
            Error::Policy(_) => new(StatusCode::FORBIDDEN, "policy", "Not allowed by the policy"),
            Error::Overlap(_) => new(StatusCode::CONFLICT, "overlap", "The packets are taken"),
            Error::Missing { .. } | Error::NoLink(_) => {
                new(StatusCode::NOT_FOUND, "missing", "Not there")
            }
            Error::Forbidden { .. } => new(StatusCode::FORBIDDEN, "forbidden", "Not allowed"),
            Error::Conflict(_) => new(StatusCode::CONFLICT, "idempotency", "The key is taken"),
            Error::Elsewhere { url } => Self {
                elsewhere: Some(url.clone()),
                ..Self::unavailable(detail)
            },
            Error::Store(_) => Self::unavailable(detail),
        }
    }
}

/// The calendar's refusals.
fn from_refusal(refusal: &Refusal, detail: String) -> Refused {
    let conflict = StatusCode::CONFLICT;
    let (status, kind, title) = match refusal {
        Refusal::MissesDeadline(_) => (conflict, "late", "Not in time"),
        Refusal::BeyondHorizon(_) => (conflict, "far", "Too far ahead"),
        Refusal::FollowingBooked(_) => (conflict, "blocked", "Others follow"),
        Refusal::Ended(_) | Refusal::IdInUse(_) => (conflict, "order", "Not now"),
        Refusal::CalendarFull(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "full",
            "The calendar is full",
        ),
        Refusal::NotFound(_) => (StatusCode::NOT_FOUND, "missing", "Not there"),
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
            "It cannot be",
        ),
    };
    let mut refused = Refused::new(status, kind, title, detail);
    if let Refusal::MissesDeadline(counter) = refusal {
        refused.problem.counter_offer = Some(offer(counter));
    }
    refused
}

fn offer(counter: &calendar::CounterOffer) -> CounterOffer {
    CounterOffer {
        earliest_end: counter.end.map(Moment::from),
        size_by_then: counter.most.and_then(|most| match most {
            Need::Size { bytes, .. } => Some(bytes),
            Need::Hold(_) => None,
        }),
        hold_by_then: counter.most.and_then(|most| match most {
            Need::Size { .. } => None,
            Need::Hold(time) => Some(Span(time)),
        }),
        rate_needed: counter.rate_max.map(Rate::as_bps),
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        if denied == Denied::Away {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let title = "The issuer is away";
            let refused = Self::new(status, "unavailable", title, denied.to_string());
            let wait = Some(BREATH);
            return Self { wait, ..refused };
        }
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "Who asks?",
            denied.to_string(),
        )
    }
}

impl IntoResponse for Refused {
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
            response.extensions_mut().insert(Elsewhere(url));
        }
        response
    }
}

impl IntoResponses for Refused {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let problem = |description: &str| {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
            let response = ResponseBuilder::new().description(description);
            RefOr::T(response.content(KIND, content.build()).build())
        };
        BTreeMap::from([
            (
                "4XX".to_owned(),
                problem("It was not done; `detail` says what would work"),
            ),
            (
                "5XX".to_owned(),
                problem("It was not done; the same request may work later"),
            ),
        ])
    }
}

/// What a reader of JSON or of a query says, without the names of its types.
fn in_words(why: &str) -> String {
    let pairs = WORDS.iter();
    pairs.fold(why.to_owned(), |why, (from, to)| why.replace(from, to))
}

/// Whole seconds, at least one.
fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// What readers say, and what people would.
const WORDS: [(&str, &str); 10] = [
    ("Failed to deserialize query string: ", ""),
    ("Failed to deserialize path params: ", ""),
    ("Cannot parse ", ""),
    (" to a `u64`", " is no number"),
    ("invalid digit found in string", "that is no number"),
    ("expected u8", "expected a whole number from 0 to 255"),
    ("expected u32", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected usize", "expected a whole number"),
    ("expected struct ", "expected an object, "),
];
const KIND: &str = "application/problem+json";
/// How long to wait for a store or a writer that is away.
const BREATH: Duration = Duration::from_secs(5);
