//! Lists that are returned in parts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Part of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// Items in the order of their numbers.
    pub items: Vec<T>,
    /// Value of `after` in the request for the next part; absent in the last part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
