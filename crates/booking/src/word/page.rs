//! A list that comes in parts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A part of a list, and where the next one begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// This part, by their numbers.
    pub items: Vec<T>,
    /// What to ask for with `after` to get the next part; nothing if this is the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
