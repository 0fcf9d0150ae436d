//! Faults of the start of a transport.

use std::net::SocketAddr;

use lighthaul_io::host::panics::Panic;

/// Fault that keeps a transport from starting.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Neighbor with the key of this domain.
    #[error(
        "neighbor {0} has the key of this domain; set key in its [[neighbor]] to the key that its operator names"
    )]
    OwnKey(u32),
    /// Address that cannot be used.
    #[error(
        "cannot listen on {address}: {why}; stop the program that uses the address, or change listen"
    )]
    Listen {
        /// Address of the listener.
        address: SocketAddr,
        /// Reason of the failure.
        why: String,
    },
    /// Resource that the operating system refused.
    #[error("cannot start the service: {0}; free resources of this host and start it again")]
    Resources(String),
}

/// Returns the part of the program that panicked, and its message.
pub fn text_of(panic: Panic) -> String {
    let error = lighthaul_io::error::Error::from(panic);
    if let lighthaul_io::error::Error::Internal(text) = &error {
        return text.clone();
    }
    error.to_string()
}
