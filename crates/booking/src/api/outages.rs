//! Times in which links are out.

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
use crate::word::{NewOutage, OutageView};

/// All that is done with outages.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(plan, list))
        .routes(routes!(lift))
}

/// Say that a link is out for a while; what was booked then moves or fails
#[utoipa::path(post, path = "/v1/outages", request_body = NewOutage,
    responses((status = 201, description = "The outage, and what it did", body = OutageView), Refused), security(("bearer" = [])))]
async fn plan(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Said(outage): Said<NewOutage>,
) -> Result<(StatusCode, Json<OutageView>), Refused> {
    let what = format!("outage of {}", outage.link);
    let made = desk.change(who, what, move |books, who| books.outage(who, &outage));
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// The outages that are not over
#[utoipa::path(get, path = "/v1/outages", operation_id = "list_outages", responses((status = 200, description = "All of them", body = Vec<OutageView>), Refused),
    security(("bearer" = [])))]
async fn list(
    State(desk): State<Desk>,
    Caller(_): Caller,
) -> Result<Json<Vec<OutageView>>, Refused> {
    Ok(Json(desk.ask(Books::outages).await?))
}

/// Say that it is not
#[utoipa::path(delete, path = "/v1/outages/{id}",
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The outage, and what it did", body = OutageView), Refused), security(("bearer" = [])))]
async fn lift(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
) -> Result<Json<OutageView>, Refused> {
    let what = format!("lift outage {id}");
    let lifted = desk.change(who, what, move |books, who| books.lift(who, id));
    Ok(Json(lifted.await?))
}
