//! Reservations of a scheduler, and its network.

use lighthaul_booking_client::client::{Client, Filter};
use lighthaul_booking_client::json::{Change, NewOutage, NewReservation, Timestamp};
use lighthaul_io::crypto::identity;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::events::Events;
use crate::rest::{Access, ask, client, follow, message};

/// Client of a scheduler.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Scheduler {
    client: Client,
}

#[pymethods]
impl Scheduler {
    #[new]
    fn new(py: Python<'_>, access: Access) -> PyResult<Self> {
        client(py, access).map(|client| Self { client })
    }

    /// Returns the grant that a request would get.
    fn quote(&self, py: Python<'_>, request: &str) -> PyResult<String> {
        let request: NewReservation = message(request)?;
        ask(py, &self.client, move |client| client.quote(&request))
    }

    /// Reserves capacity, and returns the reservation. A further call with the same key returns the same reservation.
    fn reserve(&self, py: Python<'_>, request: &str, key: Option<String>) -> PyResult<String> {
        let request: NewReservation = message(request)?;
        let key = key.unwrap_or_else(identity::token);
        ask(py, &self.client, move |client| {
            client.reserve_once(&request, &key)
        })
    }

    /// Returns a reservation.
    fn reservation(&self, py: Python<'_>, id: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| client.reservation(id))
    }

    /// Returns a page of reservations, after the number `after`.
    fn reservations(
        &self,
        py: Python<'_>,
        owner: Option<String>,
        state: Option<String>,
        after: Option<u64>,
    ) -> PyResult<String> {
        let filter = Filter { owner, state };
        ask(py, &self.client, move |client| {
            client.reservations(&filter, after)
        })
    }

    /// Returns the changes of reservations after `after`, or from now on, as they happen.
    fn events(&self, py: Python<'_>, after: Option<u64>) -> PyResult<Events> {
        follow(py, &self.client, move |client| {
            client.follow_reservations(after)
        })
    }

    /// Does `verb` with a reservation, and returns it.
    fn act(&self, py: Python<'_>, verb: &str, id: u64, why: String) -> PyResult<String> {
        let act = match verb {
            "commit" => Client::commit,
            "provision" => Client::provision,
            "release" => Client::release,
            "cancel" => Client::cancel,
            _ => return Err(PyValueError::new_err(format!("{verb} is no operation"))),
        };
        ask(py, &self.client, move |client| act(client, id, &why))
    }

    /// Extends or shrinks a reservation, and returns it.
    fn modify(&self, py: Python<'_>, id: u64, change: &str) -> PyResult<String> {
        let change: Change = message(change)?;
        ask(py, &self.client, move |client| {
            let before = client.reservation(id)?;
            if before.is_reduced_by(&change) {
                client.shrink(id, &change)
            } else {
                client.extend(id, &change)
            }
        })
    }

    /// Returns the nodes and links.
    fn topology(&self, py: Python<'_>) -> PyResult<String> {
        ask(py, &self.client, Client::topology)
    }

    /// Returns the free and the booked capacity of a link, between two times in nanoseconds since 1970.
    fn calendar(&self, py: Python<'_>, link: String, start: u64, end: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| {
            client.calendar(&link, Timestamp(start), Timestamp(end))
        })
    }

    /// Plans an outage, and returns it.
    fn plan_outage(&self, py: Python<'_>, outage: &str) -> PyResult<String> {
        let outage: NewOutage = message(outage)?;
        ask(py, &self.client, move |client| client.outage(&outage))
    }

    /// Returns the outages that have not ended.
    fn outages(&self, py: Python<'_>) -> PyResult<String> {
        ask(py, &self.client, Client::outages)
    }

    /// Cancels or ends an outage, and returns it.
    fn lift_outage(&self, py: Python<'_>, id: u64) -> PyResult<String> {
        ask(py, &self.client, move |client| client.lift(id))
    }

    /// Returns the nanoseconds by which the clock of the scheduler is ahead.
    fn clock_offset(&self, py: Python<'_>) -> PyResult<String> {
        ask(py, &self.client, |client| {
            client.clock_offset().map(|(ahead, _)| ahead)
        })
    }
}
