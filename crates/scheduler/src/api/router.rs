//! Routes of the REST interface, with their descriptions.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lighthaul_booking_client::json::{CounterOffer, Problem};
use lighthaul_io::host::clock::Clock;
use lighthaul_nsi::provider::Provider;
use tokio::time::{sleep, timeout};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, OpenApi};
use utoipa::{Modify, OpenApi as Describe};
use utoipa_axum::router::OpenApiRouter;

use super::api_error::ApiError;
use super::concurrency;
use super::forward::{self, BODY_MAX, Forwarder};
use super::peer::Peer;
use super::request_memory::{BODIES_MAX, RequestMemory};
use super::response_memory::{self, ResponseMemory};
use super::state::ApiState;
use super::{events, health, jobs, links, nsi, outages, reservations};
use crate::connections::Limits;

/// Returns the service with all routes and limits.
pub(crate) fn router(
    state: ApiState,
    forwarder: Forwarder,
    limits: &Limits,
    nsi: Option<Arc<Provider>>,
) -> Router {
    let (router, described) = described().with_state(state.clone()).split_for_parts();
    // serialized once, so that requests for it take no memory
    let described = Bytes::from(serde_json::to_vec(&described).unwrap_or_default());
    let page = move || async move { ([(CONTENT_TYPE, "application/json")], described) };
    router
        .route("/openapi.json", get(page))
        .merge(nsi.map_or_else(Router::new, |nsi| nsi::router(state.clone(), nsi)))
        .fallback(|| async { ApiError::unknown_path() })
        .method_not_allowed_fallback(|| async { ApiError::no_method() })
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn_with_state(
            (forwarder, RequestMemory::new(BODIES_MAX)),
            forward::answer,
        ))
        .layer(from_fn_with_state(
            ResponseMemory::new(limits.answers_bytes),
            response_memory::bound,
        ))
        // outside, so that few responses of an identity exist before their memory is counted
        .layer(from_fn_with_state(
            state.concurrency().clone(),
            concurrency::limit,
        ))
        .layer(from_fn(in_time))
        .layer(from_fn(paced))
        .layer(from_fn_with_state(state, count))
}

/// Returns the description of the interface.
pub fn openapi() -> OpenApi {
    described().into_openapi()
}

fn described() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(reservations::router())
        .merge(links::router())
        .merge(outages::router())
        .merge(events::router())
        .merge(jobs::router())
        .merge(health::router())
}

#[derive(Debug, Describe)]
#[openapi(
    info(title = "Lighthaul scheduler", description = "Books capacity of links for transfers, and queues copies"),
    components(schemas(Problem, CounterOffer)),
    modifiers(&Bearer)
)]
struct Description;

/// Security scheme: authentication by a bearer token.
struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = openapi.components.take();
        let mut components = components.unwrap_or_else(|| ComponentsBuilder::new().build());
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        openapi.components = Some(components);
    }
}

/// Ends a request that takes too long. An event stream has begun by then and is not affected.
async fn in_time(request: Request, next: Next) -> Response {
    let answered = timeout(TIMEOUT, next.run(request)).await;
    answered.unwrap_or_else(|_| ApiError::timed_out().into_response())
}

/// Delays requests of unauthenticated connections.
async fn paced(request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>();
    let pause = peer.map_or(Duration::ZERO, |Peer(_, connection)| connection.pause());
    if !pause.is_zero() {
        sleep(pause).await;
    }
    next.run(request).await
}

/// Counts requests by route.
async fn count(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let clock = Clock::start();
    let started = clock.now();
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let took = clock.now().since(started);
    state
        .metrics()
        .count(method, &route, response.status().as_u16(), took);
    response
}

/// Returns the name of an HTTP method (RFC 9110, section 9). All unknown methods share one name.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::PATCH => "PATCH",
        _ => "other",
    }
}

const TIMEOUT: Duration = Duration::from_secs(20);
