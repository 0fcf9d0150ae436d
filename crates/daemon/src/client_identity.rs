//! Identity of a client, as shares of a daemon count it.

use lighthaul_io::crypto::identity::Fingerprint;

/// Identity whose share of the daemon a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientIdentity {
    /// Key or token of the client.
    pub(crate) print: Fingerprint,
    /// Key of the authority whose statement vouches for it. All its statements have a common share.
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

    /// Returns the identity and its authority, as seats count them.
    pub(crate) const fn vouched(self) -> (Fingerprint, Option<Fingerprint>) {
        (self.print, self.authority)
    }
}
