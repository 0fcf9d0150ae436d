//! Queries and their answers.

use lighthaul_booking_client::json::Timestamp;

use super::criteria::Criteria;
use super::name::CONNECTION;
use super::notification::Notification;
use super::states::ConnectionStates;
use crate::xml::DecodeError;
use crate::xml::element::Element;
use crate::xml::writer::Writer;

/// Selection of connections; if empty, all connections of the requester.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Connections.
    pub connection_ids: Vec<String>,
    /// Reservations of the requester, by the requester's names.
    pub global_ids: Vec<String>,
    /// Only connections that were changed since.
    pub modified_since: Option<Timestamp>,
}

/// Connection in the result of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// ID of the connection.
    pub connection_id: String,
    /// Name that the requester gave the connection.
    pub global_id: Option<String>,
    /// Description that the requester gave the connection.
    pub description: Option<String>,
    /// Committed criteria.
    pub criteria: Vec<Criteria>,
    /// Name of the requester.
    pub requester: String,
    /// States.
    pub states: ConnectionStates,
    /// Number of the last notification.
    pub notification_id: Option<u64>,
    /// Number of the last result.
    pub result_id: Option<u64>,
}

/// Range of notifications or results of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// ID of the connection.
    pub connection_id: String,
    /// First number.
    pub first: Option<u64>,
    /// Last number.
    pub last: Option<u64>,
}

impl Query {
    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        let texts = |name| {
            let found = of.all(name).map(move |child| child.content(name));
            found.collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            connection_ids: texts("connectionId")?,
            global_ids: texts("globalReservationId")?,
            modified_since: of.optional_time("ifModifiedSince")?,
        })
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        for id in &self.connection_ids {
            w.text("connectionId", id);
        }
        for id in &self.global_ids {
            w.text("globalReservationId", id);
        }
        w.optional(
            "ifModifiedSince",
            self.modified_since.map(|at| at.to_string()),
        );
    }
}

impl Summary {
    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        let criteria = of.all("criteria").map(Criteria::decode);
        Ok(Self {
            connection_id: of.text("connectionId")?,
            global_id: of.optional_text("globalReservationId")?,
            description: of.optional_text("description")?,
            criteria: criteria.collect::<Result<_, _>>()?,
            requester: of.text("requesterNSA")?,
            states: ConnectionStates::decode(of.required("connectionStates")?)?,
            notification_id: of.optional_value("notificationId", NUMBER)?,
            result_id: of.optional_value("resultId", NUMBER)?,
        })
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        w.element("reservation", &[], |w| {
            w.text("connectionId", &self.connection_id);
            w.optional("globalReservationId", self.global_id.as_ref());
            w.optional("description", self.description.as_ref());
            for criteria in &self.criteria {
                criteria.encode_result(w);
            }
            w.text("requesterNSA", &self.requester);
            self.states.encode(w);
            w.optional(
                "notificationId",
                self.notification_id.map(|id| id.to_string()),
            );
            w.optional("resultId", self.result_id.map(|id| id.to_string()));
        });
    }
}

impl Range {
    pub(super) fn decode(
        of: Element<'_>,
        first: &'static str,
        last: &'static str,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            connection_id: of.text("connectionId")?,
            first: of.optional_value(first, NUMBER)?,
            last: of.optional_value(last, NUMBER)?,
        })
    }

    pub(super) fn encode(&self, first: &str, last: &str, w: &mut Writer) {
        w.text("connectionId", &self.connection_id);
        w.optional(first, self.first.map(|id| id.to_string()));
        w.optional(last, self.last.map(|id| id.to_string()));
    }

    /// Returns true if the range contains the number.
    pub fn has(&self, id: u64) -> bool {
        self.first.is_none_or(|first| id >= first) && self.last.is_none_or(|last| id <= last)
    }
}

/// Reads the notifications of an answer.
pub(super) fn notifications(of: Element<'_>) -> Result<Vec<Notification>, DecodeError> {
    let known = |child: &Element<'_>| {
        child.is(CONNECTION, child.name()) && Notification::NAMES.contains(&child.name())
    };
    of.children()
        .filter(known)
        .map(Notification::decode)
        .collect()
}

const NUMBER: &str = "a whole number";
