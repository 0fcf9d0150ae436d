//! Settings of a network interface: rings, offloads and the hash that spreads flows (`SIOCETHTOOL`).
//!
//! Each function asks the driver of one interface. A driver without the setting gives an error.

use std::io;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

/// Descriptors that the driver keeps for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Packets that the ring takes now.
    pub now: u32,
    /// Packets that the hardware can keep.
    pub max: u32,
}

/// Work that the interface or the kernel does for large batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// True if the kernel coalesces received packets (GRO).
    pub coalesces: bool,
    /// True if batches stay whole until the driver has them (GSO).
    pub segments: bool,
    /// True if the hardware computes checksums of sent packets.
    pub checksums: bool,
}

/// Returns the receive ring of `interface`.
pub fn receive_ring(interface: &str) -> io::Result<Ring> {
    // struct ethtool_ringparam: the limits of four rings, then their sizes
    let words = ask(interface, ETHTOOL_GRINGPARAM, 0)?;
    Ok(Ring {
        max: words[1],
        now: words[5],
    })
}

/// Returns the offloads of `interface`.
pub fn offloads(interface: &str) -> io::Result<Offloads> {
    let is_on = |command| ask(interface, command, 0).map(|words| words[1] != 0);
    Ok(Offloads {
        coalesces: is_on(ETHTOOL_GGRO)?,
        segments: is_on(ETHTOOL_GGSO)?,
        checksums: is_on(ETHTOOL_GTXCSUM)?,
    })
}

/// Returns true if `interface` spreads UDP flows of one pair of hosts over its queues by their ports.
pub fn hashes_udp_ports(interface: &str, is_ipv6: bool) -> io::Result<bool> {
    let flow = if is_ipv6 { UDP_V6_FLOW } else { UDP_V4_FLOW };
    // the 64-bit answer begins at the third word
    let words = ask(interface, ETHTOOL_GRXFH, flow)?;
    let low = if cfg!(target_endian = "big") { 3 } else { 2 };
    Ok(words[low] & RXH_PORTS == RXH_PORTS)
}

/// Words of the largest answer that the kernel writes for these commands: `struct ethtool_rxnfc`.
const WORDS: usize = 64;

/// Request or answer, aligned as the kernel's structures are.
#[repr(C, align(8))]
struct Words([u32; WORDS]);

/// Asks the driver of `interface`. The first words of the request are `command` and `argument`.
fn ask(interface: &str, command: u32, argument: u32) -> io::Result<[u32; WORDS]> {
    let mut words = Words([0; WORDS]);
    words.0[0] = command;
    words.0[1] = argument;
    // SAFETY: all fields of the request may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if interface.is_empty() || interface.len() > room || interface.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut words).cast();
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    // SAFETY: the request has a name that ends with a zero; its data are writable, and longer than each answer.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if status == 0 {
        Ok(words.0)
    } else {
        Err(io::Error::last_os_error())
    }
}

// From linux/sockios.h and linux/ethtool.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GRXFH: u32 = 0x29;
const ETHTOOL_GGRO: u32 = 0x2b;
const UDP_V4_FLOW: u32 = 0x02;
const UDP_V6_FLOW: u32 = 0x06;
/// Both ports: `RXH_L4_B_0_1` and `RXH_L4_B_2_3`.
const RXH_PORTS: u32 = 1 << 6 | 1 << 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_offloads_and_no_ring() {
        let found = offloads("lo").unwrap();
        assert!(found.segments && found.checksums, "{found:?}");
        let error = receive_ring("lo").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
    }

    #[test]
    fn unknown_and_impossible_names_are_refused() {
        assert!(offloads("no-such-if").is_err());
        for name in ["", "a-name-that-is-too-long", "a\0b"] {
            let error = offloads(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
