//! Floor 4: authenticated connections to the neighbors of a domain.
//!
//! ```text
//!  listener --> handshake slots --\                        /--> link thread --> messages
//!                                  >-- pinned key -> link <
//!  caller of each neighbor -------/                        \<-- queue of messages to the neighbor
//! ```
//!
//! Both sides show their Ed25519 keys (TLS 1.3, RFC 7250). A connection belongs to the neighbor whose key the
//! configuration pins. Then each side greets with both numbers, and frames with one message each follow.
//!
//! Either side may connect. If both do, the connection that the domain with the lower number opened is kept. Messages
//! may be lost with a connection; the machine repeats them.
//!
//! - [`Transport`]: all links; `link`: one connection and its queue; `link_thread`: its thread
//! - `listener`: connections of neighbors; `caller`: connections to them, and their delays
//! - `greeting`: the first frame; `link_fault`: reasons for which a connection is refused or ends
//! - [`Identification`], [`Neighbor`]: keys and addresses; [`TransportError`]: faults of the start

mod caller;
mod endpoints;
mod error;
mod greeting;
mod link;
mod link_fault;
mod link_thread;
mod listener;
mod running;

pub use endpoints::{Deliver, Identification, Neighbor, Panicked};
pub use error::{TransportError, text_of};
pub use link::LinkStatus;
pub use link_fault::LinkFault;
pub use running::Transport;
