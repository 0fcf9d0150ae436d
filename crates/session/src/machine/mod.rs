//! The machines of all protocols behind one face.
//!
//! A lane makes one for each object and asks it a few things; which protocol it is does not matter there.
//!
//! - [`ends`]: both machines; [`setup`]: what they are made of
//! - [`moved`]: what they tell; [`learned`]: what the next object's should know
pub mod ends;
pub mod learned;
pub mod moved;
pub mod setup;

pub use ends::{ReceiveMachine, SendMachine};
pub use learned::{Baton, Learned};
pub use moved::Moved;
pub use setup::Setup;
