//! ICMP message for a packet that exceeds the MTU of the next link (RFC 792, RFC 1191).

use lighthaul_kernel::segment::{VNET_BYTES, put, sum};

/// Creates "fragmentation needed" with the next link's `mtu`, addressed to the sender of the IP
/// packet `offender`. Starts with a virtio-net header.
pub(crate) fn too_long(offender: &[u8], mtu: u32) -> Vec<u8> {
    let quoted = offender.len().min(QUOTED_BYTES);
    let icmp = VNET_BYTES + 20;
    let mut bytes = vec![0; icmp + 8];
    bytes.extend_from_slice(&offender[..quoted]);
    let len = bytes.len() - VNET_BYTES;
    let ip = &mut bytes[VNET_BYTES..];
    ip[0] = 0x45;
    put(ip, 2, len as u16);
    ip[8] = 64;
    ip[9] = PROTOCOL_ICMP;
    ip[12..16].copy_from_slice(&ROUTER);
    ip[16..20].copy_from_slice(&offender[12..16]);
    put(ip, 10, !sum(&ip[..20], 0));
    let message = &mut bytes[icmp..];
    message[0] = UNREACHABLE;
    message[1] = FRAGMENTATION_NEEDED;
    put(message, 6, mtu as u16);
    put(message, 2, !sum(message, 0));
    bytes
}

/// Octets of the packet that are quoted: the longest IP header and the next words. Even, as [`sum`]
/// requires.
const QUOTED_BYTES: usize = 68;
const PROTOCOL_ICMP: u8 = 1;
const UNREACHABLE: u8 = 3;
const FRAGMENTATION_NEEDED: u8 = 4;
/// Address of all routers, the last one of the lab.
const ROUTER: [u8; 4] = [10, 77, 255, 254];
