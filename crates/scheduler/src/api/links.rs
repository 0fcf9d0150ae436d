//! Topology, and calendars of links.
#![expect(unused_qualifications, reason = "utoipa needs these names")]

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use lighthaul_booking::books::Books;
use lighthaul_booking_client::json::{CalendarView, LinkView, Timestamp, TopologyView};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::ApiError;
use super::authenticated::Authenticated;
use super::extract::FromHead;
use super::state::ApiState;

/// Returns the routes of links.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(topology))
        .routes(routes!(links))
        .routes(routes!(calendar))
}

/// Get hosts, switches and links
#[utoipa::path(get, path = "/v1/topology", responses((status = 200, description = "The topology", body = TopologyView), ApiError),
    security(("bearer" = [])))]
async fn topology(
    State(state): State<ApiState>,
    Authenticated(_): Authenticated,
) -> Result<Json<TopologyView>, ApiError> {
    Ok(Json(state.with_books(Books::topology).await?))
}

/// List links
#[utoipa::path(get, path = "/v1/links", responses((status = 200, description = "The links", body = Vec<LinkView>), ApiError),
    security(("bearer" = [])))]
async fn links(
    State(state): State<ApiState>,
    Authenticated(_): Authenticated,
) -> Result<Json<Vec<LinkView>>, ApiError> {
    Ok(Json(
        state
            .with_books(|books| Ok(books.topology()?.links))
            .await?,
    ))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RangeQuery {
    /// Start [default: now]
    #[param(value_type = Option<String>)]
    from: Option<Timestamp>,
    /// End [default: a day after the start]
    #[param(value_type = Option<String>)]
    till: Option<Timestamp>,
}

/// Get the free and the booked capacity of a link
#[utoipa::path(get, path = "/v1/links/{name}/calendar", params(("name" = String, Path, description = "Name of the link"), RangeQuery),
    responses((status = 200, description = "Free and booked capacity", body = CalendarView), ApiError), security(("bearer" = [])))]
async fn calendar(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(name)): FromHead<Path<String>>,
    FromHead(Query(window)): FromHead<Query<RangeQuery>>,
) -> Result<Json<CalendarView>, ApiError> {
    let from = window.from.unwrap_or_else(ApiState::now);
    let till = window.till.unwrap_or_else(|| (from.instant() + DAY).into());
    let view = state.with_books(move |books| books.calendar(&principal, &name, (from, till)));
    Ok(Json(view.await?))
}

const DAY: Duration = Duration::from_hours(24);
