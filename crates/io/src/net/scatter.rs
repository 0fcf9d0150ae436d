//! Second receiver of the paper ("scatter"): receives bodies in their expected places, and moves them on a mismatch.

use std::io;

use crate::net::train::CONNECTION_LEN;
use crate::net::udp::{Received, TRAIN_DATAGRAMS_MAX, Udp};

/// Layout of datagrams: prefix, body and authentication tag, with their lengths in octets.
#[expect(clippy::struct_field_names, reason = "each length names its part")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) prefix_len: usize,
    pub(crate) body_len: usize,
    pub(crate) tag_len: usize,
}

/// Buffers for prefixes and tags, and for bodies that arrive beyond the expected place.
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

    /// Receives one train. Its bodies are expected consecutively in `landing`.
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

    /// Returns the prefix and the tag of datagram `index`.
    pub(crate) fn around(&self, index: usize, layout: Layout) -> (&[u8], &[u8]) {
        let prefix = index * layout.prefix_len;
        let tag = index * layout.tag_len;
        (
            &self.prefixes[prefix..prefix + layout.prefix_len],
            &self.tags[tag..tag + layout.tag_len],
        )
    }

    /// Copies a reception of `len` octets into one buffer, as if it had not been scattered.
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
