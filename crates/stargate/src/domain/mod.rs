//! Machine of one domain: source of its own requests, participant in requests of other domains.
//!
//! ```text
//!            Held from all            Commit               Committed from all
//!  Holding ---------------> Held ------------> Committing ---------------> Committed ---> vector ends
//!     |                       |                    |                           |
//!     | refused, hold_till    | hold_till          | decide_till               | Release, lost by a child
//!     +-----------------------+---------+----------+---------------------------+
//!                                       v
//!                                    Closing ---> children have acknowledged ---> Closed ---> hold_till
//! ```
//!
//! - [`machine`]: calls of the driver; `admission`: checks of what a neighbor asks; `usage`: its reservations;
//!   `hold_share`: capacity that a hold takes
//! - `search`: candidate paths of a request; `asking`: their queries; `relay`, `relaying`: queries of neighbors
//! - [`reservation`]: stage and timers of one reservation; `holding`, `committing`, `closing`: its phases
//! - `restoring`: restart from records

mod admission;
mod asking;
mod closing;
mod committing;
mod hold_share;
mod holding;
pub mod machine;
mod relay;
mod relaying;
pub mod reservation;
mod restoring;
mod search;
mod usage;

pub use self::machine::Domain;
pub use self::reservation::{Reservation, Stage};
