//! Super-segments: several packets that a kernel passes in one piece.
//!
//! A packet read from a TUN device starts with a `virtio_net_hdr` (virtio 1.2, section 5.1.6). If that has a segment
//! size, the packet stands for several, which differ in lengths, sequence numbers and flags (`tcp_gso_segment`).
//!
//! A run of segments is written as one super-segment, with new headers and a body that is not copied.

use std::io::IoSlice;
use std::net::Ipv4Addr;

/// Length of the header (`virtio_net_hdr`) before each packet, in bytes.
pub const VNET_BYTES: usize = 10;

/// IPv4 packet or super-segment with its virtio-net header.
#[derive(Debug)]
pub struct Packet {
    bytes: Box<[u8]>,
    len: usize,
    /// Length of all headers in bytes: virtio-net, IP, and TCP or UDP.
    head: usize,
    /// Length of the body of each segment, in bytes; the last may be shorter.
    body: usize,
    count: u32,
    is_tcp: bool,
}

impl Packet {
    /// Parses the first `len` bytes of a read. Returns the buffer as an error if they are not an IPv4 packet.
    pub fn new(bytes: Box<[u8]>, len: usize) -> Result<Self, Box<[u8]>> {
        match shape(&bytes[..len]) {
            Some((head, body, is_tcp)) => {
                let count = if body == 0 {
                    1
                } else {
                    (len - head).div_ceil(body) as u32
                };
                Ok(Self {
                    bytes,
                    len,
                    head,
                    body,
                    count,
                    is_tcp,
                })
            }
            None => Err(bytes),
        }
    }

    /// Returns the destination address.
    pub fn target(&self) -> Ipv4Addr {
        let address = &self.bytes[IP + 16..IP + 20];
        Ipv4Addr::new(address[0], address[1], address[2], address[3])
    }

    /// Returns the IP packet or super-segment, without its virtio-net header.
    pub fn octets(&self) -> &[u8] {
        &self.bytes[IP..self.len]
    }

    /// Reports whether the packet is TCP.
    pub fn is_tcp(&self) -> bool {
        self.bytes[IP + 9] == TCP
    }

    /// Returns the number of segments.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the length of segment `number` as an IP packet, in bytes.
    pub fn segment_bytes(&self, number: u32) -> u32 {
        let (from, till) = self.body_range(number, number);
        (self.head - IP + till - from) as u32
    }

    /// Returns the size of the packet's buffer, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the packet's buffer for reuse.
    pub fn into_buffer(self) -> Box<[u8]> {
        self.bytes
    }

    /// Passes the segments `first` to `last` to `write` as one packet, in pieces.
    pub fn show<T>(&self, first: u32, last: u32, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        if first == 0 && last + 1 == self.count {
            return write(&[IoSlice::new(&self.bytes[..self.len])]);
        }
        let mut room = [0_u8; HEAD_MAX];
        let head = &mut room[..self.head];
        head.copy_from_slice(&self.bytes[..self.head]);
        let (from, till) = self.body_range(first, last);
        self.mend(head, first, last, till - from);
        write(&[IoSlice::new(head), IoSlice::new(&self.bytes[from..till])])
    }

    fn body_range(&self, first: u32, last: u32) -> (usize, usize) {
        if self.body == 0 {
            return (self.head, self.len);
        }
        let from = self.head + first as usize * self.body;
        (
            from,
            (self.head + (last as usize + 1) * self.body).min(self.len),
        )
    }

    /// Adapts the copied headers `head` to the segments `first` to `last`, which have `body` bytes.
    fn mend(&self, head: &mut [u8], first: u32, last: u32, body: usize) {
        let is_single = first == last;
        put_native(head, 2, (self.head - VNET_BYTES) as u16);
        if is_single {
            head[1] = 0;
            put_native(head, 4, 0);
        }
        let l4 = IP + ip_head(head);
        put(head, IP + 2, (self.head - IP + body) as u16);
        let id = take(head, IP + 4).wrapping_add(first as u16);
        put(head, IP + 4, id);
        put(head, IP + 10, 0);
        put(head, IP + 10, !sum(&head[IP..l4], 0));
        let l4_bytes = (self.head - l4 + body) as u16;
        let check = if self.is_tcp {
            let seq = &mut head[l4 + 4..l4 + 8];
            let old = u32::from_be_bytes([seq[0], seq[1], seq[2], seq[3]]);
            let new = old.wrapping_add(first.wrapping_mul(self.body as u32));
            seq.copy_from_slice(&new.to_be_bytes());
            if last + 1 != self.count {
                head[l4 + 13] &= !(FIN | PSH);
            }
            if first != 0 {
                head[l4 + 13] &= !CWR;
            }
            l4 + 16
        } else {
            put(head, l4 + 4, l4_bytes);
            l4 + 6
        };
        // The kernel adds the rest to this checksum of the pseudo header (RFC 9293, section 3.1).
        let pseudo = u32::from(head[IP + 9]) + u32::from(l4_bytes);
        put(head, check, sum(&head[IP + 12..IP + 20], pseudo));
    }
}

/// Returns the length of all headers, the length of a segment's body (0 for a single packet), and true for TCP.
fn shape(bytes: &[u8]) -> Option<(usize, usize, bool)> {
    if bytes.len() < IP + 20 || bytes[IP] >> 4 != 4 {
        return None;
    }
    let l4 = IP + ip_head(bytes);
    let single = Some((bytes.len(), 0, false));
    let size = usize::from(u16::from_ne_bytes([bytes[4], bytes[5]]));
    let has_sum_to_do = bytes[0] & NEEDS_SUM != 0;
    let (head, is_tcp) = match bytes[1] & !ECN {
        GSO_TCP4 if bytes.len() > l4 + 20 => (l4 + usize::from(bytes[l4 + 12] >> 4) * 4, true),
        GSO_UDP if bytes.len() > l4 + 8 => (l4 + 8, false),
        _ => return single,
    };
    let is_whole = l4 >= IP + 20 && head >= l4 + if is_tcp { 20 } else { 8 };
    if size == 0 || !has_sum_to_do || !is_whole || head >= bytes.len() || head > HEAD_MAX {
        return single;
    }
    Some((head, size, is_tcp))
}

fn ip_head(bytes: &[u8]) -> usize {
    usize::from(bytes[IP] & 15) * 4
}

/// Computes the ones' complement sum of RFC 1071 over an even number of bytes.
pub fn sum(bytes: &[u8], start: u32) -> u16 {
    let pairs = bytes
        .chunks_exact(2)
        .map(|p| u32::from(u16::from_be_bytes([p[0], p[1]])));
    let mut sum: u32 = start + pairs.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn take(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes a number of two octets in network order.
pub fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn put_native(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
}

const IP: usize = VNET_BYTES;
const HEAD_MAX: usize = IP + 60 + 60;
const NEEDS_SUM: u8 = 1;
/// Protocol number of TCP in an IP header.
const TCP: u8 = 6;
const GSO_TCP4: u8 = 1;
const GSO_UDP: u8 = 5;
const ECN: u8 = 0x80;
const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Creates a super-segment like a kernel's, with `len` bytes of body in segments of `size`.
    fn super_segment(is_tcp: bool, len: usize, size: u16) -> Packet {
        let l4_head = if is_tcp { 32 } else { 8 };
        let mut bytes = vec![0_u8; IP + 20 + l4_head + len];
        let body = IP + 20 + l4_head;
        bytes[0] = NEEDS_SUM;
        bytes[1] = if is_tcp { GSO_TCP4 } else { GSO_UDP };
        put_native(&mut bytes, 4, size);
        bytes[IP] = 0x45;
        bytes[IP + 9] = if is_tcp { 6 } else { 17 };
        bytes[IP + 12..IP + 20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        put(&mut bytes, IP + 4, 0xffff);
        if is_tcp {
            bytes[IP + 20 + 12] = 8 << 4;
            bytes[IP + 20 + 13] = CWR | PSH | FIN;
            bytes[IP + 24..IP + 28].copy_from_slice(&u32::MAX.to_be_bytes());
        }
        for (i, byte) in bytes[body..].iter_mut().enumerate() {
            *byte = i as u8;
        }
        let len = bytes.len();
        Packet::new(bytes.into(), len).unwrap()
    }

    fn shown(packet: &Packet, first: u32, last: u32) -> Vec<u8> {
        packet.show(first, last, |pieces| {
            pieces.iter().flat_map(|p| p.to_vec()).collect()
        })
    }

    #[test]
    fn tcp_segments_get_sequence_numbers_and_flags() {
        let packet = super_segment(true, 3500, 1000);
        assert_eq!(packet.count(), 4);
        assert_eq!([0, 3].map(|n| packet.segment_bytes(n)), [1052, 552]);
        for (first, last, seq, flags) in [
            (0, 0, u32::MAX, CWR),
            (1, 2, 999, 0),
            (3, 3, 2999, PSH | FIN),
        ] {
            let bytes = shown(&packet, first, last);
            assert_eq!(bytes[IP + 24..IP + 28], seq.to_be_bytes(), "{first}");
            assert_eq!(bytes[IP + 33], flags, "{first}");
            assert_eq!(take(&bytes, IP + 4), (first as u16).wrapping_sub(1));
            assert_eq!(
                bytes[1] == 0,
                first == last,
                "only several segments form a super-segment"
            );
        }
    }

    #[test]
    fn packets_that_are_not_ipv4_are_returned() {
        for bytes in [vec![], vec![0; 12], vec![0x60; 60]] {
            let len = bytes.len();
            assert!(Packet::new(bytes.into(), len).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_run_has_correct_lengths_and_checksums(
            is_tcp: bool,
            len in 1_usize..60_000,
            size in 500_u16..9000,
            ends: (prop::sample::Index, prop::sample::Index),
        ) {
            let packet = super_segment(is_tcp, len, size);
            let ends = [ends.0, ends.1].map(|end| end.index(packet.count() as usize) as u32);
            let (first, last) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            prop_assume!(first != 0 || last + 1 != packet.count());
            let bytes = shown(&packet, first, last);
            let l4 = IP + 20;
            prop_assert_eq!(usize::from(take(&bytes, IP + 2)), bytes.len() - IP);
            prop_assert_eq!(sum(&bytes[IP..l4], 0), 0xffff);
            let in_segments: u32 = (first..=last).map(|n| packet.segment_bytes(n)).sum();
            let heads = (packet.head - IP) as u32;
            prop_assert_eq!(in_segments, bytes.len() as u32 - IP as u32 + heads * (last - first));
            // The field holds the checksum of the pseudo header only.
            let check = l4 + if is_tcp { 16 } else { 6 };
            let pseudo = [&bytes[IP + 12..IP + 20], &[0, bytes[IP + 9]]].concat();
            let len = (bytes.len() - l4) as u32;
            prop_assert_eq!(take(&bytes, check), sum(&pseudo, len));
        }

        #[test]
        fn random_octets_never_panic(bytes: Vec<u8>, first: u32) {
            let len = bytes.len();
            if let Ok(packet) = Packet::new(bytes.into(), len) {
                let first = first % packet.count();
                let bytes = shown(&packet, first, first);
                prop_assert!(bytes.len() <= len);
            }
        }
    }
}
