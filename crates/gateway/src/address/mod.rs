//! One address for all elements of a cluster, and programs' connections spread over them.
//!
//! All elements have the address; one, the first that serves, answers for it (ARP, RFC 826), as the active router of VRRP does (RFC 9568).
//! What comes for the address goes on to the element that a hash of where the connection comes from says, so that this one answers the program directly.
//!
//! Nobody remembers connections. The hash gives a bucket, and each bucket has all elements in an order that never changes; new connections are for the
//! first that serves. An element that has no socket for what it gets hands it to the next one in that order. So connections go on where they
//! are when elements die and return, when another one answers, and when an element lets nobody in any more because it is to be stopped.
//! Who returns serves, and is sent anything, only when its rules are in force; who leaves says so, and hands on for a while what still comes.
//!
//! Fragments are not carried, which TCP does not make, and a packet has lost one of its hops for each element that it crossed.
//!
//! - [`spread`]: that order; [`roll`]: who serves; [`script`]: how the kernel is told
//! - [`arp`]: what is said of the address, `port`: and where; [`shared`]: the thread that says it
//! - [`sockets`]: what the kernel still has to bring

pub mod arp;
pub mod distribution;
pub mod membership;
pub mod script;
pub mod shared_address;
pub mod sockets;

mod arp_socket;
