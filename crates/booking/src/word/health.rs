//! How a scheduler is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;

/// How a scheduler is, and what time it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Its clock.
    pub now: Moment,
    /// Its version.
    pub version: String,
    /// Who keeps the books, if another instance does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}
