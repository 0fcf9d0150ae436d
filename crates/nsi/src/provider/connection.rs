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

    /// Returns true if the end time of the circuit has passed.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.circuit.end <= now
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

#[cfg(test)]
mod tests {
    use LifecycleState::{Created, Failed, PassedEndTime, Terminated, Terminating};
    use ReservationState::{Aborting, Checking, Committing, Held, Start, Timeout};

    use super::*;
    use crate::provider::tests::connection;

    fn with(
        lifecycle: LifecycleState,
        reservation: ReservationState,
        is_committed: bool,
        reservations: &[u64],
    ) -> Connection {
        let mut one = connection();
        one.states.lifecycle = lifecycle;
        one.states.reservation = reservation;
        one.is_committed = is_committed;
        one.reservations = reservations.to_vec();
        one
    }

    #[test]
    fn connection_keeps_its_labels_while_the_network_may_have_its_circuit() {
        for (lifecycle, reservation, is_committed, reservations, expected) in [
            (Created, Checking, false, &[][..], true),
            (Created, Held, false, &[1], true),
            (Created, Committing, false, &[1], true),
            (Created, Start, true, &[1], true),
            (Created, Start, false, &[1], false),
            (Created, Timeout, false, &[1], false),
            (Created, ReservationState::Failed, false, &[], false),
            (Created, Aborting, false, &[1], true),
            (Created, Aborting, false, &[], false),
            (Terminating, Start, true, &[1], true),
            (Terminating, Start, true, &[], false),
            (Terminated, Start, true, &[1], false),
            (Failed, Start, true, &[1], false),
            (PassedEndTime, Start, true, &[1], false),
            (PassedEndTime, Checking, false, &[1], false),
        ] {
            let one = with(lifecycle, reservation, is_committed, reservations);
            assert_eq!(one.is_holding(), expected, "{lifecycle:?} {reservation:?}");
        }
        // the hold may have been made just before a crash
        for lifecycle in [Created, Terminating] {
            let mut one = with(lifecycle, Aborting, false, &[]);
            one.reserve = Some(crate::provider::tests::header(1));
            assert!(one.is_holding(), "{lifecycle:?}");
        }
    }

    #[test]
    fn connection_is_finished_once_only_its_end_is_left() {
        use ProvisionState::{Provisioned, Provisioning, Released, Releasing};
        for (lifecycle, reservation, provision, has_work) in [
            (Created, Start, Released, false),
            (Created, Held, Released, false),
            (Created, ReservationState::Failed, Released, false),
            (Created, Timeout, Released, false),
            (Created, Start, Provisioned, false),
            (Created, Checking, Released, true),
            (Created, Committing, Released, true),
            (Created, Aborting, Released, true),
            (Created, Start, Provisioning, true),
            (Created, Start, Releasing, true),
            (Failed, Start, Provisioned, false),
            (PassedEndTime, Start, Releasing, true),
            (Terminating, Start, Released, true),
            (Terminated, Checking, Releasing, false),
        ] {
            for is_committed in [false, true] {
                let mut one = with(lifecycle, reservation, is_committed, &[]);
                one.states.provision = provision;
                let says = format!("{:?} {is_committed}", one.states);
                assert_eq!(one.has_work(), has_work, "{says}");
                let is_open = lifecycle == Created && (is_committed || reservation == Held);
                assert_eq!(one.is_finished(), !has_work && !is_open, "{says}");
            }
        }
    }

    #[test]
    fn last_hundred_notifications_and_results_are_kept() {
        let mut one = connection();
        for nth in 1..=101 {
            let kind = NotificationKind::DataPlane(one.states.data_plane);
            let added = one.notify(Timestamp(nth), kind);
            assert_eq!((added.id, added.at), (nth, Timestamp(nth)));
            one.keep_result(StoredResult {
                id: 0,
                correlation_id: nth.to_string(),
                at: Timestamp(nth),
                url: String::new(),
                name: String::new(),
                document: String::new(),
            });
            let kept = nth.min(100) as usize;
            assert_eq!((one.notifications.len(), one.results.len()), (kept, kept));
        }
        let ids = one.notifications.iter().map(|one| one.id);
        assert!(ids.eq(2..=101));
        let ids = one
            .results
            .iter()
            .map(|one| (one.id, one.correlation_id.clone()));
        assert!(ids.eq((2..=101).map(|nth| (nth, nth.to_string()))));
        let summary = one.summary();
        assert_eq!(
            (summary.notification_id, summary.result_id),
            (Some(101), Some(101))
        );
    }
}
