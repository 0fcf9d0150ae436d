//! What is asked by machines that look after the service.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::desk::Desk;
use super::refused::Refused;
use crate::books::Books;
use crate::store::Writer;
use crate::word::Health;

/// What anybody may ask.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(metrics))
}

/// How it is, and what time it is there
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "It answers", body = Health), Refused))]
async fn health(State(desk): State<Desk>) -> Result<Json<Health>, Refused> {
    let writer = match desk.ask(Books::writer).await? {
        Writer::Here => None,
        Writer::At(url) => Some(url),
    };
    Ok(Json(Health {
        now: Desk::now(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        writer,
    }))
}

/// What is counted, for Prometheus
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "Counters and gauges", body = String, content_type = "application/openmetrics-text"), Refused))]
async fn metrics(State(desk): State<Desk>) -> Result<impl IntoResponse, Refused> {
    let page = desk.metrics().print(desk.seats().left());
    let page = page.map_err(|_| Refused::fault())?;
    Ok(([(CONTENT_TYPE, KIND)], page))
}

const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
