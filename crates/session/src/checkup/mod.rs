//! Checkup of the connection between two hosts: clocks, datagrams, packet sizes, buffers.
//!
//! - [`message`]: messages; [`ask`]: the asking side; [`answer`]: the answering side
//! - [`interface`]: facts of the network interface
//! - [`path_probe`]: cheap probe of a path for monitors; `count`: its datagrams, and how many arrive
//! - `reverse`: test of the direction from the peer, where no datagram gets to the peer

pub mod answer;
pub mod ask;
pub mod interface;
pub mod message;
pub mod path_probe;

mod count;
mod reverse;
