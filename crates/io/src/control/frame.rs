//! What crosses a control connection: a length, a stream's number, a head and a body.

use std::io;

use lighthaul_base::Reader;

use crate::seal::{Key, TAG_LEN};

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
/// The stream of no frame but the last that TLS carries before the connection leaves it.
pub(super) const LEAVE: u16 = u16::MAX;
/// The longest frame that is taken from a peer: the tally of the largest object, and a head.
pub const FRAME_MAX: usize = (128 << 20) + 64;

/// Frames as they come together from the octets of a connection.
#[derive(Debug, Default)]
pub struct Assembly {
    header: [u8; HEADER],
    /// How much of the header is there.
    there: usize,
    /// The frame that the header is about.
    begun: Option<Begun>,
    /// Opens frames that are sealed each by itself.
    open: Option<Key>,
    /// How many that were.
    opened: u64,
}

/// A frame of which the header is there.
#[derive(Debug)]
struct Begun {
    stream: u16,
    len: usize,
    frame: Frame,
}

impl Assembly {
    /// Takes frames from now on for sealed by themselves, the first with the number 0.
    pub fn unseal(&mut self, open: Option<Key>) {
        self.open = open;
    }

    /// Takes from the beginning of `octets` what belongs to one frame, of at most `longest` octets; answers how many
    /// those were, and the frame and its stream if that was the end of it.
    pub fn take(
        &mut self,
        octets: &[u8],
        longest: usize,
    ) -> io::Result<(usize, Option<(u16, Frame)>)> {
        let mut taken = 0;
        if self.begun.is_none() {
            taken = octets.len().min(HEADER - self.there);
            self.header[self.there..self.there + taken].copy_from_slice(&octets[..taken]);
            self.there += taken;
            if self.there < HEADER {
                return Ok((taken, None));
            }
            let mut begun = begin(self.header, longest)?;
            begun.len += if self.open.is_some() { TAG_LEN } else { 0 };
            self.begun = Some(begun);
        }
        let Some(begun) = &mut self.begun else {
            return Ok((taken, None));
        };
        let missing = begun.len - begun.frame.octets.len();
        let end = octets.len().min(taken + missing);
        begun.frame.octets.extend_from_slice(&octets[taken..end]);
        if begun.frame.octets.len() < begun.len {
            return Ok((end, None));
        }
        self.there = 0;
        let mut begun = self.begun.take();
        if let (Some(key), Some(begun)) = (&self.open, &mut begun) {
            let sealed = &mut begun.frame.octets;
            let opened = key.open(self.opened, &self.header, sealed);
            let len = opened.ok_or_else(forged)?.len();
            sealed.truncate(len);
            self.opened += 1;
        }
        Ok((end, begun.map(|begun| (begun.stream, begun.frame))))
    }

    /// How many octets wait for the rest of their frame.
    pub fn waiting(&self) -> usize {
        let frame = self.begun.as_ref();
        self.there + frame.map_or(0, |begun| begun.frame.octets.len())
    }
}

fn forged() -> io::Error {
    io::Error::other("what came is not what the peer sent")
}

/// The frame that a header is about; memory for all of it is only taken as it comes.
fn begin(header: [u8; HEADER], longest: usize) -> io::Result<Begun> {
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
        return Err(io::Error::other("the peer sent a frame that is too long"));
    }
    let frame = Frame {
        datagram: flags & 1 == 1,
        head_len: if flags & 2 == 0 { head_len } else { len },
        octets: Vec::with_capacity(len.min(AT_ONCE) + TAG_LEN),
    };
    Ok(Begun { stream, len, frame })
}

/// Memory that a frame gets before it is there.
const AT_ONCE: usize = 64 << 10;
