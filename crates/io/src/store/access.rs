//! Access to the bytes of objects.

use lighthaul_base::{Endpoint, Load, Span};

use crate::error::Error;

/// Bytes of an object, for a driver that sends or receives it.
///
/// A sender's store implements `gather`, a receiver's `slot`; [`Memory`](crate::store::memory::Memory) implements both.
pub trait Store {
    /// Reads ahead the spans that `endpoint` will send next.
    fn read_ahead_for<E: Endpoint>(&mut self, _endpoint: &E) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the bytes of `span`, which stay valid until [`Store::sent`].
    fn gather(&mut self, span: Span) -> Result<&[u8], Error>;

    /// Releases the gathered bytes, which have been sent.
    fn sent(&mut self) {}

    /// Returns the place for the bytes of `span`, or `None` if the store does not keep them.
    fn slot(&mut self, span: Span) -> Result<Option<&mut [u8]>, Error>;

    /// Returns one contiguous place for the packets of `span`, or `None` if the store has none.
    fn landing(&mut self, _span: Span) -> Option<&mut [u8]> {
        None
    }

    /// Records that the bytes of `span` are in their place.
    fn placed(&mut self, _span: Span) -> Result<(), Error> {
        Ok(())
    }

    /// Returns the store's backlog, as a sample of the host's load.
    fn load(&self) -> Load {
        Load::default()
    }
}
