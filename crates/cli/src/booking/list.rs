//! `lighthaul reservations` and `lighthaul cancel`.

use lighthaul_booking_client::client::Filter;
use lighthaul_grammar::booking::{Cancel, Reservations};
use lighthaul_remote::scheduler::{failed, reach};
use lighthaul_session::error::Error;

use super::show;

use crate::error::Fault;
use crate::shared_options;

/// Lists reservations, a part at a time.
pub(crate) fn reservations(args: &Reservations) -> Result<(), Error> {
    let client = reach(&shared_options::scheduler(&args.asking))?;
    let output = args.asking.output;
    for id in &args.ids {
        show::reservation(&client.reservation(*id).map_err(failed)?, output);
    }
    if !args.ids.is_empty() {
        return Ok(());
    }
    let filter = Filter {
        owner: args.owner.clone(),
        state: args.state.map(|state| state.to_string()),
    };
    let mut after = None;
    loop {
        let page = client.reservations(&filter, after).map_err(failed)?;
        show::list(&page.items, after.is_none(), output);
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
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
