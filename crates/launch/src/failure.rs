//! Failure to start a program.

/// Reason why a program was not started, with the exit status of `env`.
#[derive(Debug)]
pub struct StartError {
    /// Exit status.
    pub status: u8,
    /// Reason, for the user.
    pub text: String,
}

impl StartError {
    /// Returns the error for a program that does not exist.
    pub(crate) const fn missing(text: String) -> Self {
        Self { status: 127, text }
    }

    /// Returns the error for a program that cannot be started or captured.
    pub const fn blocked(text: String) -> Self {
        Self { status: 126, text }
    }

    /// Returns the error for a fault of this installation.
    pub(crate) const fn ours(text: String) -> Self {
        Self { status: 125, text }
    }
}
