//! A train: datagrams of one size, gathered from where they lie and given to the kernel in one call.

use std::io;

use lighthaul_base::Head;

use crate::seal::{Key, TAG_LEN};
use crate::udp::{TRAIN_BYTES_MAX, TRAIN_DATAGRAMS_MAX, Udp};

/// Octets of the connection's number in front of every head.
pub const CONNECTION_LEN: usize = 8;

/// Datagrams on their way to one system call. What they point at must outlive [`Train::flush`].
pub(crate) struct Train {
    prefixes: Vec<[u8; CONNECTION_LEN + Head::MAX]>,
    tags: Vec<[u8; TAG_LEN]>,
    parts: Vec<libc::iovec>,
    parts_each: usize,
    datagram_len: usize,
    len: usize,
    /// A datagram shorter than the others ends a train.
    short: bool,
}

// SAFETY: the pointers in `parts` are only followed in `flush`, by the thread that owns the train.
unsafe impl Send for Train {}

impl Train {
    pub(crate) fn new() -> Self {
        Self {
            prefixes: Vec::with_capacity(TRAIN_DATAGRAMS_MAX),
            tags: Vec::with_capacity(TRAIN_DATAGRAMS_MAX),
            parts: Vec::with_capacity(3 * TRAIN_DATAGRAMS_MAX),
            parts_each: 0,
            datagram_len: 0,
            len: 0,
            short: false,
        }
    }

    /// Whether a datagram with `head_len` and `body_len` octets can still join.
    pub(crate) fn admits(&self, head_len: usize, body_len: usize, sealed: bool) -> bool {
        let len = datagram_len(head_len, body_len, sealed);
        let room = self.prefixes.len() < TRAIN_DATAGRAMS_MAX && self.len + len <= TRAIN_BYTES_MAX;
        self.prefixes.is_empty() || !self.short && len <= self.datagram_len && room
    }

    /// Adds a datagram that [`Train::admits`]; encrypts `body` in place if there is a `key`.
    pub(crate) fn push(
        &mut self,
        connection: u64,
        head: &Head,
        body: &mut [u8],
        key: Option<&Key>,
    ) {
        let head = head.as_slice();
        let prefix_len = CONNECTION_LEN + head.len();
        let mut prefix = [0; CONNECTION_LEN + Head::MAX];
        prefix[..CONNECTION_LEN].copy_from_slice(&connection.to_be_bytes());
        prefix[CONNECTION_LEN..prefix_len].copy_from_slice(head);
        let tag = key.map(|key| key.seal(unique(head), &prefix[..prefix_len], body));
        let len = datagram_len(head.len(), body.len(), tag.is_some());
        if self.prefixes.is_empty() {
            self.datagram_len = len;
        }
        self.short = len < self.datagram_len;
        self.len += len;
        assert!(
            self.prefixes.len() < TRAIN_DATAGRAMS_MAX,
            "the train admits it"
        );
        self.prefixes.push(prefix);
        let prefix = self
            .prefixes
            .last_mut()
            .map_or(std::ptr::null_mut(), |p| p.as_mut_ptr());
        self.part(prefix, prefix_len);
        self.part(body.as_mut_ptr(), body.len());
        self.parts_each = 2;
        if let Some(tag) = tag {
            self.tags.push(tag);
            let tag = self
                .tags
                .last_mut()
                .map_or(std::ptr::null_mut(), |t| t.as_mut_ptr());
            self.part(tag, TAG_LEN);
            self.parts_each = 3;
        }
    }

    /// Sends what has gathered; answers how many datagrams.
    pub(crate) fn flush(&mut self, udp: &Udp) -> io::Result<usize> {
        let count = self.prefixes.len();
        if count > 0 {
            udp.send_train(&self.parts, self.parts_each, self.datagram_len)?;
            self.prefixes.clear();
            self.tags.clear();
            self.parts.clear();
            self.len = 0;
            self.short = false;
        }
        Ok(count)
    }

    fn part(&mut self, start: *mut u8, len: usize) {
        self.parts.push(libc::iovec {
            iov_base: start.cast(),
            iov_len: len,
        });
    }
}

/// The eight octets of a head that never come twice.
pub(crate) fn unique(head: &[u8]) -> u64 {
    head.first_chunk()
        .map_or(0, |octets| u64::from_be_bytes(*octets))
}

/// Octets of a datagram behind its UDP header.
pub const fn datagram_len(head_len: usize, body_len: usize, sealed: bool) -> usize {
    CONNECTION_LEN + head_len + body_len + if sealed { TAG_LEN } else { 0 }
}
