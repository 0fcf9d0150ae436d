//! State machines of a connection (GFD.237, section 4), without sockets, clocks or stores.
//!
//! - [`reservation`]: holding and committing; [`provision`]: the circuit; [`lifecycle`]: from the
//!   first request to the end
//! - [`transition`]: refusal of an event

pub mod lifecycle;
pub mod provision;
pub mod reservation;
pub mod transition;

pub use lifecycle::{LifecycleEvent, LifecycleState};
pub use provision::{ProvisionEvent, ProvisionState};
pub use reservation::{ReservationEvent, ReservationState};
pub use transition::InvalidTransition;
