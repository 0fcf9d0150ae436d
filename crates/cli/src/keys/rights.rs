//! Rights and fingerprints on the command line.

use std::path::PathBuf;

use lighthaul_daemon::rights::Rights;
use lighthaul_grammar::keys::RightsArgs;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_session::error::Error;

use crate::error::usage;

/// Returns the rights of `name` that the options describe.
pub(crate) fn rights(name: &str, granted: &RightsArgs) -> Rights {
    Rights {
        name: name.to_owned(),
        root: granted.root.as_ref().map(PathBuf::from),
        read_only: granted.read_only,
        owners: granted.owners,
        special: granted.special,
        gateway: granted.gateway,
        expires: granted
            .expires
            .map(|time| now().saturating_add(time.as_secs())),
        ..Rights::default()
    }
}

/// Parses a fingerprint.
pub(crate) fn fingerprint(text: &str) -> Result<Fingerprint, Error> {
    text.parse().map_err(|e| usage(format!("{e}")))
}

/// Returns seconds since 1970.
pub(crate) fn now() -> u64 {
    unix_nanos() / 1_000_000_000
}
