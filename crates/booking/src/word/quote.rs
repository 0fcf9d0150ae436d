//! What would come of a request.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::moment::Moment;
use super::reservation::Step;

/// What a request would be given now; nothing is booked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quote {
    /// The links that it would be on.
    pub path: Vec<String>,
    /// When it would have how much.
    pub steps: Vec<Step>,
    /// When all would be over.
    pub promised_end: Moment,
}
