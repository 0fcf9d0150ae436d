//! Messages of the simulated TCP.

use lighthaul_base::Head;

/// Length of the head of a data packet, in octets.
pub const HEAD_LEN: usize = 8;

/// Head of a data packet. Each transmission of a packet has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) transmission: u32,
    pub(super) packet: u32,
}

impl Data {
    pub(super) fn to_head(self) -> Head {
        let mut octets = [0; HEAD_LEN];
        octets[..4].copy_from_slice(&self.transmission.to_be_bytes());
        octets[4..].copy_from_slice(&self.packet.to_be_bytes());
        Head::new(&octets)
    }

    pub(super) fn from_head(head: &[u8]) -> Option<Self> {
        let [transmission, packet] = pair(head)?;
        Some(Self {
            transmission,
            packet,
        })
    }
}

/// Acknowledgment of consecutive transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ack {
    pub(super) fn to_head(self) -> Head {
        Data {
            transmission: self.first,
            packet: self.last,
        }
        .to_head()
    }

    pub(super) fn from_head(head: &[u8]) -> Option<Self> {
        let [first, last] = pair(head)?;
        (first <= last).then_some(Self { first, last })
    }
}

/// Returns two numbers of four octets.
fn pair(head: &[u8]) -> Option<[u32; 2]> {
    let (first, second) = head.split_at_checked(4)?;
    let number = |octets: &[u8]| octets.try_into().ok().map(u32::from_be_bytes);
    Some([number(first)?, number(second)?])
}
