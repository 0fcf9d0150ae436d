//! ARP messages: requests and answers (RFC 826), and announcements of an address (RFC 5227, section 3).
//! Each is a whole Ethernet frame.

use std::net::Ipv4Addr;

/// Ethernet address of an interface.
pub type Mac = [u8; 6];

/// Request for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Ethernet address of the sender.
    pub mac: Mac,
    /// IPv4 address of the sender; unspecified in a probe (RFC 5227).
    pub address: Ipv4Addr,
    /// Requested address.
    pub wanted: Ipv4Addr,
}

impl Request {
    /// Decodes an ARP frame; returns none for other frames. Padding of short frames is ignored.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let message: &[u8; LEN] = frame.get(HEAD..)?.first_chunk()?;
        if frame[12..HEAD] != ETHERTYPE || message[..6] != KINDS || message[6..8] != REQUEST {
            return None;
        }
        let address = |at: usize| {
            let octets = message[at..].first_chunk::<4>().copied();
            octets.map(Ipv4Addr::from)
        };
        Some(Self {
            mac: *message[8..].first_chunk()?,
            address: address(14)?,
            wanted: address(24)?,
        })
    }

    /// Returns the answer: `mac` has the requested address.
    pub fn answer(&self, mac: Mac) -> [u8; FRAME_LEN] {
        frame(
            self.mac,
            REPLY,
            (mac, self.wanted),
            (self.mac, self.address),
        )
    }
}

/// Returns the broadcast frame that announces `address` at `mac`.
pub fn announcement(mac: Mac, address: Ipv4Addr) -> [u8; FRAME_LEN] {
    frame(BROADCAST, REQUEST, (mac, address), ([0; 6], address))
}

fn frame(
    to: Mac,
    operation: [u8; 2],
    sender: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
) -> [u8; FRAME_LEN] {
    let mut frame = [0; FRAME_LEN];
    let mut rest = &mut frame[..];
    let pieces: [&[u8]; 9] = [
        &to,
        &sender.0,
        &ETHERTYPE,
        &KINDS,
        &operation,
        &sender.0,
        &sender.1.octets(),
        &target.0,
        &target.1.octets(),
    ];
    for piece in pieces {
        let (here, behind) = rest.split_at_mut(piece.len());
        here.copy_from_slice(piece);
        rest = behind;
    }
    frame
}

/// Length of an Ethernet header, in octets.
const HEAD: usize = 14;
/// Length of an ARP message, in octets.
const LEN: usize = 28;
/// Length of a frame, in octets.
pub const FRAME_LEN: usize = HEAD + LEN;
/// Types and lengths of Ethernet and IPv4 addresses.
const KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];
/// Ethernet type of ARP.
const ETHERTYPE: [u8; 2] = [8, 6];
const BROADCAST: Mac = [0xff; 6];

#[cfg(test)]
mod tests {
    use super::*;

    const ASKING: Mac = [2, 0, 0, 0, 0, 1];
    const ASKED: Mac = [2, 0, 0, 0, 0, 2];

    #[test]
    fn request_is_answered_to_its_sender() {
        let (asking, wanted) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(10, 0, 0, 100));
        let mut asked = frame(BROADCAST, REQUEST, (ASKING, asking), ([0; 6], wanted)).to_vec();
        let request = Request::decode(&asked).unwrap();
        let expected = Request {
            mac: ASKING,
            address: asking,
            wanted,
        };
        assert_eq!(request, expected);
        let answer = request.answer(ASKED);
        let expected = [
            &ASKING[..],
            &ASKED,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
            &ASKED,
            &[10, 0, 0, 100],
            &ASKING,
            &[10, 0, 0, 7],
        ];
        assert_eq!(answer[..], expected.concat());
        assert_eq!(Request::decode(&answer), None, "an answer is not a request");
        // short frames are padded
        asked.extend([0; 18]);
        assert_eq!(Request::decode(&asked), Some(request));
        assert_eq!(Request::decode(&asked[..FRAME_LEN - 1]), None);
    }

    #[test]
    fn announcement_is_a_broadcast_request_for_the_own_address() {
        let address = Ipv4Addr::new(10, 0, 0, 100);
        let frame = announcement(ASKED, address);
        assert_eq!(frame[..6], BROADCAST);
        let said = Request::decode(&frame).unwrap();
        assert_eq!(
            (said.mac, said.address, said.wanted),
            (ASKED, address, address)
        );
    }
}
