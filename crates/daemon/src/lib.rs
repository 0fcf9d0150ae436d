//! Floor 4: introduces the services to each other.
//!
//! - [`serve`]: the daemon; [`client`]: calling one
//! - [`keys`]: which keys are known

pub mod client;
pub mod keys;
pub mod serve;

mod dispatch;
mod session;
