//! SOAP envelope with the header of NSI.

use serde::{Deserialize, Serialize};

use super::body::Message;
use super::name::{
    CONNECTION, HEADERS, POINT_TO_POINT, PROVIDER_PROTOCOL, REQUESTER_PROTOCOL, SOAP,
};
use super::wire;
use crate::xml::DecodeError;
use crate::xml::element::{Element, with_root};
use crate::xml::writer::Writer;

/// Message with its header. A fault may have no header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Header.
    pub header: Option<Header>,
    /// Message.
    pub message: Message,
}

/// Header of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Protocol and protocol version.
    pub protocol: String,
    /// Correlation ID of a request, its response and its confirmation.
    pub correlation_id: String,
    /// Name of the requester.
    pub requester: String,
    /// Name of the provider.
    pub provider: String,
    /// URL to which confirmations go.
    pub reply_to: Option<String>,
}

impl Header {
    /// Returns the header of an answer to this message.
    #[must_use]
    pub fn answer(&self) -> Self {
        Self {
            reply_to: None,
            ..self.clone()
        }
    }

    /// Returns the header of a confirmation of this message.
    #[must_use]
    pub fn confirmation(&self) -> Self {
        Self {
            protocol: REQUESTER_PROTOCOL.to_owned(),
            ..self.answer()
        }
    }

    /// Returns true if the correlation is a UUID in the form of the schema.
    pub fn has_correlation(&self) -> bool {
        let Some(uuid) = self.correlation_id.strip_prefix("urn:uuid:") else {
            return false;
        };
        let parts: Vec<&str> = uuid.split('-').collect();
        let hex = |part: &str| {
            part.bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let lengths = parts.iter().map(|part| part.len());
        lengths.eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| hex(part))
    }

    fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol: of.text("protocolVersion")?,
            correlation_id: of.text("correlationId")?,
            requester: of.text("requesterNSA")?,
            provider: of.text("providerNSA")?,
            reply_to: of.optional_text("replyTo")?,
        })
    }

    fn encode(&self, w: &mut Writer) {
        w.element("h:nsiHeader", &[], |w| {
            w.text("protocolVersion", &self.protocol);
            w.text("correlationId", &self.correlation_id);
            w.text("requesterNSA", &self.requester);
            w.text("providerNSA", &self.provider);
            w.optional("replyTo", self.reply_to.as_ref());
        });
    }
}

impl Envelope {
    /// Returns a message with its header.
    pub const fn new(header: Header, message: Message) -> Self {
        Self {
            header: Some(header),
            message,
        }
    }

    /// Reads an envelope of at most `length_max` bytes.
    pub fn decode(octets: &[u8], length_max: usize) -> Result<Self, DecodeError> {
        with_root(octets, length_max, |root| {
            if !root.is(SOAP, "Envelope") {
                return Err(DecodeError::Unexpected {
                    found: root.name().chars().take(64).collect(),
                    expected: "an envelope of SOAP 1.1",
                });
            }
            let header = root.qualified(SOAP, "Header")?;
            let header = match header {
                Some(header) => header.qualified(HEADERS, "nsiHeader")?,
                None => None,
            };
            let header = header.map(Header::decode).transpose()?;
            let body = root.qualified(SOAP, "Body")?;
            let body = body.ok_or(DecodeError::Missing("Body"))?;
            let mut messages = body.children();
            let message = messages.next().ok_or(DecodeError::Missing("Body"))?;
            if messages.next().is_some() {
                return Err(DecodeError::Repeated("Body"));
            }
            let message = wire::decode(message)?;
            if header.is_none() && !matches!(message, Message::Fault(_)) {
                return Err(DecodeError::Missing("nsiHeader"));
            }
            Ok(Self { header, message })
        })
    }

    /// Returns the document of the envelope.
    pub fn encode(&self) -> String {
        let mut w = Writer::document();
        let spaces = [
            ("xmlns:s", SOAP),
            ("xmlns:h", HEADERS),
            ("xmlns:t", CONNECTION),
            ("xmlns:p", POINT_TO_POINT),
        ];
        w.element("s:Envelope", &spaces, |w| {
            if let Some(header) = &self.header {
                w.element("s:Header", &[], |w| header.encode(w));
            }
            w.element("s:Body", &[], |w| wire::encode(&self.message, w));
        });
        w.finish()
    }
}

impl Message {
    /// Returns the protocol of the message: that of requesters for confirmations and notifications.
    pub const fn protocol(&self) -> &'static str {
        match self {
            Self::ReserveConfirmed(_)
            | Self::ReserveFailed(_)
            | Self::ReserveCommitFailed(_)
            | Self::Confirmed(..)
            | Self::Notification(_)
            | Self::Error(_) => REQUESTER_PROTOCOL,
            Self::Reserve(_)
            | Self::ReserveResponse(_)
            | Self::Request(..)
            | Self::Query(..)
            | Self::QueryConfirmed(..)
            | Self::QueryNotification(..)
            | Self::QueryNotificationConfirmed(..)
            | Self::QueryResult(..)
            | Self::QueryResultConfirmed(..)
            | Self::Acknowledgment
            | Self::Fault(_) => PROVIDER_PROTOCOL,
        }
    }
}
