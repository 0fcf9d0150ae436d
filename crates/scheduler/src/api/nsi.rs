//! Routes of the Network Service Interface.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use lighthaul_booking::books::Books;
use lighthaul_booking::error::Error;
use lighthaul_booking::store::Writer;
use lighthaul_booking_client::role::Role;
use lighthaul_nsi::provider::{Provider, Reply};
use lighthaul_nsi::topology::{
    self, DESCRIPTION_PATH, DESCRIPTION_TYPE, PROVIDER_PATH, TOPOLOGY_PATH, TOPOLOGY_TYPE,
};

use super::api_error::ApiError;
use super::authenticated::Authenticated;
use super::concurrency::on_thread;
use super::state::ApiState;

/// Returns the routes of a provider.
pub(super) fn router(state: ApiState, provider: Arc<Provider>) -> Router {
    let started = ApiState::now();
    let shared = Arc::clone(&provider);
    let description = topology::description(provider.config(), VERSION, started);
    let description = Bytes::from(description);
    let described = move |_: Authenticated| {
        let page = description.clone();
        async move { ([(CONTENT_TYPE, DESCRIPTION_TYPE)], page) }
    };
    let network = move |State(state): State<ApiState>, _: Authenticated| {
        let provider = Arc::clone(&provider);
        async move {
            let view = state.with_books(Books::topology).await?;
            let document = topology::nml(provider.config(), started, &view.nodes);
            Ok::<_, ApiError>(([(CONTENT_TYPE, TOPOLOGY_TYPE)], document))
        }
    };
    Router::new()
        .route(
            PROVIDER_PATH,
            post(move |State(state): State<ApiState>, request: Request| {
                answer(state, Arc::clone(&shared), request)
            }),
        )
        .route(TOPOLOGY_PATH, get(network))
        .route(DESCRIPTION_PATH, get(described))
        .with_state(state)
}

/// Answers a request to the provider. SOAP 1.1 has the status 500 for all faults.
async fn answer(
    state: ApiState,
    provider: Arc<Provider>,
    request: Request,
) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    let Authenticated(principal) = Authenticated::from_request_parts(&mut parts, &state).await?;
    // a device reports about circuits, and owns none
    let name = if principal.role == Role::Device {
        String::new()
    } else {
        principal.name
    };
    let body = Bytes::from_request(Request::from_parts(parts, body), &state).await;
    let body = body.map_err(|why| ApiError::unreadable(&why))?;
    // its acknowledgments would be lost, since only the writer makes reservations
    if let Writer::Other(url) = state.with_books(Books::writer).await? {
        let why = Error::OtherWriter { url };
        return Err(ApiError::unavailable(why.to_string()));
    }
    let reply = on_thread(move || provider.answer(&name, &body)).await;
    let Reply { is_fault, document } = reply.map_err(|_| ApiError::fault())?;
    let status = if is_fault {
        StatusCode::INTERNAL_SERVER_ERROR
    } else {
        StatusCode::OK
    };
    Ok((
        status,
        [(CONTENT_TYPE, "text/xml; charset=utf-8")],
        document,
    )
        .into_response())
}

const VERSION: &str = concat!("lighthaul ", env!("CARGO_PKG_VERSION"));
