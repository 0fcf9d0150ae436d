//! Failure to start a program.

/// Reason why a program was not started, with the exit status of `env`.
#[derive(Debug)]
pub(super) struct StartError {
    pub(super) status: u8,
    pub(super) text: String,
}

impl StartError {
    /// There is no such program.
    pub(super) const fn missing(text: String) -> Self {
        Self { status: 127, text }
    }

    /// It cannot be started, or not be captured.
    pub(super) const fn blocked(text: String) -> Self {
        Self { status: 126, text }
    }

    /// Something of ours is not as it should be.
    pub(super) const fn ours(text: String) -> Self {
        Self { status: 125, text }
    }
}
