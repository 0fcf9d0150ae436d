//! Shared address of all elements of a cluster, and the distribution of connections over the elements.
//!
//! All elements have the address. The first one that serves answers for it (ARP, RFC 826), as the active router of
//! VRRP does (RFC 9568). It forwards packets to the element that a hash of their source selects. That element answers
//! the program directly.
//!
//! No element remembers connections. The hash gives a bucket, and each bucket has a fixed order of all elements. New
//! connections belong to the first one that serves. An element without a socket for a packet passes the packet to the
//! next one in that order. So connections continue when elements die and return, when another element answers, and
//! when an element is being stopped. A returning element serves once its rules are in force. A leaving one announces
//! it, and still forwards packets for a while.
//!
//! Fragments are not forwarded; TCP does not create them. Each forwarding decrements the hop limit of a packet.
//!
//! - [`distribution`]: order of elements; [`membership`]: serving elements; [`script`]: rules of the kernel
//! - [`arp`]: messages about the address; `arp_socket`: their socket; [`shared_address`]: the thread that sends them
//! - [`sockets`]: sockets that the kernel still has

pub mod arp;
pub mod distribution;
pub mod membership;
pub mod script;
pub mod shared_address;
pub mod sockets;

mod arp_socket;
