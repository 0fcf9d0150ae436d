//! Routes of jobs: submission, lists, history, logs, cancellation and retries.
//!
//! Changes take an `Idempotency-Key`, as submission of reservations does. Every requested change is written to the audit log.
#![expect(unused_qualifications, reason = "utoipa needs these names")]

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use lighthaul_booking_client::json::{
    JobEventView, JobLogPiece, JobPage, JobStatus, JobView, NewJob,
};
use serde::{Deserialize, Deserializer, de};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::{ApiError, InvalidInput};
use super::authenticated::Authenticated;
use super::extract::{FromHead, JsonBody, idempotency_key, page_limit, whole_number};
use super::state::ApiState;
use crate::jobs::desk::JobFilter;

type Answer<T> = Result<Json<T>, ApiError>;

/// Returns the routes of jobs.
pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(submit, list))
        .routes(routes!(look))
        .routes(routes!(events))
        .routes(routes!(log))
        .routes(routes!(cancel))
        .routes(routes!(retry))
}

/// Queue a copy, which a worker runs
#[utoipa::path(post, path = "/v1/jobs", operation_id = "submit_job", request_body = NewJob, params(
    ("Idempotency-Key" = Option<String>, Header, description = "Key of the request; a repeated request with the same key gets the same job for 24 hours")
), responses((status = 201, description = "The job", body = JobView), ApiError), security(("bearer" = [])))]
async fn submit(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    headers: HeaderMap,
    JsonBody(new): JsonBody<NewJob>,
) -> Result<(StatusCode, Json<JobView>), ApiError> {
    let key = idempotency_key(&headers)?;
    let made = state.change_job(principal, "submit".to_owned(), move |desk, books, by| {
        desk.submit(by, &books.policy_of(&by.name), &new, key)
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct JobQuery {
    /// Owner of the jobs; only operators may list those of others
    owner: Option<String>,
    /// States of the jobs, as in waiting,queued [default: all]
    #[param(value_type = Option<String>)]
    #[serde(deserialize_with = "states")]
    state: Vec<JobStatus>,
    /// Number before which the list begins
    #[serde(deserialize_with = "whole_number")]
    before: Option<u64>,
    /// Maximum number of items, up to 1000 [default: 100]
    #[serde(deserialize_with = "whole_number")]
    limit: Option<u64>,
}

/// Reads names of states that commas separate.
fn states<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<JobStatus>, D::Error> {
    let names = String::deserialize(from)?;
    let state = |name: &str| {
        let found = JobStatus::ALL
            .into_iter()
            .find(|state| state.name() == name);
        found.ok_or_else(|| de::Error::custom(InvalidInput::JobState(name.to_owned())))
    };
    names.split(',').map(state).collect()
}

/// List jobs, the newest first
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs", params(JobQuery),
    responses((status = 200, description = "A part of the list", body = JobPage), ApiError), security(("bearer" = [])))]
async fn list(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Query(query)): FromHead<Query<JobQuery>>,
) -> Answer<JobPage> {
    let filter = JobFilter {
        limit: page_limit(query.limit)?,
        owner: query.owner,
        states: query.state,
        before: query.before,
    };
    let page = state.with_jobs(move |desk| desk.list(&principal, &filter));
    Ok(Json(page.await?))
}

/// Get a job
#[utoipa::path(get, path = "/v1/jobs/{id}", operation_id = "get_job", params(("id" = u64, Path, description = "Number of the job")),
    responses((status = 200, description = "The job", body = JobView), ApiError), security(("bearer" = [])))]
async fn look(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
) -> Answer<JobView> {
    let job = state.with_jobs(move |desk| desk.job(&principal, id));
    Ok(Json(job.await?))
}

/// Get the history of a job, the oldest event first
#[utoipa::path(get, path = "/v1/jobs/{id}/events", operation_id = "get_job_events", params(("id" = u64, Path, description = "Number of the job")),
    responses((status = 200, description = "The events", body = Vec<JobEventView>), ApiError), security(("bearer" = [])))]
async fn events(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
) -> Answer<Vec<JobEventView>> {
    let events = state.with_jobs(move |desk| desk.events(&principal, id));
    Ok(Json(events.await?))
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct LogQuery {
    /// Attempt of the last piece that the client has [default: 0]
    #[serde(deserialize_with = "whole_number")]
    attempt: Option<u64>,
    /// Number of that piece within the attempt [default: 0]
    #[serde(deserialize_with = "whole_number")]
    after: Option<u64>,
}

/// Get the next pieces of a job's log; none if there are no more now
#[utoipa::path(get, path = "/v1/jobs/{id}/log", operation_id = "get_job_log", params(("id" = u64, Path, description = "Number of the job"), LogQuery),
    responses((status = 200, description = "The pieces in their order", body = Vec<JobLogPiece>), ApiError), security(("bearer" = [])))]
async fn log(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
    FromHead(Query(query)): FromHead<Query<LogQuery>>,
) -> Answer<Vec<JobLogPiece>> {
    let attempt = query.attempt.unwrap_or(0);
    let wrong = |_| ApiError::unreadable(&InvalidInput::Number(attempt.to_string()));
    let after = (
        u32::try_from(attempt).map_err(wrong)?,
        query.after.unwrap_or(0),
    );
    let pieces = state.with_jobs(move |desk| desk.log(&principal, id, after));
    Ok(Json(pieces.await?))
}

/// Cancel a job; a running copy stops, and keeps what has arrived
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", operation_id = "cancel_job", params(
    ("id" = u64, Path, description = "Number of the job"),
    ("Idempotency-Key" = Option<String>, Header, description = "Key of the request; for 24 hours, a repeated request with the same key changes nothing")
),
    responses((status = 200, description = "The job after the change", body = JobView), ApiError), security(("bearer" = [])))]
async fn cancel(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
    headers: HeaderMap,
) -> Answer<JobView> {
    let key = idempotency_key(&headers)?;
    let action = format!("cancel job {id}");
    let done = state.change_job(principal, action, move |desk, _, by| {
        desk.cancel(by, id, key.as_deref())
    });
    Ok(Json(done.await?))
}

/// Queue a failed or canceled job again
#[utoipa::path(post, path = "/v1/jobs/{id}/retry", operation_id = "retry_job", params(
    ("id" = u64, Path, description = "Number of the job"),
    ("Idempotency-Key" = Option<String>, Header, description = "Key of the request; for 24 hours, a repeated request with the same key changes nothing")
),
    responses((status = 200, description = "The job after the change", body = JobView), ApiError), security(("bearer" = [])))]
async fn retry(
    State(state): State<ApiState>,
    Authenticated(principal): Authenticated,
    FromHead(Path(id)): FromHead<Path<u64>>,
    headers: HeaderMap,
) -> Answer<JobView> {
    let key = idempotency_key(&headers)?;
    let action = format!("retry job {id}");
    let done = state.change_job(principal, action, move |desk, books, by| {
        desk.retry(by, &books.policy_of(&by.name), id, key.as_deref())
    });
    Ok(Json(done.await?))
}
