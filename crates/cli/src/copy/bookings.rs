//! Reserved capacity in the output of a copy: as events, and as sentences.

use lighthaul::{Booked, Released, ReservationEnd};
use lighthaul_booking_client::json::{Reservation, Timestamp};
use lighthaul_booking_client::zone::Zone;
use lighthaul_domains::control::PathView;
use serde_json::{Value, json};

/// Returns the event and the sentence of a booked circuit.
pub(super) fn booked(booked: &Booked) -> (Value, String) {
    let Reservation {
        id, path, steps, ..
    } = &booked.reservation;
    let text = format!(
        "reservation {id} is booked over {}, from {}; the copy will be complete by {}",
        path.join(", "),
        Zone::LOCAL.shown(booked.start),
        Zone::LOCAL.shown(booked.complete_by.second_after()),
    );
    let event = json!({
        "type": "booked", "reservation": id, "path": path, "steps": steps,
        "promised_end": booked.promised_end,
    });
    (event, text)
}

/// Returns the event and the sentence of the end of a circuit.
pub(super) fn released(released: &Released) -> (Value, String) {
    let (id, early) = (released.reservation, released.early_s);
    let plan = if early >= 0.0 {
        format!("{early:.1} s early")
    } else {
        format!("{:.1} s late", -early)
    };
    let text = match &released.end {
        ReservationEnd::Released => format!("copy finished {plan}; reservation {id} is released"),
        ReservationEnd::Over => format!("copy finished {plan}; reservation {id} had ended"),
        ReservationEnd::Kept(why) => format!("cannot release reservation {id}: {why}"),
    };
    let mut event = json!({"type": "released", "reservation": id, "early_s": early});
    if let Some(unused) = released.unused_s {
        event["unused_s"] = unused.into();
    }
    (event, text)
}

/// Returns the sentence of a path that was reserved.
pub(super) fn reserved(path: &PathView) -> String {
    let start = path.steps.first().map_or(0, |step| step.from);
    let end = path.steps.last().map_or(0, |step| step.till);
    format!(
        "path {} is reserved from {} to {}",
        path.id,
        Zone::LOCAL.shown(Timestamp(start)),
        Zone::LOCAL.shown(Timestamp(end).second_after()),
    )
}
