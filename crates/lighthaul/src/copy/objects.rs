//! Copies with object stores.

use lighthaul_copy::watch::Summary;
use lighthaul_objects::copy::{ObjectCopy, copy};
use lighthaul_objects::fault::Fault;
use lighthaul_remote::place::Place;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::retry;
use crate::request::CopyRequest;

/// Returns true if a place of the request is in an object store.
pub(crate) fn is_used(request: &CopyRequest) -> bool {
    let mut places = request.sources.iter().chain([&request.target]);
    places.any(|place| matches!(place, Place::Object { .. }))
}

/// Makes the copy. Each of its requests is retried by itself.
pub(crate) fn run(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    check(job)?;
    let request = &job.request;
    let mut options = request.options.clone();
    options.listed = request.list.is_some();
    let mut once = job.clone();
    once.request.retries = 0;
    retry::run_each(&once, reporter, |reporter| {
        let asked = ObjectCopy {
            sources: &request.sources,
            target: &request.target,
            exact: request.exact,
            options: &options,
            retries: request.retries,
            redirects: request.redirects,
        };
        copy(asked, job.names()?, &mut |event| reporter.watch(event))
    })
}

/// Refuses settings of the way to another host.
fn check(job: &Job) -> Result<(), Error> {
    let (request, route) = (&job.request, job.route());
    let refused = [
        (request.rate.is_some(), "a rate (--rate)"),
        (request.limit.is_some(), "a rate limit (--limit)"),
        (request.plain, "unencrypted data (--plain)"),
        (request.booking.is_some(), "a reservation (--book)"),
        (route.gateway.is_some(), "a gateway (--gateway)"),
    ];
    match refused.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, name)) => Err(Fault::Option(name).into()),
        None => Ok(()),
    }
}
