//! Failure of a request to a store: its kind, which decides about retries and the exit status, and its text.

use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_session::error::{Code, Coded, Error};

/// Failed request.
#[derive(Clone, Debug)]
pub struct CallError {
    /// Kind of the failure.
    pub reason: Reason,
    /// Reason as a text, with the remedy where there is one.
    pub text: String,
}

/// Kind of the failure of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The bucket, the object or the upload does not exist.
    Missing,
    /// The object is not the one that the condition names.
    Condition,
    /// The store does not allow it.
    Denied,
    /// The credentials are not valid any more.
    Expired,
    /// The store is busy or has an internal fault; a retry may succeed.
    Busy,
    /// The network failed; a retry may succeed.
    Network,
    /// The store, or this program, cannot do it.
    Unsupported,
    /// The bytes differ from their checksum.
    Integrity,
    /// The answer is malformed.
    Broken,
    /// This host ended the request, because the program ends.
    Stopped,
}

impl CallError {
    /// Creates the error.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
        }
    }

    /// Returns the error of a request that got no answer.
    pub(crate) fn of_network(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut deepest = error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        let text = deepest.to_string();
        let text = text.split(" (os error").next().unwrap_or(&text);
        let reason = if text.contains("certificate") {
            Reason::Denied
        } else {
            Reason::Network
        };
        Self::new(reason, text.to_lowercase())
    }

    /// Returns the error of a request through the generic client.
    pub(crate) fn of_store(error: &object_store::Error) -> Self {
        use object_store::Error as Store;
        let reason = if matches!(error, Store::NotFound { .. }) {
            Reason::Missing
        } else if matches!(
            error,
            Store::AlreadyExists { .. } | Store::Precondition { .. }
        ) {
            Reason::Condition
        } else if matches!(
            error,
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. }
        ) {
            Reason::Denied
        } else if matches!(
            error,
            Store::NotImplemented { .. } | Store::NotSupported { .. }
        ) {
            Reason::Unsupported
        } else if matches!(error, Store::InvalidPath { .. }) {
            Reason::Broken
        } else {
            Reason::Network
        };
        let text = escape(&error.to_string(), LINE_MAX).into_owned();
        Self::new(reason, text)
    }

    /// Returns true if the same request may succeed later.
    pub const fn is_passing(&self) -> bool {
        matches!(self.reason, Reason::Busy | Reason::Network)
    }

    /// Returns the error with what was tried, as in "cannot read the object".
    pub fn during(self, what: impl Into<String>) -> Error {
        let what = what.into();
        let why = self.text;
        let code = match self.reason {
            Reason::Missing => Code::Open,
            Reason::Condition => Code::Changed,
            Reason::Denied | Reason::Expired => Code::Permission,
            Reason::Busy | Reason::Network => Code::Network,
            Reason::Unsupported => Code::Usage,
            Reason::Integrity => Code::Integrity,
            Reason::Broken => Code::Protocol,
            Reason::Stopped => Code::Stopping,
        };
        FailedCall { what, why, code }.into()
    }
}

/// Failed request, with what was tried.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
struct FailedCall {
    what: String,
    why: String,
    code: Code,
}

impl Coded for FailedCall {
    fn code(&self) -> Code {
        self.code
    }
}
