//! Outages of links.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use lighthaul_booking::books::Books;
use lighthaul_booking_client::json::{NewOutage, OutageView};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::ApiError;
use super::authenticated::Authenticated;
use super::extract::{FromHead, JsonBody};
use super::state::ApiState;

/// Returns the routes of outages.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(plan, list))
        .routes(routes!(lift))
}

/// Plan an outage of a link; affected reservations are moved or fail
#[utoipa::path(post, path = "/v1/outages", request_body = NewOutage,
    responses((status = 201, description = "The outage and the affected reservations", body = OutageView), ApiError), security(("bearer" = [])))]
async fn plan(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    JsonBody(outage): JsonBody<NewOutage>,
) -> Result<(StatusCode, Json<OutageView>), ApiError> {
    let what = format!("outage of {}", outage.link);
    let made = state.change(principal, what, move |books, principal| {
        books.outage(principal, &outage)
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// List outages that have not ended
#[utoipa::path(get, path = "/v1/outages", operation_id = "list_outages", responses((status = 200, description = "The outages", body = Vec<OutageView>), ApiError),
    security(("bearer" = [])))]
async fn list(
    State(state): State<ApiState>,
    Authenticated(_): Authenticated,
) -> Result<Json<Vec<OutageView>>, ApiError> {
    Ok(Json(state.with_books(Books::outages).await?))
}

/// Cancel or end an outage
#[utoipa::path(delete, path = "/v1/outages/{id}",
    params(("id" = u64, Path, description = "Number of the outage")),
    responses((status = 200, description = "The outage and the affected reservations", body = OutageView), ApiError), security(("bearer" = [])))]
async fn lift(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
) -> Result<Json<OutageView>, ApiError> {
    let what = format!("lift outage {id}");
    let lifted = state.change(principal, what, move |books, principal| {
        books.lift(principal, id)
    });
    Ok(Json(lifted.await?))
}
