//! Domains and paths as JSON objects, one in each line.

use lighthaul_booking_client::json::Timestamp;
use lighthaul_domains::control::{PathView, StatusView};
use serde_json::{Value, json};

use crate::output::print::print_json;

/// Prints a domain with its neighbors, links and paths.
pub(super) fn domain(status: &StatusView) {
    let paths: Vec<Value> = status.paths.iter().map(path_of).collect();
    print_json(&json!({
        "v": 1,
        "type": "domain",
        "domain": status.domain,
        "name": status.name,
        "key": status.key,
        "epoch": status.epoch,
        "neighbors": status.neighbors,
        "links": status.links,
        "endpoints": status.endpoints,
        "paths": paths,
        "requests": status.requests,
        "ignored": status.ignored,
    }));
}

/// Prints a path.
pub(super) fn path(path: &PathView) {
    let mut event = event(path);
    event["v"] = json!(1);
    print_json(&event);
}

/// Returns the event of a path, without its version.
pub(crate) fn event(path: &PathView) -> Value {
    let mut event = path_of(path);
    event["type"] = json!("path");
    event
}

fn path_of(path: &PathView) -> Value {
    let steps = path.steps.iter().map(|step| {
        json!({
            "from": Timestamp(step.from),
            "till": Timestamp(step.till),
            "rate_bps": step.rate_bps,
        })
    });
    json!({
        "id": path.id,
        "source": path.source,
        "stage": path.stage,
        "legs": path.legs,
        "steps": steps.collect::<Vec<_>>(),
        "lost": path.lost,
        "now": path.now,
    })
}
