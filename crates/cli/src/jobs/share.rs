//! Shares of owners.

use lighthaul_grammar::jobs::Share;
use lighthaul_grammar::output::OutputArgs;
use lighthaul_queue::Queue;
use lighthaul_queue::list::OwnerShare;
use lighthaul_session::error::Error;
use serde_json::json;

use super::desk::{existing, failed, place};
use super::show::plain;
use crate::output::print::{print, print_json};

/// Sets the share of an owner, or lists the shares.
pub(super) fn run(args: &Share) -> Result<(), Error> {
    let (Some(owner), Some(share)) = (&args.owner, args.share) else {
        let shares = existing(&args.store)?.shares().map_err(failed)?;
        list(&shares, args.output);
        return Ok(());
    };
    let mut queue = Queue::open(&place(&args.store)).map_err(failed)?;
    queue.set_share(owner, share).map_err(failed)?;
    let mut shares = queue.shares().map_err(failed)?;
    shares.retain(|one| one.owner == *owner);
    if args.output.json {
        list(&shares, args.output);
    } else {
        print(&format!("{} has share {share}", plain(owner)));
    }
    Ok(())
}

fn list(shares: &[OwnerShare], output: OutputArgs) {
    if output.json {
        for one in shares {
            print_json(&json!({
                "v": 1,
                "type": "share",
                "owner": one.owner,
                "share": one.share,
                "running": one.running,
                "queued": one.queued,
            }));
        }
        return;
    }
    if shares.is_empty() {
        return print("no owners");
    }
    print("OWNER      SHARE RUNNING  QUEUED");
    for one in shares {
        print(&format!(
            "{:<10} {:>5} {:>7} {:>7}",
            plain(&one.owner),
            one.share,
            one.running,
            one.queued
        ));
    }
}
