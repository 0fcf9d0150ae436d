//! Routes of reservations: creation, lists, changes and cancellation.
//!
//! Each route checks the form of its request, and the books decide the rest. Creation takes an
//! `Idempotency-Key`, so a client can repeat it after a lost response. Every requested change is
//! written to the audit log with its outcome.
#![expect(unused_qualifications, reason = "utoipa needs these names")]

use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use lighthaul_booking::Result as BooksResult;
use lighthaul_booking::books::{Books, Filter, Principal};
use lighthaul_booking_client::json::{Change, NewReservation, Page, Quote, Reason, Reservation};
use lighthaul_booking_client::reservation::ReservationState as Life;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::ApiError;
use super::authenticated::Authenticated;
use super::extract::{FromHead, JsonBody, idempotency_key, page_limit, whole_number};
use super::state::ApiState;

type Answer<T> = Result<Json<T>, ApiError>;

/// Returns the routes of reservations.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
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
), responses((status = 201, description = "The reservation", body = Reservation), ApiError), security(("bearer" = [])))]
async fn reserve(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    headers: HeaderMap,
    JsonBody(request): JsonBody<NewReservation>,
) -> Result<(StatusCode, Json<Reservation>), ApiError> {
    let key = idempotency_key(&headers)?;
    let made = state.change(principal, "reserve".to_owned(), move |books, principal| {
        books.reserve(principal, &request, key.as_deref())
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Owner of the reservations; only operators may list those of others
    owner: Option<String>,
    /// State of the reservations, as in committed
    #[param(value_type = Option<String>)]
    state: Option<Life>,
    /// Number after which the list begins
    #[serde(deserialize_with = "whole_number")]
    after: Option<u64>,
    /// Maximum number of items, up to 1000 [default: 100]
    #[serde(deserialize_with = "whole_number")]
    limit: Option<u64>,
}

/// List reservations in the order of their numbers
#[utoipa::path(get, path = "/v1/reservations", operation_id = "list_reservations", params(ListQuery),
    responses((status = 200, description = "A part of the list", body = Page<Reservation>), ApiError), security(("bearer" = [])))]
async fn list(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Query(query)): FromHead<Query<ListQuery>>,
) -> Answer<Page<Reservation>> {
    let limit = page_limit(query.limit)?;
    let filter = Filter {
        owner: query.owner,
        state: query.state,
    };
    let part = (query.after.unwrap_or(0), limit);
    let page = state.with_books(move |books| books.list(&principal, &filter, part));
    Ok(Json(page.await?))
}

/// Get a reservation
#[utoipa::path(get, path = "/v1/reservations/{id}", params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation", body = Reservation), ApiError), security(("bearer" = [])))]
async fn look(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
) -> Answer<Reservation> {
    Ok(Json(
        state
            .with_books(move |books| books.get(&principal, id))
            .await?,
    ))
}

/// Requested change of one reservation.
#[derive(Debug)]
struct ReservationChange<T> {
    state: ApiState,
    principal: Principal,
    id: u64,
    body: T,
}

impl<T: DeserializeOwned> FromRequest<ApiState> for ReservationChange<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (mut parts, body) = request.into_parts();
        let Authenticated(principal) = Authenticated::from_request_parts(&mut parts, state).await?;
        let FromHead(Path(id)) = FromHead::from_request_parts(&mut parts, state).await?;
        let request = Request::from_parts(parts, body);
        let JsonBody(body) = JsonBody::from_request(request, state).await?;
        Ok(Self {
            state: state.clone(),
            principal,
            id,
            body,
        })
    }
}

impl<T: Send + 'static> ReservationChange<T> {
    /// Makes the change with `work`, and writes `verb` to the audit log.
    async fn apply(
        self,
        verb: &str,
        work: impl FnOnce(&Books, &Principal, u64, &T) -> BooksResult<Reservation> + Send + 'static,
    ) -> Answer<Reservation> {
        let Self {
            state,
            principal,
            id,
            body,
        } = self;
        let action = format!("{verb} {id}");
        let done = state.change(principal, action, move |books, principal| {
            work(books, principal, id, &body)
        });
        Ok(Json(done.await?))
    }
}

/// Cancel a reservation
#[utoipa::path(delete, path = "/v1/reservations/{id}", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), ApiError), security(("bearer" = [])))]
async fn cancel(request: ReservationChange<Reason>) -> Answer<Reservation> {
    let change = request.apply("terminate", |books, principal, id, Reason { why }| {
        books.terminate(principal, id, why)
    });
    change.await
}

/// Commit a reservation that is held
#[utoipa::path(post, path = "/v1/reservations/{id}/commit", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), ApiError), security(("bearer" = [])))]
async fn commit(request: ReservationChange<Reason>) -> Answer<Reservation> {
    let change = request.apply("commit", |books, principal, id, Reason { why }| {
        books.commit(principal, id, why)
    });
    change.await
}

/// Provision the circuit of a reservation
#[utoipa::path(post, path = "/v1/reservations/{id}/provision", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), ApiError), security(("bearer" = [])))]
async fn provision(request: ReservationChange<Reason>) -> Answer<Reservation> {
    let change = request.apply("provision", |books, principal, id, Reason { why }| {
        books.provision(principal, id, why)
    });
    change.await
}

/// Release the rest of a reservation
#[utoipa::path(post, path = "/v1/reservations/{id}/release", request_body = Option<Reason>,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), ApiError), security(("bearer" = [])))]
async fn release(request: ReservationChange<Reason>) -> Answer<Reservation> {
    let change = request.apply("release", |books, principal, id, Reason { why }| {
        books.release(principal, id, why)
    });
    change.await
}

/// Extend a reservation, if the time after it is free
#[utoipa::path(post, path = "/v1/reservations/{id}/extend", request_body = Change,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), ApiError), security(("bearer" = [])))]
async fn extend(request: ReservationChange<Change>) -> Answer<Reservation> {
    request.apply("extend", Books::extend).await
}

/// Shrink a reservation
#[utoipa::path(post, path = "/v1/reservations/{id}/shrink", request_body = Change,
    params(("id" = u64, Path, description = "Number of the reservation")),
    responses((status = 200, description = "The reservation after the change", body = Reservation), ApiError), security(("bearer" = [])))]
async fn shrink(request: ReservationChange<Change>) -> Answer<Reservation> {
    request.apply("shrink", Books::shrink).await
}

/// Get the grant that a request would receive, without booking it
#[utoipa::path(post, path = "/v1/quotes", request_body = NewReservation,
    responses((status = 200, description = "The grant", body = Quote), ApiError), security(("bearer" = [])))]
async fn quote(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    JsonBody(request): JsonBody<NewReservation>,
) -> Answer<Quote> {
    Ok(Json(
        state
            .with_books(move |books| books.quote(&principal, &request))
            .await?,
    ))
}
