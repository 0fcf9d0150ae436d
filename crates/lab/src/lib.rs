//! Floor 4: hosts in namespaces and the wide-area link between them in real time.
//!
//! - [`settings`]: a lab as people write it; [`description`]: one that can be built
//! - [`emulate`]: a lab that runs, and commands in it; [`counters`]: what its links have seen
//! - [`error`]: what goes wrong

pub mod counters;
pub mod description;
pub mod emulate;
pub mod error;
pub mod settings;

mod icmp;
mod line;
mod netns;
mod quantity;
mod route;
mod segment;
mod wan;
