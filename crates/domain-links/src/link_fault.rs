//! Reasons for which a connection is refused or ends.

use lighthaul_io::crypto::identity::Fingerprint;

/// Reason for which a connection is refused or ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFault {
    /// Key of no neighbor.
    #[error(
        "refused a connection from {address}: its key {key} belongs to no neighbor; if a neighbor has a new key, \
         set key in its [[neighbor]]"
    )]
    UnknownKey {
        /// Address of the stranger.
        address: String,
        /// Key of the host.
        key: Fingerprint,
    },
    /// Key that has expired.
    #[error(
        "refused neighbor {domain}: its key has expired; ask its operator for a new key, and set key and expires in \
         its [[neighbor]]"
    )]
    Expired {
        /// Number of the neighbor domain.
        domain: u32,
    },
    /// Host that has another key than the neighbor.
    #[error(
        "the host at {address} has the key {shown}, but neighbor {domain} has {pinned}; check address and key in its \
         [[neighbor]] with its operator"
    )]
    OtherKey {
        /// Number of the neighbor domain.
        domain: u32,
        /// Address of the host.
        address: String,
        /// Key of the host.
        shown: Fingerprint,
        /// Key of the neighbor.
        pinned: Fingerprint,
    },
    /// Neighbor that closes a connection before its greeting.
    #[error(
        "neighbor {domain} closed the connection before its greeting; ask its operator if its [[neighbor]] for \
         domain {me} has key = \"{key}\""
    )]
    NotGreeted {
        /// Number of the neighbor domain.
        domain: u32,
        /// Number of this domain.
        me: u32,
        /// Key of this domain.
        key: Fingerprint,
    },
    /// Greeting with other numbers.
    #[error(
        "neighbor {domain} does not greet as domain {domain} to domain {me}; compare the numbers and keys of both \
         configurations"
    )]
    Greeting {
        /// Number of the neighbor domain.
        domain: u32,
        /// Number of this domain.
        me: u32,
    },
    /// Greeting of another version of the messages.
    #[error(
        "neighbor {domain} speaks version {theirs} of the protocol between domains, and this domain speaks version \
         {ours}; install a newer lighthaul in domain {older}",
        older = if theirs < ours { domain } else { me }
    )]
    Version {
        /// Number of the neighbor domain.
        domain: u32,
        /// Number of this domain.
        me: u32,
        /// Version of the neighbor.
        theirs: u8,
        /// Message version of this domain.
        ours: u8,
    },
    /// Message that exceeds its maximum length.
    #[error(
        "neighbor {domain} sent a message of {len} octets (maximum {most}); its software has a fault: tell its operator"
    )]
    Long {
        /// Number of the neighbor domain.
        domain: u32,
        /// Length of the message in octets.
        len: usize,
        /// Maximum length in octets.
        most: usize,
    },
    /// Message that does not decode.
    #[error(
        "neighbor {domain} sent a malformed message; compare the versions of lighthaul with its operator"
    )]
    Malformed {
        /// Number of the neighbor domain.
        domain: u32,
    },
    /// Network or handshake that failed.
    #[error("the connection to neighbor {domain} failed: {why}; the service opens it again")]
    Network {
        /// Number of the neighbor domain.
        domain: u32,
        /// Reason of the failure.
        why: String,
    },
}
