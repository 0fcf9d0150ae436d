//! Outages of links.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, Said};
use super::caller::Caller;
use super::desk::Desk;
use super::refused::Refused;
use crate::books::Books;
use crate::json::{NewOutage, OutageView};

/// Returns the routes of outages.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(plan, list))
        .routes(routes!(lift))
}

/// Plan an outage of a link; affected reservations are moved or fail
#[utoipa::path(post, path = "/v1/outages", request_body = NewOutage,
    responses((status = 201, description = "The outage and the affected reservations", body = OutageView), Refused), security(("bearer" = [])))]
async fn plan(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Said(outage): Said<NewOutage>,
) -> Result<(StatusCode, Json<OutageView>), Refused> {
    let what = format!("outage of {}", outage.link);
    let made = desk.change(who, what, move |books, who| books.outage(who, &outage));
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// List outages that have not ended
#[utoipa::path(get, path = "/v1/outages", operation_id = "list_outages", responses((status = 200, description = "The outages", body = Vec<OutageView>), Refused),
    security(("bearer" = [])))]
async fn list(
    State(desk): State<Desk>,
    Caller(_): Caller,
) -> Result<Json<Vec<OutageView>>, Refused> {
    Ok(Json(desk.ask(Books::outages).await?))
}

/// Cancel or end an outage
#[utoipa::path(delete, path = "/v1/outages/{id}",
    params(("id" = u64, Path, description = "Number of the outage")),
    responses((status = 200, description = "The outage and the affected reservations", body = OutageView), Refused), security(("bearer" = [])))]
async fn lift(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
) -> Result<Json<OutageView>, Refused> {
    let what = format!("lift outage {id}");
    let lifted = desk.change(who, what, move |books, who| books.lift(who, id));
    Ok(Json(lifted.await?))
}
