//! Address of the metrics of a service.

use std::io;
use std::net::SocketAddr;

use lighthaul_session::error::Error;
use tracing::info;

use crate::error::Fault;

/// Logs the address of the metrics, or the failure to serve metrics at `address`.
pub fn tell_metrics(address: SocketAddr, at: io::Result<SocketAddr>) -> Result<(), Error> {
    let at = at.map_err(|error| Fault::Metrics { address, error })?;
    info!("metrics at http://{at}/metrics");
    Ok(())
}
