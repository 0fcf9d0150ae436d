//! Wire format of SABUL (section 3.3).
//!
//! The head of a datagram has twelve octets, big-endian: the retransmission number, the packet number, and the
//! sender's clock in microseconds. The retransmission number is zero in the first transmission of a packet; later it
//! is the number of retransmissions of all packets so far. The two numbers occur together only once. So they can
//! serve as the nonce of the encryption, even if the body has changed in the meantime.
//!
//! A message on the stream begins with its type: 1 sent, 2 ACK, 3 NAK of new losses, 4 NAK of losses reported before,
//! 5 hold, 6 round-trip time.

use alloc::vec::Vec;
use core::ops::Range;

use lighthaul_base::codec::put_range;
use lighthaul_base::{Body, Head, Instant, Malformed, Reader, Transmit, Via};

/// Decoded head of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Retransmission number, counted over all packets; 0 in the first transmission of a packet.
    pub again: u32,
    /// Packet number.
    pub number: u32,
    /// Sender's clock at the transmission.
    pub clock: Clock,
}

impl Packet {
    /// Returns the octets of the head.
    pub fn encode(self) -> [u8; HEAD_LEN] {
        let mut head = [0; HEAD_LEN];
        head[..4].copy_from_slice(&self.again.to_be_bytes());
        head[4..8].copy_from_slice(&self.number.to_be_bytes());
        head[8..].copy_from_slice(&self.clock.0.to_be_bytes());
        head
    }

    /// Decodes a head.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let octets: [u8; HEAD_LEN] = head.try_into().map_err(|_| Malformed)?;
        let mut reader = Reader::new(&octets);
        Ok(Self {
            again: reader.u32()?,
            number: reader.u32()?,
            clock: Clock(reader.u32()?),
        })
    }
}

/// Clock of a machine in microseconds. It wraps around every 71 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock(pub u32);

impl Clock {
    /// Returns the clock's value at `now`.
    pub const fn at(now: Instant) -> Self {
        Self((now.as_nanos() / 1000) as u32)
    }

    /// Returns the microseconds from `earlier` to this value.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Acknowledgment that the receiver sends every SYN interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// All packets below this number have arrived.
    pub till: u32,
    /// Number of distinct packets received.
    pub received: u32,
    /// Receiver's clock.
    pub clock: Clock,
    /// Sender's clock in the newest packet, plus the time since its arrival.
    pub echo: Clock,
    /// Minimum difference of the two clocks over the packets since the last ACK. It varies with the queueing delay.
    pub delay: u32,
}

impl Ack {
    /// Returns the sender's clock at the transmission of the packets, or an interval later.
    pub const fn sent_at(&self) -> Clock {
        Clock(self.clock.0.wrapping_sub(self.delay))
    }
}

/// Decoded message of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// All packets below this number have been sent.
    Sent(u32),
    /// Acknowledgment of received packets.
    Ack(Ack),
    /// Report of missing packets.
    Nak {
        /// True if the losses were reported before.
        again: bool,
        /// Ranges of packets in ascending order that do not touch.
        ranges: Vec<Range<u64>>,
    },
    /// Request to stop sending datagrams (true), or to resume.
    Hold(bool),
    /// Round-trip time in microseconds.
    Rtt(u32),
}

impl Control {
    /// Decodes a message of the stream.
    pub fn decode(head: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(head);
        let control = match reader.u8()? {
            SENT => Self::Sent(reader.u32()?),
            ACK => Self::Ack(Ack {
                till: reader.u32()?,
                received: reader.u32()?,
                clock: Clock(reader.u32()?),
                echo: Clock(reader.u32()?),
                delay: reader.u32()?,
            }),
            kind @ (NAK | NAK_AGAIN) => Self::Nak {
                again: kind == NAK_AGAIN,
                ranges: ranges(&mut reader)?,
            },
            HOLD => match reader.u8()? {
                on @ 0..=1 => Self::Hold(on == 1),
                _ => return Err(Malformed),
            },
            RTT => Self::Rtt(reader.u32()?),
            _ => return Err(Malformed),
        };
        reader.finish()?;
        Ok(control)
    }

    /// Returns the message as a transmission on `stream`.
    pub fn transmit(&self, stream: u16) -> Transmit {
        let mut octets = Vec::new();
        match self {
            Self::Sent(till) => {
                octets.push(SENT);
                octets.extend(till.to_be_bytes());
            }
            Self::Ack(ack) => {
                octets.push(ACK);
                let numbers = [ack.till, ack.received, ack.clock.0, ack.echo.0, ack.delay];
                octets.extend(numbers.into_iter().flat_map(u32::to_be_bytes));
            }
            Self::Nak { again, ranges } => {
                octets.push(if *again { NAK_AGAIN } else { NAK });
                put_ranges(&mut octets, ranges);
            }
            Self::Hold(on) => octets.extend([HOLD, u8::from(*on)]),
            Self::Rtt(micros) => {
                octets.push(RTT);
                octets.extend(micros.to_be_bytes());
            }
        }
        let (head, body) = octets.split_at(1);
        Transmit {
            via: Via::Stream(stream),
            head: Head::new(head),
            body: Body::Octets(body.to_vec()),
        }
    }
}

/// Maximum number of packets in one object.
pub const PACKETS_MAX: u64 = 1 << 30;
/// Length of a datagram's head in octets.
pub const HEAD_LEN: usize = 12;
/// Maximum number of ranges in one NAK.
pub const NAK_RANGES_MAX: usize = 256;

fn put_ranges(octets: &mut Vec<u8>, ranges: &[Range<u64>]) {
    debug_assert!(!ranges.is_empty() && ranges.len() <= NAK_RANGES_MAX);
    ranges
        .iter()
        .fold(0, |done, range| put_range(octets, done, range));
}

fn ranges(reader: &mut Reader<'_>) -> Result<Vec<Range<u64>>, Malformed> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    while ranges.is_empty() || !reader.is_empty() {
        let range = reader.range(ranges.last().map_or(0, |last| last.end))?;
        if range.end > PACKETS_MAX || ranges.len() == NAK_RANGES_MAX {
            return Err(Malformed);
        }
        ranges.push(range);
    }
    Ok(ranges)
}

const SENT: u8 = 1;
const ACK: u8 = 2;
const NAK: u8 = 3;
const NAK_AGAIN: u8 = 4;
const HOLD: u8 = 5;
const RTT: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the head and the body as they arrive.
    fn octets(control: &Control) -> Vec<u8> {
        let transmit = control.transmit(7);
        assert_eq!(transmit.via, Via::Stream(7));
        transmit.octets()
    }

    #[test]
    fn wire_format_is_stable() {
        let packet = Packet {
            again: 0x0102_0304,
            number: 0x0506_0708,
            clock: Clock(0x090a_0b0c),
        };
        assert_eq!(packet.encode(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let ack = Ack {
            till: 1,
            received: 2,
            clock: Clock(3),
            echo: Clock(4),
            delay: 5,
        };
        let expected = [
            2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5,
        ];
        assert_eq!(octets(&Control::Ack(ack)), expected);
        let nak = Control::Nak {
            again: false,
            ranges: [5..6, 300..301].into(),
        };
        assert_eq!(octets(&nak), [3, 5, 1, 0xa6, 2, 1]);
        assert_eq!(octets(&Control::Sent(258)), [1, 0, 0, 1, 2]);
        assert_eq!(octets(&Control::Hold(true)), [5, 1]);
        assert_eq!(octets(&Control::Rtt(258)), [6, 0, 0, 1, 2]);
    }

    #[test]
    fn invalid_messages_are_malformed() {
        for head in [
            &[][..],
            &[0],
            &[1, 0, 0, 0],
            &[1, 0, 0, 0, 1, 1],
            &[2, 0],
            &[3],
            &[3, 1],
            &[3, 1, 0],
            &[3, 1, 1, 0, 1],
            &[4, 0x80, 0x80, 0x80, 0x80, 4, 1],
            &[
                4, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1,
            ],
            &[5],
            &[5, 2],
            &[6, 1],
            &[7, 0],
        ] {
            assert_eq!(Control::decode(head), Err(Malformed), "{head:?}");
        }
        let long = [&[3][..], &[1; 2 * (NAK_RANGES_MAX + 1)]].concat();
        assert_eq!(Control::decode(&long), Err(Malformed));
        assert!(Control::decode(&long[..=2 * NAK_RANGES_MAX]).is_ok());
        assert_eq!(Packet::decode(&[1; 11]), Err(Malformed));
        assert_eq!(Packet::decode(&[1; 13]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn messages_round_trip(
            numbers: [u32; 5], on: bool, steps in prop::collection::vec((1_u64..9000, 1_u64..9000), 1..256),
        ) {
            let [a, b, c, d, e] = numbers;
            let packet = Packet { again: a, number: b, clock: Clock(c) };
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
            let mut last = 0;
            let ranges = steps.into_iter().map(|(distance, len)| {
                let range = last + distance..last + distance + len;
                last = range.end;
                range
            });
            let ack = Ack { till: a, received: b, clock: Clock(c), echo: Clock(d), delay: e };
            for control in [
                Control::Sent(a),
                Control::Ack(ack),
                Control::Hold(on),
                Control::Rtt(b),
                Control::Nak { again: on, ranges: ranges.collect() },
            ] {
                prop_assert_eq!(Control::decode(&octets(&control)), Ok(control));
            }
        }

        #[test]
        fn clock_differences_are_correct_across_a_wraparound(at: u64, micros: u32) {
            let at = Instant::from_nanos(at / 2);
            let later = at + core::time::Duration::from_micros(micros.into());
            prop_assert!(Clock::at(later).since(Clock::at(at)).abs_diff(micros) <= 1);
        }
    }
}
