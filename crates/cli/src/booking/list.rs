//! `lighthaul reservations` and `lighthaul cancel`.

use lighthaul_scheduler::client::Filter;
use lighthaul_transfer::error::Error;

use super::args::{Cancel, Reservations};
use super::reach::{failed, reach};
use super::show;

/// Lists reservations, a part at a time.
pub(crate) fn reservations(args: &Reservations) -> Result<(), Error> {
    let client = reach(&args.asking)?;
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

/// Calls reservations off.
pub(crate) fn cancel(args: &Cancel) -> Result<(), Error> {
    let client = reach(&args.asking)?;
    for id in &args.ids {
        let reservation = client.cancel(*id, &args.why).map_err(failed)?;
        show::done(&reservation, args.asking.output);
    }
    Ok(())
}
