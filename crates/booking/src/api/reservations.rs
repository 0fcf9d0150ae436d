//! Reservations: creation, lists, changes and cancellation.
#![expect(unused_qualifications, reason = "utoipa names parameters so")]

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use lighthaul_circuit::reservation::State as Life;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, Said};
use super::caller::Caller;
use super::desk::Desk;
use super::refused::Refused;
use crate::books::Filter;
use crate::json::{Change, NewReservation, Page, Quote, Reason, Reservation};

type Answer<T> = Result<Json<T>, Refused>;

/// Returns the routes of reservations.
pub(crate) fn router() -> OpenApiRouter<Desk> {
    OpenApiRouter::new()
        .routes(routes!(reserve, list))
        .routes(routes!(look, cancel))
        .routes(routes!(commit))
        .routes(routes!(provision))
        .routes(routes!(release))
        .routes(routes!(extend))
        .routes(routes!(shrink))
        .routes(routes!(quote))
}

/// Reserve capacity and hold it until the commit, or commit at once with `commit`
#[utoipa::path(post, path = "/v1/reservations", request_body = NewReservation, params(
    ("Idempotency-Key" = Option<String>, Header, description = "Key of the request; a repeated request with the same key gets the same response for 24 hours")
), responses((status = 201, description = "The reservation", body = Reservation), Refused), security(("bearer" = [])))]
async fn reserve(
    State(desk): State<Desk>,
    Caller(who): Caller,
    headers: HeaderMap,
    Said(request): Said<NewReservation>,
) -> Result<(StatusCode, Json<Reservation>), Refused> {
    let key = idempotency_key(&headers)?;
    let made = desk.change(who, "reserve".to_owned(), move |books, who| {
        books.reserve(who, &request, key.as_deref())
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Returns the idempotency key of a request, if any.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let Some(key) = headers.get("Idempotency-Key") else {
        return Ok(None);
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=KEY_MAX).contains(&key.len()));
    let wrong = || Refused::unreadable(&"Idempotency-Key must have 1 to 255 ASCII characters");
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Owner of the reservations; only operators may list those of others
    owner: Option<String>,
    /// State of the reservations, as in committed
    #[param(value_type = Option<String>)]
    state: Option<Life>,
    /// Number after which the list begins
    after: Option<u64>,
    /// Maximum number of items, up to 1000 [default: 100]
    limit: Option<usize>,
}

/// List reservations in the order of their numbers
#[utoipa::path(get, path = "/v1/reservations", operation_id = "list_reservations", params(Wanted),
    responses((status = 200, description = "A part of the list", body = Page<Reservation>), Refused), security(("bearer" = [])))]
async fn list(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Query(wanted)): Asked<Query<Wanted>>,
) -> Answer<Page<Reservation>> {
    let limit = wanted.limit.unwrap_or(100);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Refused::unreadable(&format!(
            "limit must be between 1 and {PAGE_MAX}"
        )));
    }
    let filter = Filter {
        owner: wanted.owner,
        state: wanted.state,
    };
    let part = (wanted.after.unwrap_or(0), limit);
    let page = desk.ask(move |books| books.list(&who, &filter, part));
    Ok(Json(page.await?))
}

/// Get a reservation
#[utoipa::path(get, path = "/v1/reservations/{id}", params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation", body = Reservation), Refused), security(("bearer" = [])))]
async fn look(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
) -> Answer<Reservation> {
    Ok(Json(desk.ask(move |books| books.get(&who, id)).await?))
}

/// Cancel a reservation
#[utoipa::path(delete, path = "/v1/reservations/{id}", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), Refused), security(("bearer" = [])))]
async fn cancel(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Reason { why }): Said<Reason>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("terminate {id}"), move |books, who| {
        books.terminate(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Commit a reservation that is held
#[utoipa::path(post, path = "/v1/reservations/{id}/commit", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), Refused), security(("bearer" = [])))]
async fn commit(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Reason { why }): Said<Reason>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("commit {id}"), move |books, who| {
        books.commit(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Provision the circuit of a reservation
#[utoipa::path(post, path = "/v1/reservations/{id}/provision", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), Refused), security(("bearer" = [])))]
async fn provision(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Reason { why }): Said<Reason>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("provision {id}"), move |books, who| {
        books.provision(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Release the rest of a reservation
#[utoipa::path(post, path = "/v1/reservations/{id}/release", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), Refused), security(("bearer" = [])))]
async fn release(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Reason { why }): Said<Reason>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("release {id}"), move |books, who| {
        books.release(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Extend a reservation, if the time after it is free
#[utoipa::path(post, path = "/v1/reservations/{id}/extend", request_body = Change,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), Refused), security(("bearer" = [])))]
async fn extend(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(change): Said<Change>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("extend {id}"), move |books, who| {
        books.extend(who, id, &change)
    });
    Ok(Json(done.await?))
}

/// Shrink a reservation
#[utoipa::path(post, path = "/v1/reservations/{id}/shrink", request_body = Change,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), Refused), security(("bearer" = [])))]
async fn shrink(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(change): Said<Change>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("shrink {id}"), move |books, who| {
        books.shrink(who, id, &change)
    });
    Ok(Json(done.await?))
}

/// Get the grant that a request would receive, without booking it
#[utoipa::path(post, path = "/v1/quotes", request_body = NewReservation,
    responses((status = 200, description = "The grant", body = Quote), Refused), security(("bearer" = [])))]
async fn quote(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Said(request): Said<NewReservation>,
) -> Answer<Quote> {
    Ok(Json(
        desk.ask(move |books| books.quote(&who, &request)).await?,
    ))
}

const KEY_MAX: usize = 255;
const PAGE_MAX: usize = 1000;
