//! Errors of sessions and transfers, with the exit status of each kind.

use std::any::Any;
use std::fmt::{self, Debug, Display, Formatter};
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use lighthaul_io::error::Error as World;
use lighthaul_io::host::panics;

pub use crate::code::{Code, Coded};
pub use crate::file_error::FileAction;
use crate::file_error::FileError;

/// Error of a session or of one of its topics: a fault that has an exit status and one sentence.
#[derive(Clone)]
pub struct Error(Arc<dyn Coded>);

impl Error {
    /// Returns the kind of the failure.
    pub fn code(&self) -> Code {
        self.0.code()
    }

    /// Returns the sentence for the user.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// Returns the remedy: the end of the sentence after the last semicolon, or else general advice for this kind of
    /// failure.
    pub fn remedy(&self) -> String {
        let text = self.text();
        let (_, end) = text.rsplit_once("; ").unwrap_or_default();
        let end = end.trim_end_matches(')');
        if end.is_empty() {
            self.code().remedy().to_owned()
        } else {
            end.to_owned()
        }
    }

    /// Returns the fault, if it has the type `F`.
    pub fn fault<F: Coded>(&self) -> Option<&F> {
        let fault: &dyn Any = &*self.0;
        fault.downcast_ref()
    }

    /// Creates the error of an operation on the file or directory `path`.
    pub fn file(action: FileAction, path: &Path, error: &io::Error) -> Self {
        FileError::new(action, path, error).into()
    }
}

impl<F: Coded> From<F> for Error {
    fn from(fault: F) -> Self {
        Self(Arc::new(fault))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

impl Debug for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.0, f)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.code(), self.text()) == (other.code(), other.text())
    }
}

impl Eq for Error {}

impl std::error::Error for Error {}

impl Coded for World {
    fn code(&self) -> Code {
        match self {
            Self::World { .. } | Self::Store(_) => Code::Io,
            Self::Network(_) => Code::Network,
            Self::PeerMisbehaved(_) => Code::Protocol,
            Self::TimedOut(_) => Code::TimedOut,
            Self::Internal(_) => Code::Internal,
            Self::Interrupted => Code::Interrupted,
        }
    }
}

/// Runs `work`, the part `name` of the program. Returns a panic as an error.
pub fn caught<T>(name: &str, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    panics::catch(name, work).map_err(World::from)?
}

/// Waits for the end of `thread`, the part `name` of the program. Returns its result, or its panic as an error.
pub fn joined<T>(name: &str, thread: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    caught(name, || {
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn fault_of_an_error_is_found_by_its_type() {
        let error = Error::from(World::Interrupted);
        assert!(matches!(error.fault(), Some(World::Interrupted)));
        assert!(error.fault::<FileError>().is_none());
    }

    #[test]
    fn remedy_is_in_the_sentence_or_belongs_to_the_kind() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Sentence(&'static str);
        impl Coded for Sentence {
            fn code(&self) -> Code {
                Code::Network
            }
        }
        let remedy = |text| Error::from(Sentence(text)).remedy();
        assert_eq!(remedy("the port is closed; open it"), "open it");
        assert_eq!(remedy("the port is closed"), Code::Network.remedy());
    }

    #[test]
    fn panic_of_a_thread_is_an_internal_error() {
        assert_eq!(joined("server", thread::spawn(|| Ok(7))), Ok(7));
        let broken: JoinHandle<Result<(), Error>> = thread::spawn(|| panic!("broken on purpose"));
        let error = joined("server", broken).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
        assert!(
            error.text().contains("server: broken on purpose"),
            "{error}"
        );
    }
}
