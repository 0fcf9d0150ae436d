//! Message that is not delivered yet.

use lighthaul_booking_client::json::Timestamp;
use serde::{Deserialize, Serialize};

use crate::message::name::soap_action;

/// Message that is not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outgoing {
    /// Number, in the order of the messages.
    pub nth: u64,
    /// URN of the requester.
    pub requester: String,
    /// URL of the requester.
    pub url: String,
    /// Name of the message.
    pub name: String,
    /// Envelope in XML.
    pub document: String,
    pub(super) connection_id: String,
    pub(super) correlation_id: String,
    pub(super) attempts: u32,
    pub(super) next: Timestamp,
    /// Time at which it was queued; zero if an earlier version did so.
    #[serde(default)]
    pub(super) queued: Timestamp,
}

impl Outgoing {
    /// Returns the value of the `SOAPAction` header.
    pub fn action(&self) -> String {
        format!("\"{}\"", soap_action(&self.name))
    }

    /// Returns true if a failed delivery is not repeated, since the message has waited for [`TRIED_MAX`]. One that has
    /// waited for others, or for the start of the provider, still has some attempts.
    pub(super) const fn is_old(&self, now: Timestamp) -> bool {
        let is_old = self.queued.0 > 0 && now.0.saturating_sub(self.queued.0) >= TRIED_MAX;
        is_old && self.attempts + 1 >= ATTEMPTS_MIN
    }

    pub(super) fn key(&self) -> String {
        format!("{:020}", self.nth)
    }
}

/// Maximum number of waiting confirmations of one request.
pub(super) const COPIES_MAX: usize = 2;
/// Number of attempts of each message.
pub(super) const ATTEMPTS_MIN: u32 = 3;
/// Time after which a failed delivery is not repeated, in nanoseconds: ten minutes.
pub(super) const TRIED_MAX: u64 = 600_000_000_000;
