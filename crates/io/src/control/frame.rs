//! Frames of a control connection.
//!
//! ```text
//! | length: 4 | stream: 2 | flags: 1 | head length: 1 | head | body | tag: 16, if sealed |
//! ```
//!
//! Numbers are in octets and big-endian. The length is that of head and body. Flag 1 marks a datagram, and flag 2 a
//! frame that is all head, which may exceed 255 octets. [`Assembly`] joins the octets of a connection to [`Frame`]s.
//! It allocates at most 64 KiB before octets arrive, whatever length a peer claims.

use std::io;

use lighthaul_base::Reader;

use crate::crypto::cipher::TAG_LEN;
use crate::crypto::seal::Key;

/// Message on a stream, or a datagram that the stream carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// True for a datagram that is sent on the stream because UDP does not pass.
    pub datagram: bool,
    /// Length of the head at the beginning of `octets`; the octets after the head are the body, bytes of the object.
    pub head_len: usize,
    /// Head and body.
    pub octets: Vec<u8>,
}

impl Frame {
    /// Creates a message without a body.
    pub fn message(octets: Vec<u8>) -> Self {
        Self {
            datagram: false,
            head_len: octets.len(),
            octets,
        }
    }

    /// Returns the bytes that a waiting frame counts for in a queue, not less than the size of the struct.
    pub(super) fn cost(&self) -> usize {
        size_of::<Self>() + self.octets.len()
    }
}

/// Length of a frame's header, in octets.
pub(super) const HEADER: usize = 8;
/// Stream number of the marker frame, the last frame before the connection leaves TLS.
pub(super) const LEAVE: u16 = u16::MAX;
/// Longest frame from a peer, in octets: a message, packet or tally with its head. Each connection may have one open.
pub const FRAME_MAX: usize = (1 << 20) + 256;

/// Decoder that assembles frames from the octets of a connection.
#[derive(Debug, Default)]
pub struct Assembly {
    header: [u8; HEADER],
    /// Octets of the header received so far.
    header_len: usize,
    /// Frame whose header is complete.
    partial: Option<PartialFrame>,
    /// Key that opens frames which are sealed individually.
    open: Option<Key>,
    /// Number of frames opened so far, which is the nonce of the next frame.
    opened: u64,
}

/// Incomplete frame whose header is complete.
#[derive(Debug)]
struct PartialFrame {
    stream: u16,
    len: usize,
    frame: Frame,
}

impl Assembly {
    /// Expects that all later frames are sealed with `open` and numbered from 0; plain if `None`.
    pub fn unseal(&mut self, open: Option<Key>) {
        self.open = open;
    }

    /// Consumes the octets at the beginning of `octets` that belong to one frame.
    ///
    /// Returns their number, and a complete frame with its stream. Fails if it is malformed, forged or above `longest`.
    pub fn take(
        &mut self,
        octets: &[u8],
        longest: usize,
    ) -> io::Result<(usize, Option<(u16, Frame)>)> {
        let mut taken = 0;
        if self.partial.is_none() {
            taken = octets.len().min(HEADER - self.header_len);
            self.header[self.header_len..self.header_len + taken].copy_from_slice(&octets[..taken]);
            self.header_len += taken;
            if self.header_len < HEADER {
                return Ok((taken, None));
            }
            let mut partial = begin(self.header, longest)?;
            partial.len += if self.open.is_some() { TAG_LEN } else { 0 };
            self.partial = Some(partial);
        }
        let Some(partial) = &mut self.partial else {
            return Ok((taken, None));
        };
        let missing = partial.len - partial.frame.octets.len();
        let end = octets.len().min(taken + missing);
        partial.frame.octets.extend_from_slice(&octets[taken..end]);
        if partial.frame.octets.len() < partial.len {
            return Ok((end, None));
        }
        self.header_len = 0;
        let mut partial = self.partial.take();
        if let (Some(key), Some(partial)) = (&self.open, &mut partial) {
            let sealed = &mut partial.frame.octets;
            let opened = key.open(self.opened, &self.header, sealed);
            let len = opened.ok_or_else(forged)?.len();
            sealed.truncate(len);
            self.opened += 1;
        }
        Ok((end, partial.map(|partial| (partial.stream, partial.frame))))
    }

    /// Returns the number of octets that wait for the end of their frame.
    pub fn waiting(&self) -> usize {
        let frame = self.partial.as_ref();
        self.header_len + frame.map_or(0, |partial| partial.frame.octets.len())
    }
}

fn forged() -> io::Error {
    io::Error::other("a frame failed authentication: it was changed or forged on its way")
}

/// Parses a frame's header. Allocates at most 64 KiB, so that a forged length costs no memory.
fn begin(header: [u8; HEADER], longest: usize) -> io::Result<PartialFrame> {
    let bad = |_| io::Error::other("the peer sent a malformed frame");
    let mut reader = Reader::new(&header);
    let len = reader.u32().map_err(bad)? as usize;
    let stream = reader.u16().map_err(bad)?;
    let flags = reader.u8().map_err(bad)?;
    let head_len = usize::from(reader.u8().map_err(bad)?);
    if len > FRAME_MAX || flags > 3 || head_len > len {
        return Err(io::Error::other("the peer sent a malformed frame"));
    }
    if len > longest {
        return Err(io::Error::other(
            "the peer sent a frame longer than the limit",
        ));
    }
    let frame = Frame {
        datagram: flags & 1 == 1,
        head_len: if flags & 2 == 0 { head_len } else { len },
        octets: Vec::with_capacity(len.min(AT_ONCE) + TAG_LEN),
    };
    Ok(PartialFrame { stream, len, frame })
}

/// Memory that is allocated for a frame before its octets arrive.
const AT_ONCE: usize = 64 << 10;
