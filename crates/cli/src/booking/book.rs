//! `lighthaul book` and `lighthaul quote`.

use lighthaul::{Bps, Error, FlowAt, IsoDuration, NewReservation, Provision, Shape};
use lighthaul_grammar::booking::{Book, Quote, RequestArgs};

use super::show;

use crate::shared_options;

/// Makes or commits a reservation.
pub(crate) fn book(args: &Book) -> Result<(), Error> {
    let client = shared_options::scheduler_client(&args.asking);
    let reservation = if let Some(id) = args.commit {
        let mut held = client.reservation(id)?;
        held.commit()?;
        held
    } else {
        let commit = !args.tentative;
        let request = request(&args.wanted);
        client.reserve(&NewReservation { commit, ..request })?
    };
    show::reservation(reservation.record(), args.asking.output);
    Ok(())
}

/// Prints the reservation that a request would get.
pub(crate) fn quote(args: &Quote) -> Result<(), Error> {
    let quote = shared_options::scheduler_client(&args.asking).quote(&request(&args.wanted))?;
    show::quote(&quote, args.asking.output);
    Ok(())
}

/// Returns the request for the options.
fn request(wanted: &RequestArgs) -> NewReservation {
    NewReservation {
        from: wanted.from.clone(),
        to: wanted.to.clone(),
        path: wanted.path.clone(),
        size: wanted.size,
        hold: wanted.hold.map(IsoDuration),
        rate_max: wanted.rate_max.map(Bps::from),
        rate_min: wanted.rate_min.map(Bps::from),
        start: wanted.start.map(|time| time.0),
        by: wanted.by.map(|time| time.0),
        margin_percent: wanted.size.map(|_| wanted.margin),
        priority: wanted.priority,
        shape: if wanted.fixed {
            Shape::Fixed
        } else {
            Shape::Varying
        },
        provision: Provision::Auto,
        flow: wanted.interface.clone().map(|interface| FlowAt {
            interface,
            packets: wanted.packets.unwrap_or_default(),
        }),
        commit: false,
    }
}
