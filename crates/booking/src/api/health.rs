//! What is asked by machines that look after the service.

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
use crate::word::Health;

/// What anybody may ask.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(metrics))
}

/// How it is, and what time it is there
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "It answers", body = Health), Refused))]
async fn health(State(desk): State<Desk>) -> Result<Json<Health>, Refused> {
    Ok(Json(told(desk.standing())))
}

/// Whether its books can be read and written, as they could a moment ago
#[utoipa::path(get, path = "/readyz", responses((status = 200, description = "It can book", body = Health), Refused))]
async fn ready(State(desk): State<Desk>) -> Result<Json<Health>, Refused> {
    let standing = desk.standing();
    let now = Desk::now();
    let age = Duration::from_nanos(now.0.saturating_sub(standing.at.0));
    match &standing.why {
        Some(why) => Err(Refused::unavailable(why.clone())),
        None if age > STALE => Err(Refused::unavailable(format!(
            "nobody has looked after the books for {} s: see the log of the scheduler",
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

/// What is counted, for Prometheus
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "Counters and gauges", body = String, content_type = "application/openmetrics-text"), Refused))]
async fn metrics(State(desk): State<Desk>) -> Result<impl IntoResponse, Refused> {
    let page = desk.metrics().print(desk.seats().left());
    let page = page.map_err(|_| Refused::fault())?;
    Ok(([(CONTENT_TYPE, KIND)], page))
}

/// A scheduler looks after its books every second.
const STALE: Duration = Duration::from_secs(5);
const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
