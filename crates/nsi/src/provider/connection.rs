//! Record of one connection at the provider.

use std::collections::BTreeMap;

use lighthaul_booking_client::json::Timestamp;
use serde::{Deserialize, Serialize};

use super::resources::Circuit;
use crate::machine::{LifecycleState, ProvisionState, ReservationState};
use crate::message::query::Summary;
use crate::message::{
    ConnectionStates, Criteria, Header, Notification, NotificationKind, Operation,
};

/// Connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// fields: document in the store, one for each part of a connection
pub(super) struct Connection {
    pub(super) id: String,
    /// URN of the requester.
    pub(super) requester: String,
    /// Owner of the reservations.
    pub(super) identity: String,
    /// URL for notifications, from the first request.
    pub(super) reply_to: String,
    pub(super) global_id: Option<String>,
    pub(super) description: Option<String>,
    pub(super) criteria: Criteria,
    pub(super) circuit: Circuit,
    pub(super) states: ConnectionStates,
    /// True after the first commit.
    pub(super) is_committed: bool,
    pub(super) reservations: Vec<u64>,
    pub(super) hold_till: Option<Timestamp>,
    /// Length of the hold in seconds.
    pub(super) hold_seconds: u32,
    pub(super) changed: Timestamp,
    /// Request for the reservation that is being worked on.
    pub(super) reserve: Option<Header>,
    /// Requests that are being worked on.
    pub(super) pending: BTreeMap<Operation, Header>,
    pub(super) notifications: Vec<Notification>,
    pub(super) results: Vec<StoredResult>,
    /// Last number of a notification.
    pub(super) notification_id: u64,
    /// Last number of a result.
    pub(super) result_id: u64,
}

/// Confirmation that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredResult {
    pub(super) id: u64,
    pub(super) correlation_id: String,
    pub(super) at: Timestamp,
    pub(super) url: String,
    /// Name of the message.
    pub(super) name: String,
    /// Envelope in XML.
    pub(super) document: String,
}

impl Connection {
    /// Returns true if the connection keeps its points and labels from other connections.
    pub(super) fn is_holding(&self) -> bool {
        // a hold may have been made just before a crash
        let has_resources = !self.reservations.is_empty() || self.reserve.is_some();
        if self.states.lifecycle == LifecycleState::Terminating {
            return has_resources;
        }
        let is_trying = matches!(
            self.states.reservation,
            ReservationState::Checking | ReservationState::Held | ReservationState::Committing
        );
        let is_aborting = self.states.reservation == ReservationState::Aborting;
        self.states.lifecycle == LifecycleState::Created
            && (self.is_committed || is_trying || is_aborting && has_resources)
    }

    /// Returns true if a request is being worked on.
    pub(super) fn has_work(&self) -> bool {
        let ConnectionStates {
            reservation,
            provision,
            lifecycle,
            ..
        } = self.states;
        if lifecycle == LifecycleState::Terminated {
            // requests that it overtook stay open
            return false;
        }
        lifecycle == LifecycleState::Terminating
            || matches!(
                reservation,
                ReservationState::Checking
                    | ReservationState::Committing
                    | ReservationState::Aborting
            )
            || matches!(
                provision,
                ProvisionState::Provisioning | ProvisionState::Releasing
            )
    }

    /// Returns true if the connection can only be terminated by its requester.
    pub(super) fn is_finished(&self) -> bool {
        !self.has_work()
            && (self.states.lifecycle != LifecycleState::Created
                || (!self.is_committed && self.states.reservation != ReservationState::Held))
    }

    /// Adds a notification.
    pub(super) fn notify(&mut self, now: Timestamp, kind: NotificationKind) -> Notification {
        self.notification_id += 1;
        let notification = Notification {
            connection_id: self.id.clone(),
            id: self.notification_id,
            at: now,
            kind,
        };
        if self.notifications.len() >= KEPT_MAX {
            self.notifications.remove(0);
        }
        self.notifications.push(notification.clone());
        notification
    }

    /// Adds a result.
    pub(super) fn keep_result(&mut self, mut result: StoredResult) {
        self.result_id += 1;
        result.id = self.result_id;
        if self.results.len() >= KEPT_MAX {
            self.results.remove(0);
        }
        self.results.push(result);
    }

    /// Returns the connection in the form of a query result.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            connection_id: self.id.clone(),
            global_id: self.global_id.clone(),
            description: self.description.clone(),
            criteria: self
                .is_committed
                .then(|| self.criteria.clone())
                .into_iter()
                .collect(),
            requester: self.requester.clone(),
            states: self.states,
            notification_id: Some(self.notification_id).filter(|id| *id > 0),
            result_id: Some(self.result_id).filter(|id| *id > 0),
        }
    }
}

/// Number of notifications and results that are kept for each connection.
const KEPT_MAX: usize = 100;
