//! Preparation of OpenTelemetry's HTTP client.

use rustls::crypto::ring::default_provider;

/// Sets the cryptography of the process, which the client needs if another crate has left its choice to the program.
pub(crate) fn prepare() {
    // a second call finds it set
    default_provider().install_default().ok();
}
