//! Extractors of requests. A request that cannot be read is a problem like all others.

use std::fmt::Display;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::api_error::{ApiError, InvalidInput};

/// Path or query parameters of a request.
#[derive(Debug)]
pub(crate) struct FromHead<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for FromHead<T>
where
    S: Send + Sync,
    T: FromRequestParts<S>,
    T::Rejection: Display,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = T::from_request_parts(parts, state).await;
        read.map(Self).map_err(|why| ApiError::unreadable(&why))
    }
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

/// Returns true if a media type is that of JSON, which is always UTF-8 (RFC 8259, section 8.1).
fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default().to_ascii_lowercase();
    let mut parts = kind.split(';').map(str::trim);
    let charsets = ["charset=utf-8", "charset=\"utf-8\"", ""];
    parts.next() == Some("application/json") && parts.all(|part| charsets.contains(&part))
}
