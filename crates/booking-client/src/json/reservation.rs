//! Reservations.

use lighthaul_base::Rate;

use crate::reservation::{ReservationState, Transition, Verb};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{Change, NewReservation};
use super::timestamp::Timestamp;

/// Capacity that is or was booked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
// fields: message of the REST interface, one for each property
pub struct Reservation {
    /// Number of the reservation.
    pub id: u64,
    /// Name of the owner.
    pub owner: String,
    /// State of the reservation.
    #[schema(value_type = String, example = "committed")]
    pub state: ReservationState,
    /// Granted request.
    pub request: NewReservation,
    /// Links of the path.
    pub path: Vec<String>,
    /// Rates over time, one step for each change.
    pub steps: Vec<Step>,
    /// Bytes that devices of the path count for each packet in addition to the IP packet. They count against the rates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub packet_overhead_bytes: u16,
    /// Time by which all data are moved, as promised.
    pub promised_end: Timestamp,
    /// Time at which the reservation expires if it is not committed; absent after the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_till: Option<Timestamp>,
    /// Time of creation.
    pub created: Timestamp,
    /// Time of the last change.
    pub changed: Timestamp,
    /// Actions on the reservation, oldest first.
    pub journal: Vec<JournalLine>,
    /// Failure, if the reservation has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Reservation {
    /// Returns the rate of IP packets in a step, for which devices count at most the rate of the step.
    pub fn sending_rate(&self, step: &Step) -> Option<Rate> {
        let counted = PACKET_BYTES_MIN + u128::from(self.packet_overhead_bytes);
        let bps = u128::from(step.rate_bps) * PACKET_BYTES_MIN / counted;
        Rate::from_bps(bps as u64)
    }

    /// Returns true if a change makes the reservation smaller.
    pub fn is_reduced_by(&self, change: &Change) -> bool {
        if let (Some(new), Some(old)) = (change.size, self.request.size) {
            return new < old;
        }
        change.hold < self.request.hold
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
const fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// Length of full packets on the narrowest paths: the minimum of IPv6 (RFC 8200, section 5).
const PACKET_BYTES_MIN: u128 = 1280;

/// Rate in a range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Start of the step.
    pub from: Timestamp,
    /// End of the step, exclusive.
    pub till: Timestamp,
    /// Rate in bits a second.
    pub rate_bps: u64,
}

/// Action on a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalLine {
    /// Time of the action.
    pub at: Timestamp,
    /// Action itself.
    #[schema(value_type = String, example = "commit")]
    pub verb: Verb,
    /// State before.
    #[schema(value_type = String, example = "reserved")]
    pub from: ReservationState,
    /// State after; equal if the reservation was created, resized or moved.
    #[schema(value_type = String, example = "committed")]
    pub to: ReservationState,
    /// User, device or component that acted.
    pub who: String,
    /// Reason of the action.
    pub why: String,
}

impl From<&Transition> for JournalLine {
    fn from(line: &Transition) -> Self {
        Self {
            at: line.at.into(),
            verb: line.verb,
            from: line.from,
            to: line.to,
            who: line.who.clone(),
            why: line.why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(more: &str) -> Reservation {
        let text = format!(
            r#"{{"id": 1, "owner": "ada", "state": "committed", "request": {{}}, "path": [], "steps": [], {more}
            "promised_end": "2026-01-01T00:00:00Z", "created": "2026-01-01T00:00:00Z",
            "changed": "2026-01-01T00:00:00Z", "journal": []}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn device_counts_at_most_the_rate_of_the_step() {
        for overhead in [0_u16, 14, 38, 1500, u16::MAX] {
            let one = reservation(&format!(r#""packet_overhead_bytes": {overhead},"#));
            for rate_bps in [1, 1_000_000, 999_999_937, u64::MAX] {
                let step = Step {
                    from: Timestamp(0),
                    till: Timestamp(1),
                    rate_bps,
                };
                let rate = one.sending_rate(&step).map_or(0, Rate::as_bps);
                for packet in [1280_u128, 1500, 9000] {
                    let counted = u128::from(rate) * (packet + u128::from(overhead)) / packet;
                    assert!(
                        counted <= u128::from(rate_bps),
                        "{overhead} {rate_bps} {packet}"
                    );
                }
                // a path of the shortest packets is used in full
                let least = u128::from(rate_bps) * 1280 / (1280 + u128::from(overhead));
                assert_eq!(u128::from(rate), least);
            }
        }
    }

    #[test]
    fn scheduler_without_the_field_counts_ip_packets() {
        let old = reservation("");
        assert_eq!(old.packet_overhead_bytes, 0);
        assert!(!serde_json::to_string(&old).unwrap().contains("overhead"));
    }
    #[test]
    fn change_reduces_a_reservation_if_its_size_or_time_is_less() {
        let of = |request: &str| {
            let mut one = reservation("");
            one.request = serde_json::from_str(request).unwrap();
            one
        };
        let change = |text: &str| serde_json::from_str(text).unwrap();
        let sized = of(r#"{"size": "2GB"}"#);
        assert!(sized.is_reduced_by(&change(r#"{"size": 1999999999}"#)));
        assert!(!sized.is_reduced_by(&change(r#"{"size": "2GB"}"#)));
        let timed = of(r#"{"hold": "2h"}"#);
        assert!(timed.is_reduced_by(&change(r#"{"hold": "PT119M"}"#)));
        assert!(!timed.is_reduced_by(&change(r#"{"hold": 7201}"#)));
    }
}
