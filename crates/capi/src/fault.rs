//! Errors of a call that the calling program causes.

use lighthaul::{Code, Error};
use lighthaul_session::error::Coded;

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A null pointer.
    #[error("{0} is null: pass a pointer to memory of the program")]
    Null(&'static str),
    /// Text that is not UTF-8.
    #[error("{0} is not UTF-8: convert it before the call")]
    Text(&'static str),
    /// A structure without a valid size.
    #[error(
        "{name}.size is {size}: set the structure to zero, then size to {expected}, its size in this version"
    )]
    Size {
        /// Name of the structure.
        name: &'static str,
        /// Size that was passed.
        size: usize,
        /// Size in this version.
        expected: usize,
    },
    /// A handle that was closed or never existed.
    #[error("this is no open {0}: it was closed before, or never opened")]
    Handle(&'static str),
    /// A handle of the parent process.
    #[error("the handle belongs to the parent of this process: open another one here")]
    Child,
    /// An option without a valid value.
    #[error("{name} is {value}: {allowed}")]
    Value {
        /// Name of the option.
        name: &'static str,
        /// Value that was passed.
        value: String,
        /// Description of the allowed values.
        allowed: &'static str,
    },
    /// A wait within a callback.
    #[error(
        "a callback cannot wait for copies, streams and reservations without a limit: wait in another thread"
    )]
    Callback,
    /// A buffer that is too small.
    #[error("the message has {len} bytes, and the buffer {capacity}: pass a larger buffer")]
    Buffer {
        /// Length of the message.
        len: usize,
        /// Length of the buffer.
        capacity: usize,
    },
    /// An operation that a callback ended.
    #[error("a callback ended the operation")]
    Stopped,
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::Null(_)
            | Self::Text(_)
            | Self::Size { .. }
            | Self::Handle(_)
            | Self::Child
            | Self::Value { .. }
            | Self::Callback
            | Self::Buffer { .. } => Code::Usage,
            Self::Stopped => Code::Interrupted,
        }
    }
}

/// Returns the error for an option whose text cannot be parsed.
pub(crate) fn invalid(name: &'static str, value: &str, allowed: &'static str) -> Error {
    let value = value.to_owned();
    Fault::Value {
        name,
        value,
        allowed,
    }
    .into()
}
