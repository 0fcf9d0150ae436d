//! Where the bytes of an object come from and where they go.

use lighthaul_base::{Endpoint, Load, Span};

use crate::error::Error;

/// What a driver gathers bodies from and places them in.
///
/// A sender's store answers `gather`, a receiver's `slot`; memory answers both.
pub trait Store {
    /// Reads ahead what `endpoint` says it will send next.
    fn foresee<E: Endpoint>(&mut self, _endpoint: &E) -> Result<(), Error> {
        Ok(())
    }

    /// The bytes of `span`. They stay valid until [`Store::sent`].
    fn gather(&mut self, span: Span) -> Result<&[u8], Error>;

    /// What was gathered so far has left.
    fn sent(&mut self) {}

    /// Where the bytes of `span` belong; nothing if nobody keeps them.
    fn slot(&mut self, span: Span) -> Result<Option<&mut [u8]>, Error>;

    /// Where the bytes of `span`, several packets, belong in one piece; nothing if they do not.
    fn landing(&mut self, _span: Span) -> Option<&mut [u8]> {
        None
    }

    /// The bytes of `span` are in their slot.
    fn placed(&mut self, _span: Span) -> Result<(), Error> {
        Ok(())
    }

    /// How the host is doing.
    fn load(&self) -> Load {
        Load::default()
    }
}
