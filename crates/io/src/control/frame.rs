//! What crosses a control connection: a length, a stream's number, a head and a body.

use std::io;

use lighthaul_base::Reader;

/// One message on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// A datagram that crosses here because UDP does not pass.
    pub datagram: bool,
    /// How much of `octets` is the head; the rest is bytes of the object.
    pub head_len: usize,
    /// Head and body.
    pub octets: Vec<u8>,
}

impl Frame {
    /// A message without a body.
    pub fn message(octets: Vec<u8>) -> Self {
        Self {
            datagram: false,
            head_len: octets.len(),
            octets,
        }
    }

    /// Memory that it takes while it waits; an empty one takes some, too.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.octets.len()
    }
}

/// Octets in front of every frame.
pub(super) const HEADER: usize = 8;
/// The longest frame that is taken from a peer: the tally of the largest object, and a head.
pub const FRAME_MAX: usize = (128 << 20) + 64;

/// The first frame in `octets`, its stream and its length on the wire; nothing if it is not all there.
pub fn parse(octets: &[u8]) -> io::Result<Option<(u16, Frame, usize)>> {
    let bad = |_| io::Error::other("the peer sent a malformed frame");
    if octets.len() < HEADER {
        return Ok(None);
    }
    let mut reader = Reader::new(octets);
    let len = reader.u32().map_err(bad)? as usize;
    let number = reader.u16().map_err(bad)?;
    let flags = reader.u8().map_err(bad)?;
    let head_len = usize::from(reader.u8().map_err(bad)?);
    if len > FRAME_MAX || flags > 3 || head_len > len {
        return Err(io::Error::other("the peer sent a malformed frame"));
    }
    let Ok(body) = reader.take(len) else {
        return Ok(None);
    };
    let head_len = if flags & 2 == 0 { head_len } else { len };
    let frame = Frame {
        datagram: flags & 1 == 1,
        head_len,
        octets: body.to_vec(),
    };
    Ok(Some((number, frame, HEADER + len)))
}
