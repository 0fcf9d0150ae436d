//! Status of a scheduler.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::timestamp::Timestamp;

/// Status of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Time by its clock.
    pub now: Timestamp,
    /// Version.
    pub version: String,
    /// URL of the instance that writes, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}
