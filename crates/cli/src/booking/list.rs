//! `lighthaul reservations` and `lighthaul cancel`.

use lighthaul::ReservationFilter;
use lighthaul_grammar::booking::{Cancel, Reservations};
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::Error;

use super::show;

use crate::error::Fault;
use crate::shared_options;

/// Lists reservations, a part at a time.
pub(crate) fn reservations(args: &Reservations) -> Result<(), Error> {
    let client = shared_options::scheduler_client(&args.asking);
    let output = args.asking.output;
    for id in &args.ids {
        show::reservation(client.reservation(*id)?.record(), output);
    }
    if !args.ids.is_empty() {
        return Ok(());
    }
    let filter = ReservationFilter {
        owner: args.owner.clone(),
        state: args.state.map(|state| state.to_string()),
    };
    let mut is_first = true;
    client.reservations(&filter, &mut |part| {
        show::list(part, is_first, output);
        is_first = false;
        Ok(())
    })
}

/// Cancels reservations, and continues after one that cannot be canceled.
pub(crate) fn cancel(args: &Cancel) -> Result<(), Error> {
    let client = reach(&shared_options::scheduler(&args.asking))?;
    let mut failures = Vec::new();
    for id in &args.ids {
        match client.cancel(*id, &args.why) {
            Ok(reservation) => show::done(&reservation, args.asking.output),
            Err(failure) => failures.push((id, failed(failure))),
        }
    }
    if args.ids.len() == 1
        && let Some((_, only)) = failures.pop()
    {
        return Err(only);
    }
    let Some(code) = failures.first().map(|(_, first)| first.code()) else {
        return Ok(());
    };
    let whys = failures
        .iter()
        .map(|(id, why)| format!("{id}: {}", why.text()));
    let whys: Vec<String> = whys.collect();
    Err(Fault::NotCanceled {
        code,
        failed: whys.len(),
        all: args.ids.len(),
        whys: whys.join("; "),
    }
    .into())
}
