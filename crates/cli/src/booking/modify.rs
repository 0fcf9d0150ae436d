//! `lighthaul modify` and `lighthaul extend`.

use std::time::Duration;

use lighthaul_booking_client::json::{Change, IsoDuration, Reservation};
use lighthaul_grammar::booking::ChangeArgs;
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::Error;

use super::show;
use crate::error::usage;
use crate::shared_options;

/// Extends or shrinks a reservation.
pub(crate) fn modify(args: &ChangeArgs) -> Result<(), Error> {
    let client = reach(&shared_options::scheduler(&args.asking))?;
    let before = client.reservation(args.id).map_err(failed)?;
    let change = change(args, &before)?;
    let after = if before.is_reduced_by(&change) {
        client.shrink(args.id, &change)
    } else {
        client.extend(args.id, &change)
    };
    show::reservation(&after.map_err(failed)?, args.asking.output);
    Ok(())
}

/// Extends a reservation.
pub(crate) fn extend(args: &ChangeArgs) -> Result<(), Error> {
    let client = reach(&shared_options::scheduler(&args.asking))?;
    let before = client.reservation(args.id).map_err(failed)?;
    let after = client.extend(args.id, &change(args, &before)?);
    show::reservation(&after.map_err(failed)?, args.asking.output);
    Ok(())
}

/// Returns the change that the options ask for.
fn change(args: &ChangeArgs, before: &Reservation) -> Result<Change, Error> {
    let id = args.id;
    if args.size.is_some() != before.request.size.is_some() {
        let text = if before.request.size.is_some() {
            format!("reservation {id} has a size: use --size")
        } else {
            format!("reservation {id} has a duration: use --hold or --by")
        };
        return Err(usage(text));
    }
    let hold = match args.by {
        None => args.hold,
        Some(by) => {
            let start = before.steps.first().map(|step| step.from);
            let nanos = start.and_then(|start| by.0.0.checked_sub(start.0));
            let hold = nanos.map(Duration::from_nanos);
            let hold = hold.filter(|hold| !hold.is_zero());
            Some(
                hold.ok_or_else(|| usage(format!("--by is before the start of reservation {id}")))?,
            )
        }
    };
    Ok(Change {
        size: args.size,
        hold: hold.map(IsoDuration),
        why: args.why.clone(),
    })
}
