//! Reports that no request asked for.

use lighthaul_booking_client::json::Timestamp;
use serde::{Deserialize, Serialize};

use super::exception::ServiceException;
use super::states::DataPlaneStatus;
use crate::xml::DecodeError;
use crate::xml::element::Element;
use crate::xml::writer::Writer;

/// Report about a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// ID of the connection.
    pub connection_id: String,
    /// Number of the report, which counts from one for each connection.
    pub id: u64,
    /// Time of the event.
    pub at: Timestamp,
    /// Event.
    pub kind: NotificationKind,
}

/// Event of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotificationKind {
    /// A fault of the data plane or of the provider.
    ErrorEvent {
        /// Name of the event.
        event: ErrorEvent,
        /// Connection at the agent that detected the event.
        connection_id: String,
        /// Agent that detected the event.
        nsa: String,
        /// Reason of the failure.
        exception: Option<Box<ServiceException>>,
    },
    /// A hold has expired.
    ReserveTimeout {
        /// Length of the hold in seconds.
        seconds: u32,
        /// Connection at the agent that detected the event.
        connection_id: String,
        /// Agent that detected the event.
        nsa: String,
    },
    /// The data plane has changed.
    DataPlane(DataPlaneStatus),
    /// A message to the requester was not delivered.
    DeliveryTimeout {
        /// Correlation of the message.
        correlation_id: String,
    },
}

/// Fault of the data plane or of the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorEvent {
    /// The circuit could not be made.
    ActivateFailed,
    /// The circuit could not be removed.
    DeactivateFailed,
    /// The circuit has failed.
    DataplaneError,
    /// The provider has ended the connection.
    ForcedEnd,
}

impl ErrorEvent {
    const ALL: [(Self, &str); 4] = [
        (Self::ActivateFailed, "activateFailed"),
        (Self::DeactivateFailed, "deactivateFailed"),
        (Self::DataplaneError, "dataplaneError"),
        (Self::ForcedEnd, "forcedEnd"),
    ];
}

impl Notification {
    /// Names of the messages.
    pub const NAMES: [&str; 4] = [
        "errorEvent",
        "reserveTimeout",
        "dataPlaneStateChange",
        "messageDeliveryTimeout",
    ];

    /// Returns the name of the message.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            NotificationKind::ErrorEvent { .. } => Self::NAMES[0],
            NotificationKind::ReserveTimeout { .. } => Self::NAMES[1],
            NotificationKind::DataPlane(_) => Self::NAMES[2],
            NotificationKind::DeliveryTimeout { .. } => Self::NAMES[3],
        }
    }

    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        let kind = match of.name() {
            "errorEvent" => Self::error_event(of)?,
            "reserveTimeout" => NotificationKind::ReserveTimeout {
                seconds: of.value("timeoutValue", "a whole number of seconds")?,
                connection_id: of.text("originatingConnectionId")?,
                nsa: of.text("originatingNSA")?,
            },
            "dataPlaneStateChange" => {
                let status = of.required("dataPlaneStatus")?;
                NotificationKind::DataPlane(DataPlaneStatus::decode(status)?)
            }
            _ => NotificationKind::DeliveryTimeout {
                correlation_id: of.text("correlationId")?,
            },
        };
        Ok(Self {
            connection_id: of.text("connectionId")?,
            id: of.value("notificationId", "a whole number")?,
            at: of.time("timeStamp")?,
            kind,
        })
    }

    fn error_event(of: Element<'_>) -> Result<NotificationKind, DecodeError> {
        let element = "event";
        let expected = "an event of the standard, such as forcedEnd";
        let name = of.text(element)?;
        let event = ErrorEvent::ALL
            .into_iter()
            .find(|(_, known)| *known == name);
        let (event, _) = event.ok_or(DecodeError::Value { element, expected })?;
        let exception = of.optional("serviceException")?;
        let exception = exception.map(ServiceException::decode).transpose()?;
        Ok(NotificationKind::ErrorEvent {
            event,
            connection_id: of.text("originatingConnectionId")?,
            nsa: of.text("originatingNSA")?,
            exception: exception.map(Box::new),
        })
    }

    pub(super) fn encode(&self, w: &mut Writer) {
        w.element(&format!("t:{}", self.name()), &[], |w| {
            w.text("connectionId", &self.connection_id);
            w.text("notificationId", self.id.to_string());
            w.text("timeStamp", self.at.to_string());
            self.kind.encode(w);
        });
    }
}

impl NotificationKind {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::ErrorEvent {
                event,
                connection_id,
                nsa,
                exception,
            } => {
                let name = ErrorEvent::ALL.iter().find(|(known, _)| known == event);
                w.text("event", name.map_or("", |(_, name)| name));
                w.text("originatingConnectionId", connection_id);
                w.text("originatingNSA", nsa);
                if let Some(exception) = exception {
                    exception.encode("serviceException", w);
                }
            }
            Self::ReserveTimeout {
                seconds,
                connection_id,
                nsa,
            } => {
                w.text("timeoutValue", seconds.to_string());
                w.text("originatingConnectionId", connection_id);
                w.text("originatingNSA", nsa);
            }
            Self::DataPlane(status) => status.encode(w),
            Self::DeliveryTimeout { correlation_id } => w.text("correlationId", correlation_id),
        }
    }
}
