//! Faults of schemas and messages.

/// Result of the work with messages.
pub type Result<T> = std::result::Result<T, Error>;

/// Fault of a schema or of a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is no schema.
    #[error(
        "the schema is wrong at octet {at}: {why}; write it as in Pose {{ time: f64, joints: [f32] }}"
    )]
    Syntax {
        /// Octet of the text at which the fault is.
        at: usize,
        /// Reason.
        why: &'static str,
    },
    /// Field that the schema does not have.
    #[error("{schema} has no field {field}")]
    NoField {
        /// Name of the schema.
        schema: String,
        /// Name of the field.
        field: String,
    },
    /// Value of another type than that of its field.
    #[error("the field {field} is {expected}, and not {found}")]
    OtherType {
        /// Name of the field.
        field: String,
        /// Type in the schema.
        expected: String,
        /// Type of the value.
        found: String,
    },
    /// Number that its type cannot hold, or array of another length.
    #[error("the value of the field {field} does not fit into {expected}")]
    Range {
        /// Name of the field.
        field: String,
        /// Type in the schema.
        expected: String,
    },
    /// Field without a value.
    #[error("the field {0} has no value: set all fields before the message is packed")]
    Unset(String),
    /// Octets that are no message.
    #[error("the octets are no packed message: {0}; the sender may not use a typed stream")]
    Malformed(&'static str),
    /// Announced schema that differs from the expected one.
    #[error(
        "the sender has another schema than this program: {0}; use the same schema on both sides"
    )]
    Differs(String),
    /// Message of a schema that was not announced.
    #[error(
        "the sender has another schema than {0} of this program, and its announcement is lost; use the same schema on both sides"
    )]
    Unannounced(String),
}

impl Error {
    /// Returns true if the other side has sent something wrong.
    pub const fn is_of_peer(&self) -> bool {
        matches!(
            self,
            Self::Malformed(_) | Self::Differs(_) | Self::Unannounced(_)
        )
    }
}
