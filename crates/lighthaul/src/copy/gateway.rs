//! Copies through a gateway.

use lighthaul_session::error::Error;
use lighthaul_session::protocol::Protocol;

use crate::copy::reporter::Reporter;
use crate::fault::Fault;
use crate::request::{Booking, CopyRequest, Network};
use crate::settings::Settings;

/// Refuses options that need datagrams for a copy through a gateway.
pub(crate) fn check(request: &CopyRequest, settings: &Settings) -> Result<(), Error> {
    protocol(request, settings).map(drop)
}

/// Returns the protocol of a copy through a gateway: one TCP connection, or several with a number of streams. The
/// gateways repair loss, so that one is as fast as several.
pub(crate) fn protocol(
    request: &CopyRequest,
    settings: &Settings,
) -> Result<Option<Protocol>, Error> {
    if settings.route.gateway.is_none() {
        return Ok(None);
    }
    let options = &request.options;
    let is_circuit = |booking: &Booking| matches!(booking.from, Network::Circuit(_));
    if !options.trc.is_empty() || request.booking.as_ref().is_some_and(is_circuit) {
        return Err(Fault::CircuitThroughGateway.into());
    }
    match Protocol::named(&options.protocol) {
        Some(asked) if asked.is_datagrams() => Err(Fault::DatagramsThroughGateway(asked).into()),
        Some(asked) => Ok(Some(asked)),
        None if options.streams > 0 => Ok(Some(Protocol::Ptcp)),
        None => Ok(Some(Protocol::Tcp)),
    }
}

/// Reports the protocol of a copy through a gateway.
pub(crate) fn tell(
    request: &CopyRequest,
    settings: &Settings,
    reporter: &mut Reporter<'_>,
) -> Result<(), Error> {
    if let (Some(protocol), Some(gateway)) = (protocol(request, settings)?, &settings.route.gateway)
    {
        let why = format!("{protocol} carries the data, through the gateway at {gateway}");
        reporter.route(protocol.name(), why);
    }
    Ok(())
}
