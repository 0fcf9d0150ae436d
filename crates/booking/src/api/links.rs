//! Topology, and calendars of links.
#![expect(unused_qualifications, reason = "utoipa names parameters so")]

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::Asked;
use super::caller::Caller;
use super::desk::Desk;
use super::refused::Refused;
use crate::books::Books;
use crate::json::{CalendarView, LinkView, Timestamp, TopologyView};

/// Returns the routes of links.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(topology))
        .routes(routes!(links))
        .routes(routes!(calendar))
}

/// Get hosts, switches and links
#[utoipa::path(get, path = "/v1/topology", responses((status = 200, description = "The topology", body = TopologyView), Refused),
    security(("bearer" = [])))]
async fn topology(
    State(desk): State<Desk>,
    Caller(_): Caller,
) -> Result<Json<TopologyView>, Refused> {
    Ok(Json(desk.ask(Books::topology).await?))
}

/// List links
#[utoipa::path(get, path = "/v1/links", responses((status = 200, description = "The links", body = Vec<LinkView>), Refused),
    security(("bearer" = [])))]
async fn links(
    State(desk): State<Desk>,
    Caller(_): Caller,
) -> Result<Json<Vec<LinkView>>, Refused> {
    Ok(Json(desk.ask(|books| Ok(books.topology()?.links)).await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Window {
    /// Start [default: now]
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// End [default: a day after the start]
    #[param(value_type = Option<String>)]
    till: Option<Timestamp>,
}

/// Get the free and the booked capacity of a link
#[utoipa::path(get, path = "/v1/links/{name}/calendar", params(("name" = String, Path, description = "Name of the link"), Window),
    responses((status = 200, description = "Free and booked capacity", body = CalendarView), Refused), security(("bearer" = [])))]
async fn calendar(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(name)): Asked<Path<String>>,
    Asked(Query(window)): Asked<Query<Window>>,
) -> Result<Json<CalendarView>, Refused> {
    let from = window.from.unwrap_or_else(Desk::now);
    let till = window.till.unwrap_or_else(|| (from.instant() + DAY).into());
    let view = desk.ask(move |books| books.calendar(&who, &name, (from, till)));
    Ok(Json(view.await?))
}

const DAY: Duration = Duration::from_hours(24);
