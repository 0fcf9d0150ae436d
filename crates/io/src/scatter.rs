//! The paper's second receiver: bodies are received straight into the place where the next ones are
//! expected, and moved only if others came.

use std::io;

use crate::train::CONNECTION_LEN;
use crate::udp::{Received, TRAIN_DATAGRAMS_MAX, Udp};

/// How datagrams are laid out: what is in front of each body, the body, and the tag behind it.
#[expect(clippy::struct_field_names, reason = "a length says what of")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) prefix_len: usize,
    pub(crate) body_len: usize,
    pub(crate) tag_len: usize,
}

/// Buffers for what is not body, and for bodies that landed where nothing was expected.
#[derive(Debug)]
pub(crate) struct Scatter {
    prefixes: Vec<u8>,
    tags: Vec<u8>,
    overflow: Vec<u8>,
    parts: Vec<libc::iovec>,
}

impl Scatter {
    pub(crate) fn new() -> Self {
        Self {
            prefixes: vec![0; TRAIN_DATAGRAMS_MAX * 64],
            tags: vec![0; TRAIN_DATAGRAMS_MAX * 16],
            overflow: vec![0; 1 << 16],
            parts: Vec::with_capacity(3 * TRAIN_DATAGRAMS_MAX + 1),
        }
    }

    /// Receives one train whose bodies are expected one behind the other in `landing`.
    pub(crate) fn receive(
        &mut self,
        udp: &Udp,
        layout: Layout,
        landing: &mut [u8],
        drops: &mut u32,
    ) -> io::Result<Option<Received>> {
        assert!(
            CONNECTION_LEN <= layout.prefix_len && layout.prefix_len <= 64,
            "a short prefix"
        );
        self.parts.clear();
        let prefixes = self.prefixes.chunks_mut(layout.prefix_len);
        let tags = self.tags.chunks_mut(layout.tag_len.max(1));
        let bodies = landing.chunks_mut(layout.body_len);
        for ((prefix, tag), body) in prefixes.zip(tags).zip(bodies).take(TRAIN_DATAGRAMS_MAX) {
            if body.len() < layout.body_len {
                break;
            }
            self.parts.push(part(prefix));
            self.parts.push(part(body));
            if layout.tag_len > 0 {
                self.parts.push(part(tag));
            }
        }
        self.parts.push(part(&mut self.overflow));
        udp.receive(&mut self.parts, drops)
    }

    /// The prefix and tag of datagram `index`.
    pub(crate) fn around(&self, index: usize, layout: Layout) -> (&[u8], &[u8]) {
        let prefix = index * layout.prefix_len;
        let tag = index * layout.tag_len;
        (
            &self.prefixes[prefix..prefix + layout.prefix_len],
            &self.tags[tag..tag + layout.tag_len],
        )
    }

    /// Brings a reception of `len` octets back into one piece, as if it had not been scattered.
    pub(crate) fn collect(&self, layout: Layout, landing: &[u8], len: usize, whole: &mut [u8]) {
        let mut done = 0;
        let mut put = |octets: &[u8]| {
            let count = octets.len().min(len - done);
            whole[done..done + count].copy_from_slice(&octets[..count]);
            done += count;
        };
        for (index, body) in landing
            .chunks_exact(layout.body_len)
            .take(TRAIN_DATAGRAMS_MAX)
            .enumerate()
        {
            let (prefix, tag) = self.around(index, layout);
            put(prefix);
            put(body);
            put(tag);
        }
        put(&self.overflow);
    }
}

fn part(buffer: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    }
}
