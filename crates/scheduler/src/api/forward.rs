//! Forwarding of changes to the instance that writes.

use std::pin::pin;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, Method, Request as Asked};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use lighthaul_booking_client::clear_text::stays_private;
use lighthaul_booking_client::https::{HttpsClient, ServerTrust};
use tokio::time::timeout;

use super::api_error::{ApiError, OtherWriter};
use super::concurrency::{hold_body, on_thread};
use super::peer::Peer;
use super::request_memory::{RequestMemory, RequestSlot};

/// HTTP client for other instances.
#[derive(Clone, Debug)]
pub(crate) struct Forwarder {
    client: HttpsClient,
    /// True if tokens may go to other hosts without TLS, as they came here.
    insecure: bool,
}

impl Forwarder {
    /// Returns a client for instances that are `known`, which sends tokens without TLS only if `insecure`.
    pub(crate) fn new(known: ServerTrust, insecure: bool) -> Result<Self, rustls::Error> {
        let client = HttpsClient::new(known, TIMEOUT)?;
        Ok(Self { client, insecure })
    }
}

/// Answers a request, or forwards it to the writer. A forwarded request is not forwarded again, so
/// that two instances that take each other for the writer do not loop.
pub(crate) async fn answer(
    State((forwarder, memory)): State<(Forwarder, RequestMemory)>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if request.method() == Method::GET {
        return Ok(next.run(request).await);
    }
    let once = request.headers().contains_key(FORWARDED);
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>();
    let time_limit = peer.map_or(TIMEOUT, |Peer(_, line)| line.limits().time_limit);
    let length = body.size_hint().upper().unwrap_or(u64::MAX);
    let slot = memory
        .take(peer, length.min(BODY_MAX as u64))
        .map_err(|_| ApiError::no_room_for_body())?;
    let body = timeout(time_limit, read_within(&slot, body)).await;
    let body = body.map_err(|_| ApiError::timed_out())??;
    hold_body(slot);
    if once {
        let request = Request::from_parts(parts, Body::from(body));
        return Ok(next.run(request).await);
    }
    let again = parts.clone();
    let response = next
        .run(Request::from_parts(parts, Body::from(body.clone())))
        .await;
    let Some(OtherWriter(url)) = response.extensions().get().cloned() else {
        return Ok(response);
    };
    if !forwarder.insecure && !stays_private(&url) {
        return Err(ApiError::unavailable(format!(
            "the writer at {url} has no TLS, so no token is sent to it: start it with TLS"
        )));
    }
    let path = again.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Asked::builder()
        .method(again.method)
        .uri(format!("{url}{path}"));
    for name in [
        AUTHORIZATION,
        CONTENT_TYPE,
        HeaderName::from_static("idempotency-key"),
    ] {
        if let Some(value) = again.headers.get(&name) {
            request = request.header(name, value);
        }
    }
    let request = request
        .header(FORWARDED, HeaderValue::from_static("1"))
        .body(body.to_vec());
    let request = request.map_err(|why| ApiError::unavailable(why.to_string()))?;
    let asked = on_thread(move || ask(&forwarder.client, request, &url)).await;
    asked.unwrap_or_else(|_| Err(ApiError::fault()))
}

/// Reads a body of limited length, unless another body gets its memory.
async fn read_within(slot: &RequestSlot, body: Body) -> Result<Bytes, ApiError> {
    match select(pin!(slot.ended()), pin!(read(slot, body))).await {
        Either::Left(((), _)) => Err(ApiError::no_room_for_body()),
        Either::Right((body, _)) => {
            slot.complete();
            body
        }
    }
}

/// Reads a body of limited length. Reads some more of a longer one, so that the client receives the
/// response.
async fn read(slot: &RequestSlot, body: Body) -> Result<Bytes, ApiError> {
    let mut parts = body.into_data_stream();
    let (mut kept, mut length) = (Vec::new(), 0);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|why| ApiError::unreadable(&why))?;
        length += part.len();
        slot.progress();
        if length <= BODY_MAX {
            kept.extend_from_slice(&part);
        } else if length > READ_MAX {
            break;
        }
    }
    if length > BODY_MAX {
        return Err(ApiError::too_long(BODY_MAX));
    }
    Ok(kept.into())
}

/// Sends a request to the writer at `url` and returns its response.
fn ask(caller: &HttpsClient, request: Asked<Vec<u8>>, url: &str) -> Result<Response, ApiError> {
    let agent = &caller.agent;
    let request = agent
        .configure_request(request)
        .allow_non_standard_methods(true)
        .build();
    let away = |why: String| {
        ApiError::unavailable(format!(
            "cannot reach the writer at {url}: {why}; try again"
        ))
    };
    let answer = agent
        .run(request)
        .map_err(|e| away(caller.refused().unwrap_or_else(|| e.to_string())))?;
    let (parts, mut body) = answer.into_parts();
    let octets = body.with_config().limit(ANSWER_MAX).read_to_vec();
    let octets = octets.map_err(|e| away(e.to_string()))?;
    let mut response = (parts.status, Bytes::from(octets)).into_response();
    for name in [CONTENT_TYPE, RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

const FORWARDED: HeaderName = HeaderName::from_static("lighthaul-forwarded");
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum length of a request body.
pub(crate) const BODY_MAX: usize = 64 << 10;
/// Maximum number of bytes that are read of a longer body.
const READ_MAX: usize = 16 << 20;
const ANSWER_MAX: u64 = 4 << 20;
