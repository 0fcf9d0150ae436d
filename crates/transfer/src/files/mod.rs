//! Files where they are: listed, looked at, removed, and folders made, here or for a peer.
//!
//! - [`verb`]: what can be asked, and what is answered; [`work`]: doing it
//! - [`far`]: asking a peer, and answering one

pub mod far;
pub mod verb;
pub mod work;
