//! Answers on their way: so many bytes of them at once, counted till the peer has taken them.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refused::Refused;

/// Room for answers, in KiB.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    room: Arc<Semaphore>,
    most: usize,
}

/// An answer in memory, and its room.
struct Held {
    octets: Bytes,
    _room: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Answers {
    /// Room for so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let most = (bytes >> 10).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            room: Arc::new(Semaphore::new(most)),
            most,
        }
    }
}

/// Lets an answer go when there is room for it; one that is small or has no known length goes as it is.
pub(crate) async fn bound(
    State(answers): State<Answers>,
    request: Request,
    next: Next,
) -> Response {
    let response = next.run(request).await;
    let Some(length) = response.body().size_hint().exact() else {
        return response;
    };
    if length <= SMALL {
        return response;
    }
    let (parts, body) = response.into_parts();
    let wanted = (length >> 10).saturating_add(1).min(answers.most as u64);
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    let room = timeout(PATIENCE, answers.room.acquire_many_owned(wanted)).await;
    let (Ok(Ok(room)), Ok(octets)) = (room, to_bytes(body, usize::MAX).await) else {
        return Refused::crowded().into_response();
    };
    let held = Bytes::from_owner(Held {
        octets,
        _room: room,
    });
    // part by part, so that no other copy of all of it is made
    let parts_of = stream::unfold(held, |mut rest| async move {
        let part = rest.split_to(rest.len().min(PART));
        (!part.is_empty()).then_some((Ok::<_, std::convert::Infallible>(part), rest))
    });
    let mut answer = Response::from_parts(parts, Body::from_stream(parts_of));
    answer.headers_mut().insert(
        axum::http::header::CONTENT_LENGTH,
        axum::http::HeaderValue::from(length),
    );
    answer
}

/// What is not counted, in bytes.
const SMALL: u64 = 16 << 10;
/// What of an answer is written at once.
const PART: usize = 16 << 10;
/// How long an answer waits for room.
const PATIENCE: Duration = Duration::from_secs(2);
