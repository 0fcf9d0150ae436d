//! Identity of a client, for the daemon's resource shares.

use lighthaul_io::crypto::identity::Fingerprint;

/// Identity whose resource share a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientIdentity {
    /// Key or token of the client.
    pub(crate) print: Fingerprint,
    /// Key of the authority that signed the statement about the client's key. All its statements have a common share.
    pub(crate) authority: Option<Fingerprint>,
}

impl ClientIdentity {
    /// Identity of a key or token that is listed itself.
    pub(crate) const fn listed(print: Fingerprint) -> Self {
        Self {
            print,
            authority: None,
        }
    }

    /// Returns the identity and its authority, in the form of seats.
    pub(crate) const fn vouched(self) -> (Fingerprint, Option<Fingerprint>) {
        (self.print, self.authority)
    }
}
