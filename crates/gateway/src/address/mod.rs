//! One address for all elements of a cluster, and programs' connections spread over them.
//!
//! All elements have the address; one, the first that lives, answers for it (ARP, RFC 826), as the active router of VRRP does (RFC 9568).
//! What it gets for the address it passes on by a hash of where the connection comes from, whole and unchanged, so that the element which takes it
//! answers the program directly.
//!
//! Nobody remembers connections. The hash gives a bucket, and each bucket has all elements in an order that never changes; new connections are for the
//! first that lives. An element that has no socket for what it gets hands it to the next one in that order. So connections go on where they
//! are when elements die and return, when another one answers, and when an element lets nobody in any more because it is to be stopped.
//!
//! - [`spread`]: that order; [`roll`]: who lives; `script`: how the kernel is told
//! - [`arp`]: what is said of the address; [`shared`]: the thread that says it

pub mod arp;
pub mod roll;
pub mod shared;
pub mod spread;

mod script;
