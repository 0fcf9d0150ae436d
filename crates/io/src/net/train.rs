//! Trains: datagrams of one size, sent with one system call (UDP GSO, udp(7)).
//!
//! ```text
//! datagram: | connection number: 8 | head | body | tag: 16, if sealed |
//! train:    | datagram | datagram | ... | last datagram, may be shorter |
//! ```
//!
//! `Train` collects datagrams until [`Udp`] sends them. Numbers are lengths in octets. All datagrams of one train are
//! sealed, or none is. The first 8 octets of the head are the nonce under the lane's key.

use std::io;

use lighthaul_base::Head;

use crate::crypto::cipher::TAG_LEN;
use crate::crypto::seal::Key;
use crate::net::udp::{TRAIN_BYTES_MAX, TRAIN_DATAGRAMS_MAX, Udp};

/// Length of the connection number in front of every head, in octets.
pub const CONNECTION_LEN: usize = 8;

const PREFIX_MAX: usize = CONNECTION_LEN + Head::MAX;
/// Pieces (iovecs) of a plain datagram: prefix and body.
const PARTS_EACH: usize = 2;

/// Size of a cache line, in octets.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Datagrams for one system call. Their bodies must outlive [`Train::flush`].
///
/// Plain bodies are sent from their place. Sealed ones are copied into one buffer first, because
/// sealing overwrites them; the kernel also takes one buffer faster than pieces.
pub(crate) struct Train {
    prefixes: Vec<[u8; PREFIX_MAX]>,
    parts: Vec<libc::iovec>,
    sealed: Box<[u8]>,
    datagram_len: usize,
    count: usize,
    len: usize,
    /// True after a datagram shorter than the ones before, which ends a train.
    short: bool,
}

// SAFETY: the pointers in `parts` are only followed in `flush`, by the thread that owns the train.
unsafe impl Send for Train {}

impl Train {
    pub(crate) fn new() -> Self {
        Self {
            prefixes: Vec::with_capacity(TRAIN_DATAGRAMS_MAX),
            parts: Vec::with_capacity(PARTS_EACH * TRAIN_DATAGRAMS_MAX),
            sealed: vec![0; TRAIN_BYTES_MAX].into(),
            datagram_len: 0,
            count: 0,
            len: 0,
            short: false,
        }
    }

    /// Reports whether a datagram with `head_len` and `body_len` octets can be added.
    pub(crate) fn admits(&self, head_len: usize, body_len: usize, sealed: bool) -> bool {
        let len = datagram_len(head_len, body_len, sealed);
        let room = self.count < TRAIN_DATAGRAMS_MAX && self.len + len <= TRAIN_BYTES_MAX;
        self.count == 0 || !self.short && len <= self.datagram_len && room
    }

    /// Adds a datagram, sealed if `key` is set. Panics if the train is full: check [`Train::admits`] first.
    pub(crate) fn push(&mut self, connection: u64, head: &Head, body: &[u8], key: Option<&Key>) {
        assert!(self.count < TRAIN_DATAGRAMS_MAX, "the train must have room");
        let len = datagram_len(head.as_slice().len(), body.len(), key.is_some());
        if let Some(key) = key {
            let datagram = &mut self.sealed[self.len..self.len + len];
            let (sealed_prefix, rest) =
                datagram.split_at_mut(CONNECTION_LEN + head.as_slice().len());
            let (sealed_body, tag) = rest.split_at_mut(body.len());
            write_prefix(sealed_prefix, connection, head);
            sealed_body.copy_from_slice(body);
            fetch_behind(body);
            let number = unique(head.as_slice());
            tag.copy_from_slice(&key.seal(number, sealed_prefix, sealed_body));
        } else {
            let (prefix, prefix_len) = prefix(connection, head);
            self.prefixes.push(prefix);
            let prefix = self
                .prefixes
                .last()
                .map_or(std::ptr::null(), |p| p.as_ptr());
            self.part(prefix, prefix_len);
            self.part(body.as_ptr(), body.len());
        }
        if self.count == 0 {
            self.datagram_len = len;
        }
        self.short = len < self.datagram_len;
        self.count += 1;
        self.len += len;
    }

    /// Sends the datagrams. Returns their number.
    pub(crate) fn flush(&mut self, udp: &Udp) -> io::Result<usize> {
        let count = self.count;
        if count > 0 {
            if self.parts.is_empty() {
                udp.send_row(&self.sealed[..self.len], self.datagram_len)?;
            } else {
                udp.send_train(&self.parts, PARTS_EACH, self.datagram_len)?;
            }
            self.prefixes.clear();
            self.parts.clear();
            self.count = 0;
            self.len = 0;
            self.short = false;
        }
        Ok(count)
    }

    fn part(&mut self, start: *const u8, len: usize) {
        self.parts.push(libc::iovec {
            iov_base: start.cast_mut().cast(),
            iov_len: len,
        });
    }
}

/// Returns the connection number followed by `head`, and the length of both in octets.
pub(crate) fn prefix(connection: u64, head: &Head) -> ([u8; PREFIX_MAX], usize) {
    let len = CONNECTION_LEN + head.as_slice().len();
    let mut octets = [0; PREFIX_MAX];
    write_prefix(&mut octets[..len], connection, head);
    (octets, len)
}

fn write_prefix(octets: &mut [u8], connection: u64, head: &Head) {
    let (number, rest) = octets.split_at_mut(CONNECTION_LEN);
    number.copy_from_slice(&connection.to_be_bytes());
    rest.copy_from_slice(head.as_slice());
}

/// Returns the first eight octets of a head, which are unique per key.
pub(crate) fn unique(head: &[u8]) -> u64 {
    head.first_chunk()
        .map_or(0, |octets| u64::from_be_bytes(*octets))
}

/// Returns the length of a datagram, without its UDP header, in octets.
pub const fn datagram_len(head_len: usize, body_len: usize, sealed: bool) -> usize {
    CONNECTION_LEN + head_len + body_len + if sealed { TAG_LEN } else { 0 }
}

/// Prefetches the memory after `body`, as many octets as `body` has. The next body mostly lies there, in no cache.
fn fetch_behind(body: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let next = body.as_ptr_range().end;
        for line in (0..body.len()).step_by(CACHE_LINE) {
            // SAFETY: a prefetch is only a hint and never faults
            unsafe { _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = body;
}
