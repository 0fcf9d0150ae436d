//! Knowledge that both sides of a simulated transfer share.
//!
//! A real copy exchanges it in messages of the session. Here it stands in one place, and only the
//! time of these messages is simulated.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use lighthaul_base::{Instant, Rate, Span};
use lighthaul_parts::disk_rate::DiskFacts;
use lighthaul_parts::host_rate::HostFacts;
use lighthaul_session::machine::Setup;
use lighthaul_session::protocol::Protocol;
use lighthaul_sim::Ledger;
use lighthaul_workload::tcp::Algorithm;

/// Shared state of one transfer.
pub(crate) type Shared = Rc<RefCell<Agreement>>;

/// State of a transfer.
// fields: counters and lists, which both sides and the tests read
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// Object of each lane.
    pub(crate) objects: Vec<Option<Announced>>,
    /// Times at which objects began, and their lengths in bytes.
    pub(crate) lens: Vec<(Instant, u64)>,
    /// Times at which objects began, and the numbers of lanes that had an object then.
    pub(crate) busy: Vec<(Instant, usize)>,
    /// Position of the next object in the data of the transfer.
    pub(crate) position: u64,
    /// Positions and lengths of complete objects.
    pub(crate) complete: Vec<(u64, u64)>,
    /// Bytes of the transfer that have been placed, if the transfer checks them.
    pub(crate) ledger: Option<Ledger>,
    /// Counters that the receiving host reports.
    pub(crate) facts: HostFacts,
    /// Waiting times for the disk of the receiving host, and bytes that wait for it now.
    pub(crate) disks: DiskFacts,
    /// Bytes that TCP has delivered.
    pub(crate) streamed: u64,
    /// Number of packets that arrived although their bytes had arrived before.
    pub(crate) duplicates: u64,
    /// Times at which the protocol changed, and the new protocols.
    pub(crate) switches: Vec<(Instant, Protocol)>,
    /// Protocol in use.
    pub(crate) protocol: Option<Protocol>,
    /// Rate that the sender measured or remembered.
    pub(crate) measured: Option<Rate>,
    /// Time at which the first data were sent.
    pub(crate) began: Option<Instant>,
    /// Times at which rate changes began.
    pub(crate) courses: Vec<Instant>,
    /// Times and values of all rates that were set.
    pub(crate) rates: Vec<(Instant, Rate)>,
    /// Number of packets sent.
    pub(crate) sent: u64,
    /// Number of packets sent again.
    pub(crate) resent: u64,
}

/// Object that a lane sends.
#[derive(Clone, Debug)]
pub(crate) struct Announced {
    /// Number of the object on its lane.
    pub(crate) number: u8,
    /// Position of the object in the data of the transfer.
    pub(crate) position: u64,
    /// Parameters of its machines.
    pub(crate) setup: Setup,
}

impl Agreement {
    /// Records that the bytes of `span` were placed, from `position` on. Panics if a byte is placed twice.
    pub(crate) fn place(&mut self, position: u64, span: Span) {
        if let Some(ledger) = &mut self.ledger {
            let span = Span::new(position + span.offset, span.len);
            ledger.place(span, span).expect("each byte is placed once");
        }
    }
}

/// Parameters of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferConfig {
    /// Protocol that the user asks for; none for a choice by measurements.
    pub(crate) asked: Option<Protocol>,
    /// True if the user says that no other traffic uses the path.
    pub(crate) dedicated: bool,
    pub(crate) rtt: Duration,
    /// Longest packet, IP header included.
    pub(crate) mtu: u32,
    /// Rate and loss in parts per million that an earlier transfer remembered.
    pub(crate) known: Option<(Rate, u32)>,
    /// Percentage of time in which processes wait for a processor of the receiving host.
    pub(crate) waited: u8,
    /// Capacity of the receiver's socket in bytes.
    pub(crate) socket_bytes: u64,
    /// Number of datagram lanes.
    pub(crate) lanes: u8,
    /// Congestion control of TCP.
    pub(crate) algorithm: Algorithm,
    /// True if the place of each byte is checked.
    pub(crate) is_checked: bool,
    pub(crate) seed: u64,
}

impl TransferConfig {
    /// Returns the longest payload of UDP.
    pub(crate) const fn datagram_len(&self) -> u32 {
        self.mtu - IP_UDP_LEN
    }

    /// Returns the bytes of the object in each packet, as a copy chooses them.
    pub(crate) fn packet_len(&self, protocol: Protocol) -> u32 {
        let head = protocol.head_len() as u32;
        (self.datagram_len() - AROUND_LEN - head) / 32 * 32
    }

    /// Returns the bytes in each packet of TCP.
    pub(crate) const fn segment_len(&self) -> u32 {
        self.mtu - OVERHEAD_LEN - TAG_LEN - lighthaul_workload::tcp::HEAD_LEN as u32
    }
}

/// Tag in front of each datagram, which selects the machine that receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Sender or receiver of an object: lane, and number of the object.
    Object(u8, u8),
    /// Connection of TCP.
    Tcp(u8),
    /// Train that measures the path.
    Train,
}

impl Tag {
    pub(crate) const fn encode(self) -> u8 {
        match self {
            Self::Object(lane, number) => (lane << 5) | (number & NUMBER_MASK),
            Self::Tcp(connection) => TCP_BIT | connection,
            Self::Train => u8::MAX,
        }
    }

    pub(crate) const fn decode(octet: u8) -> Self {
        if octet == u8::MAX {
            Self::Train
        } else if octet & TCP_BIT != 0 {
            Self::Tcp(octet & !TCP_BIT)
        } else {
            Self::Object(octet >> 5, octet & NUMBER_MASK)
        }
    }
}

/// Returns the stream of an object's messages.
pub(crate) fn stream(lane: u8, number: u8) -> u16 {
    (u16::from(lane) << 8) | u16::from(number)
}

/// Returns the number of the object after `number`.
pub(crate) const fn next_number(number: u8) -> u8 {
    (number + 1) & NUMBER_MASK
}

/// Stream of the measurement's reports.
pub(crate) const REPORTS: u16 = u16::MAX;
/// Bytes in front of and behind each datagram: IP, UDP, connection number and authentication tag,
/// less the [`Tag`].
pub(crate) const OVERHEAD_LEN: u32 = AROUND - TAG_LEN;
/// Bytes around the head and the body of a datagram of a copy.
pub(crate) const AROUND: u32 = IP_UDP_LEN + AROUND_LEN;
/// Bytes of the headers of IP and UDP.
pub(crate) const IP_UDP_LEN: u32 = 28;
const AROUND_LEN: u32 = lighthaul_session::offer::AROUND_LEN;
const TAG_LEN: u32 = 1;
const TCP_BIT: u8 = 0x80;
const NUMBER_MASK: u8 = 0x1f;
