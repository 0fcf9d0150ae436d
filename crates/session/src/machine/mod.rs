//! Machines of all protocols behind one interface.
//!
//! A lane creates one for each object, and uses it without knowing the protocol.
//!
//! - [`ends`]: both machines; [`setup`]: their parameters
//! - [`moved`]: their events; [`learned`]: measurements for the next object

pub mod ends;
pub mod learned;
pub mod moved;
pub mod setup;

pub use ends::{ReceiveMachine, SendMachine};
pub use learned::{Baton, Learned};
pub use moved::Moved;
pub use setup::Setup;
