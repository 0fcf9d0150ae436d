//! Machines of all protocols behind one interface.
//!
//! A lane creates one for each object, and uses it without knowing the protocol.
//!
//! - [`ends`]: both machines; [`setup`]: their parameters
//! - [`event`]: their events; [`learned`]: measurements for the next object

pub mod ends;
pub mod event;
pub mod learned;
pub mod setup;

pub use ends::{ReceiveMachine, SendMachine};
pub use event::MachineEvent;
pub use learned::{Learned, SharedLearned};
pub use setup::Setup;
