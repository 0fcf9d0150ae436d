//! Extractors of requests. A request that cannot be read is a problem like all others.

use std::error::Error;
use std::fmt;

use axum::body::Bytes;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};

use super::api_error::{ApiError, InvalidInput};

/// Path or query parameters of a request.
#[derive(Debug)]
pub(crate) struct FromHead<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for FromHead<T>
where
    S: Send + Sync,
    T: FromRequestParts<S>,
    T::Rejection: Into<UnreadableHead>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = T::from_request_parts(parts, state).await;
        read.map(Self).map_err(|why| {
            let UnreadableHead(why) = why.into();
            ApiError::unreadable(&why)
        })
    }
}

/// Reason that the path or the query of a request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableHead(String);

impl From<PathRejection> for UnreadableHead {
    fn from(why: PathRejection) -> Self {
        let PathRejection::FailedToDeserializePathParams(why) = why else {
            return Self(why.to_string());
        };
        let kind = why.into_kind();
        // all paths are read as numbers or as text, and text can always be read
        let (ErrorKind::ParseError { value, .. }
        | ErrorKind::ParseErrorAtKey { value, .. }
        | ErrorKind::ParseErrorAtIndex { value, .. }) = kind
        else {
            return Self(kind.to_string());
        };
        Self(InvalidInput::Number(value).to_string())
    }
}

impl From<QueryRejection> for UnreadableHead {
    fn from(why: QueryRejection) -> Self {
        // the outer error says only that it is about the query
        Self(
            why.source()
                .map_or_else(|| why.to_string(), ToString::to_string),
        )
    }
}

/// Reads a whole number of a query, for `deserialize_with`.
pub(crate) fn whole_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_str(WholeNumber).map(Some)
}

/// Visitor of a parameter that is a whole number.
struct WholeNumber;

impl Visitor<'_> for WholeNumber {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number from 0 to 2^64 - 1")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        let wrong = |_| E::custom(InvalidInput::Number(text.to_owned()));
        text.parse().map_err(wrong)
    }
}

/// Returns the idempotency key of a request, if any.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(key) = headers.get("Idempotency-Key") else {
        return Ok(None);
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=KEY_MAX).contains(&key.len()));
    let wrong = || ApiError::unreadable(&InvalidInput::IdempotencyKey);
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

/// Returns the number of items in a part of a list.
pub(crate) fn page_limit(limit: Option<u64>) -> Result<usize, ApiError> {
    let limit = limit.map_or(Ok(100), usize::try_from);
    let limit = limit.ok().filter(|limit| (1..=PAGE_MAX).contains(limit));
    let wrong = || ApiError::unreadable(&InvalidInput::Limit(PAGE_MAX));
    limit.ok_or_else(wrong)
}

/// JSON body of a request. An empty body is read as an empty object.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S, T> FromRequest<S> for JsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let is_json = request.headers().get(CONTENT_TYPE).is_some_and(is_json);
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|why| ApiError::unreadable(&why))?;
        if body.is_empty() {
            return read(b"{}");
        }
        if !is_json {
            return Err(ApiError::unknown_type());
        }
        // serde would read an array as the fields in their order
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(ApiError::unreadable(&InvalidInput::NotAnObject));
        }
        read(&body)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<JsonBody<T>, ApiError> {
    let read = serde_json::from_slice(body).map(JsonBody);
    read.map_err(|why| ApiError::unreadable(&why))
}

/// Returns true for a media type of JSON, which is always UTF-8 (RFC 8259, section 8.1).
fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = kind.split(';').map(str::trim);
    let charsets = ["charset=utf-8", "charset=\"utf-8\"", ""];
    parts.next() == Some("application/json") && parts.all(|part| charsets.contains(&part))
}

/// Maximum length of an idempotency key.
const KEY_MAX: usize = 255;
/// Maximum number of items in a part of a list.
const PAGE_MAX: usize = 1000;
