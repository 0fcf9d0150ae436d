//! Copies at the rates of a vector, whose time may pass before all data have arrived.

use std::time::Duration;

use lighthaul_base::Trc;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_copy::watch::Summary;
use lighthaul_grammar::copy::Cp;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::error::Error;
use lighthaul_session::protocol::Protocol;

use crate::copy::estimate::Copy;
use crate::copy::printer::Printer;
use crate::copy::retry;

/// Copies at the rates of a vector from `start` on. An attempt after its end uses TCP.
pub(super) fn follow(
    (args, printer, copy): (&Cp, &mut Printer, Copy),
    start: Timestamp,
    vector: &Trc,
) -> Result<Summary, Error> {
    let ordinary = ordinary(args);
    let end = start.0.saturating_add(vector.end().as_nanos());
    let booked = Cp {
        trc: Some(vector.to_string()),
        vector_at: Some(start),
        protocol: Some(Protocol::Vbtp.to_string()),
        ..args.clone()
    };
    retry::run(args, printer, |_, printer| {
        let is_over = unix_nanos().saturating_add(CALL.as_nanos() as u64) >= end;
        copy(if is_over { &ordinary } else { &booked }, printer)
    })
}

/// Returns the same copy over TCP.
pub(super) fn ordinary(args: &Cp) -> Cp {
    Cp {
        protocol: Some(Protocol::Tcp.to_string()),
        ..args.clone()
    }
}

/// Time until a retried copy moves data.
const CALL: Duration = Duration::from_secs(1);
