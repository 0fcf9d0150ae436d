//! How requests are read, so that what cannot be read is a problem like all others.

use std::fmt::Display;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::refused::Refused;

/// What stands in the head of a request: its path, its query.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for Asked<T>
where
    S: Send + Sync,
    T: FromRequestParts<S>,
    T::Rejection: Display,
{
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let read = T::from_request_parts(parts, state).await;
        read.map(Self).map_err(|why| Refused::unreadable(&why))
    }
}

/// What its body says, as JSON; an empty one says nothing, where that is enough.
#[derive(Debug)]
pub(crate) struct Said<T>(pub(crate) T);

impl<S, T> FromRequest<S> for Said<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|why| Refused::unreadable(&why))?;
        let body = if body.is_empty() {
            b"{}".as_slice()
        } else {
            body.as_ref()
        };
        serde_json::from_slice(body)
            .map(Self)
            .map_err(|why| Refused::unreadable(&why))
    }
}
