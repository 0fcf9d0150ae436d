//! Panics of threads, which end a transfer as any other error does.
//!
//! A thread that panics ends without a word. Threads that wait for it would wait forever, so each
//! thread of a transfer runs its work inside [`catch`] and reports what it returns.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Error;

/// Panic that was caught: the part of the program, and its message.
#[derive(Clone, Debug)]
pub struct Panic(String);

impl From<Panic> for Error {
    fn from(panic: Panic) -> Self {
        Self::Internal(panic.0)
    }
}

/// Runs `work`. Fails if it panics; `name` is the part of the program that did.
///
/// The caller must end the transfer then: values that `work` was changing may be half changed.
pub fn catch<T>(name: &str, work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = message(payload.as_ref());
        Panic(format!("{name}: {text}"))
    })
}

/// Returns the message that a panic was started with.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error_with_its_message() {
        assert_eq!(catch("writer", || 7).unwrap(), 7);
        let count = 3;
        let text = |panic: Panic| Error::from(panic).to_string();
        let formatted = catch("writer", || -> u8 { panic!("{count} of them") });
        assert!(text(formatted.unwrap_err()).contains("writer: 3 of them"));
        let plain = catch("writer", || -> u8 { panic!("plain") });
        assert!(text(plain.unwrap_err()).contains("writer: plain"));
    }
}
