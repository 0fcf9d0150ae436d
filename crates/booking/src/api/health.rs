//! Status and metrics, for monitoring.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::desk::Desk;
use super::refused::Refused;
use crate::books::Standing;
use crate::json::Health;

/// Returns the routes that need no authentication.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(metrics))
}

/// Get the status and the time of the scheduler
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "The service answers", body = Health), Refused))]
async fn health(State(desk): State<Desk>) -> Result<Json<Health>, Refused> {
    Ok(Json(told(desk.standing())))
}

/// Check if the books can be read and written
#[utoipa::path(get, path = "/readyz", responses((status = 200, description = "The service can book", body = Health), Refused))]
async fn ready(State(desk): State<Desk>) -> Result<Json<Health>, Refused> {
    let standing = desk.standing();
    let now = Desk::now();
    let age = Duration::from_nanos(now.0.saturating_sub(standing.at.0));
    match &standing.why {
        Some(why) => Err(Refused::unavailable(why.clone())),
        None if age > STALE => Err(Refused::unavailable(format!(
            "the books have not been checked for {} s: see the log of the scheduler",
            age.as_secs()
        ))),
        None => Ok(Json(told(standing))),
    }
}

fn told(standing: Standing) -> Health {
    Health {
        now: Desk::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        writer: standing.writer,
    }
}

/// Get counters and gauges for Prometheus
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "Counters and gauges", body = String, content_type = "application/openmetrics-text"), Refused))]
async fn metrics(State(desk): State<Desk>) -> Result<impl IntoResponse, Refused> {
    let page = desk.metrics().print(desk.seats().left());
    let page = page.map_err(|_| Refused::fault())?;
    Ok(([(CONTENT_TYPE, KIND)], page))
}

/// Age of the status that counts as a failure. A scheduler checks its books every second.
const STALE: Duration = Duration::from_secs(5);
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
