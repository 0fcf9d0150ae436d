//! Requests to a scheduler over its REST interface. Answers are JSON, which the package reads.

use std::path::PathBuf;

use lighthaul::Error;
use lighthaul_booking_client::client::{Client, ClientError};
use lighthaul_booking_client::events::Events as Incoming;
use lighthaul_remote::scheduler::{Scheduler, failed, reach};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::events::Events;
use crate::work::interruptible;

/// URL of a scheduler, and the credentials for it.
#[derive(Debug, FromPyObject)]
pub(crate) struct Access(String, Option<PathBuf>, Option<String>, Option<PathBuf>);

/// Returns a client of the scheduler.
pub(crate) fn client(py: Python<'_>, access: Access) -> PyResult<Client> {
    let Access(url, token_file, pin, known_hosts) = access;
    let scheduler = Scheduler {
        url,
        token_file,
        pin,
        known_hosts,
    };
    interruptible(py, move || reach(&scheduler))
}

/// Sends a request, and returns the answer as JSON.
pub(crate) fn ask<T: Serialize + Send + 'static>(
    py: Python<'_>,
    client: &Client,
    request: impl FnOnce(&Client) -> Result<T, ClientError> + Send + 'static,
) -> PyResult<String> {
    let client = client.clone();
    interruptible(py, move || {
        let answer = request(&client).map_err(failed)?;
        Ok::<_, Error>(serde_json::to_string(&answer).unwrap_or_default())
    })
}

/// Starts to follow events.
pub(crate) fn follow<T: Serialize + Send + 'static>(
    py: Python<'_>,
    client: &Client,
    start: impl FnOnce(&Client) -> Result<Incoming<T>, ClientError> + Send + 'static,
) -> PyResult<Events> {
    let client = client.clone();
    interruptible(py, move || start(&client).map_err(failed)).map(Events::new)
}

/// Reads a message that the program has put together.
pub(crate) fn message<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|why| PyValueError::new_err(why.to_string()))
}
