//! Status of a scheduler.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::timestamp::Timestamp;

/// Status of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Time by the clock of the scheduler.
    pub now: Timestamp,
    /// Version of the scheduler.
    pub version: String,
    /// URL of the instance that writes, if this instance does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Fault of the queue of jobs, if it cannot be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_fault: Option<String>,
    /// Reason for which nothing can be booked now, such as a full disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}
