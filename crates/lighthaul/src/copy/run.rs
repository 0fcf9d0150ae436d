//! A copy with all its attempts, on booked capacity if any.

use lighthaul_copy::watch::Summary;
use lighthaul_session::error::Error;

use crate::copy::job::Job;
use crate::copy::reporter::Reporter;
use crate::copy::{circuit, gateway, lightpath, objects, retry, striped};
use crate::request::Network;

/// Makes the copy, on a circuit or path if the request books one. A dry run books nothing.
pub(crate) fn run(job: &Job, reporter: &mut Reporter<'_>) -> Result<Summary, Error> {
    job.request.options.check()?;
    if objects::is_used(&job.request) {
        return objects::run(job, reporter);
    }
    gateway::check(&job.request, &job.settings)?;
    if job.request.is_striped() {
        return striped::run::run(job, reporter);
    }
    let booking = job.request.booking.as_ref();
    match booking.filter(|_| job.request.options.dry_run.is_none()) {
        None => retry::run(job, reporter),
        Some(booking) => match &booking.from {
            Network::Circuit(interface) => {
                circuit::run(job, (booking, interface.as_deref()), reporter)
            }
            Network::Path(socket) => lightpath::run(job, (booking, socket.as_deref()), reporter),
        },
    }
}
