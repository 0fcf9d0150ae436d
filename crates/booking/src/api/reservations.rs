//! Reservations: made, listed, changed, called off.
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
use crate::word::{Change, NewReservation, Page, Quote, Reservation, Why};

type Answer<T> = Result<Json<T>, Refused>;

/// All that is done with reservations.
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

/// Reserve capacity, and hold it for a while, or commit at once with `commit`
#[utoipa::path(post, path = "/v1/reservations", request_body = NewReservation, params(
    ("Idempotency-Key" = Option<String>, Header, description = "The same key with the same request gets the same answer for 24 hours")
), responses((status = 201, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
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

/// The key of a request that may be sent again.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let Some(key) = headers.get("Idempotency-Key") else {
        return Ok(None);
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=KEY_MAX).contains(&key.len()));
    let wrong = || Refused::unreadable(&"an Idempotency-Key has 1 to 255 letters of ASCII");
    key.map(|key| Some(key.to_owned())).ok_or_else(wrong)
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// Of this owner; only operators may ask for others than their own
    owner: Option<String>,
    /// In this state, as in committed
    #[param(value_type = Option<String>)]
    state: Option<Life>,
    /// Behind this number
    after: Option<u64>,
    /// At most so many, up to 1000
    limit: Option<usize>,
}

/// List reservations, by their numbers
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
            "a limit is between 1 and {PAGE_MAX}"
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

/// Look at a reservation
#[utoipa::path(get, path = "/v1/reservations/{id}", params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
async fn look(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
) -> Answer<Reservation> {
    Ok(Json(desk.ask(move |books| books.get(&who, id)).await?))
}

/// Call a reservation off
#[utoipa::path(delete, path = "/v1/reservations/{id}", request_body = Option<Why>,
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
async fn cancel(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Why { why }): Said<Why>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("terminate {id}"), move |books, who| {
        books.terminate(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Take up what is held
#[utoipa::path(post, path = "/v1/reservations/{id}/commit", request_body = Option<Why>,
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
async fn commit(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Why { why }): Said<Why>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("commit {id}"), move |books, who| {
        books.commit(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Have its circuits made
#[utoipa::path(post, path = "/v1/reservations/{id}/provision", request_body = Option<Why>,
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
async fn provision(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Why { why }): Said<Why>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("provision {id}"), move |books, who| {
        books.provision(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Leave what is left of it to others
#[utoipa::path(post, path = "/v1/reservations/{id}/release", request_body = Option<Why>,
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
async fn release(
    State(desk): State<Desk>,
    Caller(who): Caller,
    Asked(Path(id)): Asked<Path<u64>>,
    Said(Why { why }): Said<Why>,
) -> Answer<Reservation> {
    let done = desk.change(who, format!("release {id}"), move |books, who| {
        books.release(who, id, &why)
    });
    Ok(Json(done.await?))
}

/// Make it larger, where what follows is free
#[utoipa::path(post, path = "/v1/reservations/{id}/extend", request_body = Change,
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
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

/// Make it smaller
#[utoipa::path(post, path = "/v1/reservations/{id}/shrink", request_body = Change,
    params(("id" = u64, Path, description = "Its number")),
    responses((status = 200, description = "The reservation as it is now", body = Reservation), Refused), security(("bearer" = [])))]
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

/// Ask what a request would be given; nothing is booked
#[utoipa::path(post, path = "/v1/quotes", request_body = NewReservation,
    responses((status = 200, description = "What would be granted", body = Quote), Refused), security(("bearer" = [])))]
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
