//! Errors with the codes of the standard (GFD.237, appendix).

use lighthaul_booking_client::reservation::cut;
use serde::{Deserialize, Serialize};

use crate::xml::DecodeError;
use crate::xml::element::{Element, TEXT_MAX};
use crate::xml::writer::Writer;

/// Code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ErrorId {
    /// The message cannot be read, or its parameters are invalid.
    Payload,
    /// A parameter is missing.
    MissingParameter,
    /// A parameter has a value that is not supported.
    UnsupportedParameter,
    /// The operation is not implemented.
    NotImplemented,
    /// The version of the protocol is not supported.
    VersionNotSupported,
    /// The state does not permit the operation.
    InvalidTransition,
    /// The connection does not exist.
    ConnectionNonexistent,
    /// The connection has ended.
    ConnectionGone,
    /// The connection cannot be made.
    ConnectionCreate,
    /// The requester has no right to this request.
    Unauthorized,
    /// No path connects the two points.
    NoPath,
    /// The provider has failed.
    Internal,
    /// A resource is not available.
    ResourceUnavailable,
    /// The point is unknown.
    UnknownStp,
    /// The point does not have the label.
    StpResolution,
    /// The point or its label is in use.
    StpUnavailable,
    /// The rate is not available.
    CapacityUnavailable,
    /// A code that this implementation does not know.
    Other(u32),
}

/// Error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{nsa_id} answers with error {}: {text}", .id.code())]
pub struct ServiceException {
    /// Agent in which the error occurred.
    pub nsa_id: String,
    /// ID of the connection.
    pub connection_id: Option<String>,
    /// Code.
    pub id: ErrorId,
    /// Reason and remedy.
    pub text: String,
    /// Names and values of wrong parameters.
    pub variables: Vec<(String, String)>,
}

impl ErrorId {
    const KNOWN: [(Self, u32); 17] = [
        (Self::Payload, 100),
        (Self::MissingParameter, 101),
        (Self::UnsupportedParameter, 102),
        (Self::NotImplemented, 103),
        (Self::VersionNotSupported, 104),
        (Self::InvalidTransition, 201),
        (Self::ConnectionNonexistent, 203),
        (Self::ConnectionGone, 204),
        (Self::ConnectionCreate, 205),
        (Self::Unauthorized, 302),
        (Self::NoPath, 403),
        (Self::Internal, 500),
        (Self::ResourceUnavailable, 600),
        (Self::UnknownStp, 701),
        (Self::StpResolution, 702),
        (Self::StpUnavailable, 704),
        (Self::CapacityUnavailable, 705),
    ];

    /// Returns the code of five digits.
    pub fn code(self) -> String {
        let known = Self::KNOWN.iter().find(|(id, _)| *id == self);
        let other = if let Self::Other(code) = self {
            code
        } else {
            500
        };
        let number = known.map_or(other, |(_, number)| *number);
        format!("{number:05}")
    }

    /// Returns the error with a code.
    pub fn with_code(code: u32) -> Self {
        let known = Self::KNOWN.iter().find(|(_, number)| *number == code);
        known.map_or(Self::Other(code), |(id, _)| *id)
    }
}

impl ServiceException {
    /// Returns an error of the agent `nsa_id`.
    pub fn new(nsa_id: &str, id: ErrorId, text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self {
            nsa_id: nsa_id.to_owned(),
            connection_id: None,
            id,
            // a longer one would be refused by this decoder
            text: cut(&text, TEXT_MAX),
            variables: Vec::new(),
        }
    }

    pub(super) fn decode(of: Element<'_>) -> Result<Self, DecodeError> {
        let mut variables = Vec::new();
        if let Some(list) = of.optional("variables")? {
            for variable in list.all("variable") {
                let name = variable.attribute("type").unwrap_or_default().to_owned();
                if name.len() > TEXT_MAX || variables.len() >= VARIABLES_MAX {
                    return Err(DecodeError::Value {
                        element: "variables",
                        expected: "at most 64 variables, each with a type of at most 4096 bytes",
                    });
                }
                let value = variable.all("value").next();
                let value = value.map(|value| value.content("value")).transpose()?;
                variables.push((name, value.unwrap_or_default()));
            }
        }
        Ok(Self {
            nsa_id: of.text("nsaId")?,
            connection_id: of.optional_text("connectionId")?,
            id: ErrorId::with_code(of.value("errorId", "a number of five digits")?),
            text: of.text("text")?,
            variables,
        })
    }

    pub(super) fn encode(&self, name: &str, w: &mut Writer) {
        w.element(name, &[], |w| {
            w.text("nsaId", &self.nsa_id);
            w.optional("connectionId", self.connection_id.as_ref());
            w.text("errorId", self.id.code());
            w.text("text", &self.text);
            if self.variables.is_empty() {
                return;
            }
            w.element("variables", &[], |w| {
                for (name, value) in &self.variables {
                    w.element("variable", &[("type", name)], |w| w.text("value", value));
                }
            });
        });
    }
}

/// Maximum number of variables of an error.
const VARIABLES_MAX: usize = 64;
