//! Status and metrics, for monitoring.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use lighthaul_booking::books::Status;
use lighthaul_booking_client::json::Health;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::ApiError;
use super::state::ApiState;

/// Returns the routes that need no authentication.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(metrics))
}

/// Get the status and the time of the scheduler
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "The service answers", body = Health), ApiError))]
async fn health(State(state): State<ApiState>) -> Result<Json<Health>, ApiError> {
    Ok(Json(health_of(&state, state.status())))
}

/// Check if the books can be read and written
#[utoipa::path(get, path = "/readyz", responses((status = 200, description = "The service can book", body = Health), ApiError))]
async fn ready(State(state): State<ApiState>) -> Result<Json<Health>, ApiError> {
    let health = health_of(&state, state.status());
    match health.fault {
        Some(why) => Err(ApiError::unavailable(why)),
        None => Ok(Json(health)),
    }
}

fn health_of(state: &ApiState, status: Status) -> Health {
    let now = ApiState::now();
    let age = Duration::from_nanos(now.0.saturating_sub(status.at.0));
    let stale = (age > STALE).then(|| {
        let secs = age.as_secs();
        format!("the books have not been checked for {secs} s: see the log of the scheduler")
    });
    Health {
        now,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        writer: status.writer,
        queue_fault: state.queue_fault(),
        fault: status.why.or(stale),
    }
}

/// Get counters and gauges for Prometheus
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "Counters and gauges", body = String, content_type = "application/openmetrics-text"), ApiError))]
async fn metrics(State(state): State<ApiState>) -> Result<impl IntoResponse, ApiError> {
    let queue_works = state.queue_fault().is_none();
    let page = state.metrics().print(state.slots().left(), queue_works);
    let page = page.map_err(|_| ApiError::fault())?;
    Ok(([(CONTENT_TYPE, KIND)], page))
}

/// Age of the status that counts as a failure. A scheduler checks its books every second.
const STALE: Duration = Duration::from_secs(5);
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
