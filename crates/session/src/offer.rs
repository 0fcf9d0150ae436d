//! Parameters for objects on a path: protocol, packets, rate, lanes.
//!
//! The sender makes an [`Offer`] for the explored path, and the receiver checks it with [`check`].
//! Both sides then open the same lanes ([`lanes_over`]). For each object, [`rekey`] gives the lane
//! new keys and [`setup`] the parameters of its machine. If the user selected no protocol, the
//! sender may announce another for an object ([`Offer::allows`], [`Offer::with`]). Rates are in bits
//! per second on the wire, lengths in bytes.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Rate, Size};
use lighthaul_io::control::Control;
use lighthaul_io::drive::Lane;
use lighthaul_io::host::competition::Competition;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_io::net::udp::{Udp, header_len};
use lighthaul_proto::stripe::Width;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fault::{Fault, PeerFault};
use crate::machine::{Learned, Setup};
use crate::path::Path;
use crate::protocol::Protocol;
use crate::secrets::JOINS_MAX;
use crate::session::{LANES, Session};

/// Minimum length of an object, in bytes.
const OBJECT_LEN_MIN: u64 = 4 << 20;
/// Maximum length of an object, in bytes.
const OBJECT_LEN_MAX: u64 = 1 << 30;
/// Minimum duration of an object at a known rate, within the bounds of its length.
const OBJECT_TIME: Duration = Duration::from_millis(500);
/// Octets of the connection number in a datagram.
pub const CONNECTION_LEN: u32 = 8;
/// Octets of the authentication tag of an encrypted datagram.
pub const TAG_LEN: u32 = 16;
/// Octets of a datagram that belong neither to the object nor to the protocol.
pub const AROUND_LEN: u32 = CONNECTION_LEN + TAG_LEN;
/// Objects that streams carry at a time.
pub const STREAM_LANES: u8 = 2;
/// Bytes in each packet on a stream.
const STREAM_PACKET_LEN: u32 = 64 << 10;
/// Pause of a receiver that its socket buffers must cover. Larger buffers have no advantage.
const RECEIVER_PAUSE: Duration = Duration::from_millis(10);
const BUFFER_MAX: u64 = 64 << 20;
/// Minimum wait of the receiver for late datagrams at the end of a pass.
const SETTLE_MIN: Duration = Duration::from_millis(2);
/// Maximum wait of the receiver for late datagrams at the end of a pass.
const SETTLE_MAX: Duration = Duration::from_millis(25);

/// Parameters for the objects of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Protocol that moves the objects at first.
    pub protocol: Protocol,
    /// Bytes of each packet, except the last of an object. Packets of streams have 64 KiB where
    /// datagrams pass.
    pub packet_len: u32,
    /// Rate on the wire in bits a second, of all lanes together.
    pub rate_bps: u64,
    /// Wait of the receiver for late datagrams at the end of a pass, in microseconds.
    pub settle_us: u32,
    /// Round-trip time that the sender measured, in microseconds.
    pub rtt_us: u32,
    /// True if datagrams are sent over UDP, not on the stream. A protocol of streams keeps the
    /// sockets for another one.
    pub udp: bool,
    /// Objects at a time.
    pub lanes: u8,
    /// Number of connections that may join to carry the objects.
    pub joins: u8,
}

impl Offer {
    /// Returns the parameters for data on the session's own connection.
    pub fn of_session(session: &Session) -> Self {
        Self {
            protocol: Protocol::Tcp,
            packet_len: STREAM_PACKET_LEN,
            rate_bps: Rate::UNLIMITED.as_bps(),
            settle_us: settle(session.rtt).as_micros() as u32,
            rtt_us: session.rtt.as_micros() as u32,
            udp: false,
            lanes: STREAM_LANES,
            joins: 0,
        }
    }

    /// Returns the parameters for `path` at `rate`. If no datagram passes, the protocol is one of
    /// streams instead of the protocol asked for.
    pub fn new(
        session: &Session,
        (asked, streams): (Protocol, u8),
        path: &Path,
        rate: Rate,
    ) -> Self {
        let blocked = asked.is_datagrams() && path.sockets.is_empty();
        let protocol = if blocked { Protocol::Ptcp } else { asked };
        Self {
            protocol,
            packet_len: packet_len(protocol, path),
            rate_bps: rate.as_bps(),
            settle_us: settle(session.rtt).as_micros() as u32,
            rtt_us: session.rtt.as_micros() as u32,
            udp: !path.sockets.is_empty(),
            lanes: match path.sockets.len() {
                // while the last packets of one object are under way, another follows
                0 => STREAM_LANES,
                sockets => sockets as u8,
            },
            joins: match (joins_max(protocol), streams) {
                (most, 0) => most,
                (most, streams) => most.min(streams),
            },
        }
    }

    /// Returns the parameters for an object that `protocol` moves.
    #[must_use]
    pub fn with(&self, protocol: Protocol) -> Self {
        let is_aside = self.udp && !protocol.is_datagrams();
        Self {
            protocol,
            packet_len: if is_aside {
                STREAM_PACKET_LEN
            } else {
                self.packet_len
            },
            ..*self
        }
    }

    /// Returns true if `protocol` may move an object. `auto` is true if the user selected none.
    pub fn allows(&self, protocol: Protocol, auto: bool) -> bool {
        let may_change = auto && self.udp;
        protocol == self.protocol || may_change && self.protocol.alternatives().contains(&protocol)
    }
}

/// Returns the most connections that carry an object's packets, besides the session's own for
/// feedback.
const fn joins_max(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Ptcp => JOINS_MAX,
        Protocol::Tcp => 1,
        Protocol::Rbudp
        | Protocol::RbudpPlus
        | Protocol::Vbtp
        | Protocol::Sabul
        | Protocol::SabulSwift => 0,
    }
}

/// Rejects an offer that does not fit `path`.
pub fn check(offer: &Offer, path: &Path) -> Result<(), Error> {
    let invalid = |text| Err(PeerFault::Invalid(text).into());
    let sockets = path.sockets.len();
    if !offer.protocol.is_datagrams() && sockets > usize::from(STREAM_LANES) {
        return invalid("more lanes than the limit");
    }
    let streams = sockets == 0 && (1..=STREAM_LANES).contains(&offer.lanes);
    if usize::from(offer.lanes) != sockets && !streams {
        return invalid("a number of lanes that differs from ours");
    }
    if !offer.udp && offer.packet_len > STREAM_PACKET_LEN {
        return invalid("packets that are too long for streams");
    }
    if offer.joins > joins_max(offer.protocol) {
        return invalid("more connections than the limit");
    }
    Ok(())
}

/// Returns advice on the receiver's kernel settings if its socket buffers are too small for a short
/// pause. It explains why datagrams were dropped.
pub fn buffer_advice(offer: &Offer, path: &Path) -> Option<String> {
    let granted = path.sockets.iter().map(Udp::buffer_bytes).min()? as u64;
    let small = SmallBuffer::find(granted, Rate::from_bps(offer.rate_bps)?)?;
    Some(format!(
        "the receiving host dropped datagrams, because its UDP receive buffer is small ({}, {small}); \
        run `sysctl -w net.core.rmem_max={}` there",
        Size(granted),
        small.advised
    ))
}

/// UDP receive buffer that is full after a short pause of its reader.
#[derive(Clone, Copy, Debug)]
pub struct SmallBuffer {
    /// Size that lasts longer, in bytes.
    pub advised: u64,
    rate: Rate,
    /// Time in which the buffer fills.
    time: Duration,
}

impl SmallBuffer {
    /// Returns the buffer of `granted` bytes, if it is small for `rate`.
    pub fn find(granted: u64, rate: Rate) -> Option<Self> {
        if rate == Rate::UNLIMITED || granted >= rate.bytes_in(RECEIVER_PAUSE).min(BUFFER_MAX) {
            return None;
        }
        let bytes = rate.bytes_in(RECEIVER_PAUSE * 4).min(BUFFER_MAX);
        Some(Self {
            advised: bytes.next_power_of_two(),
            rate,
            time: rate.time_for(granted),
        })
    }
}

impl Display for SmallBuffer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ms = self.time.as_secs_f64() * 1e3;
        write!(f, "full after {ms:.1} ms at {}", self.rate)
    }
}

/// Returns the number of `joined` connections to use. If the user gave no number (`streams` is 0),
/// a few are used at first, and more if that raises the rate. If connections have limited rates,
/// all are used.
pub fn width(session: &Session, streams: u8, joined: &[Control]) -> Learned {
    let most = joined.len() as u16;
    Learned::Width(match streams {
        0 if !session.are_connections_limited() => Width::measured(most, session.rtt),
        _ => Width::fixed(most),
    })
}

/// Returns the largest packet that fits in the path's datagrams with every protocol that may be used, and divides pages
/// evenly.
fn packet_len(protocol: Protocol, path: &Path) -> u32 {
    let all = [&[protocol], protocol.alternatives()].concat();
    let heads = all.iter().filter(|protocol| protocol.is_datagrams());
    let longest = heads.map(|protocol| protocol.head_len()).max();
    match longest.filter(|_| !path.sockets.is_empty()) {
        None => STREAM_PACKET_LEN,
        Some(head) => (path.datagram_len as u32 - CONNECTION_LEN - head as u32 - TAG_LEN) / 32 * 32,
    }
}

/// Returns the wait for late datagrams: a part of the time that another pass would take.
fn settle(rtt: Duration) -> Duration {
    (rtt / 8).clamp(SETTLE_MIN, SETTLE_MAX)
}

/// Returns the number of objects at a time, zero for protocols of streams. One object is sent while
/// another waits for its feedback, and more if there are cores for them. A `booked` path carries one
/// object at a time, and the next one is prepared meanwhile.
pub fn lanes(asked: Option<Protocol>, booked: bool) -> usize {
    if asked.is_some_and(|asked| !asked.is_datagrams()) {
        return 0;
    }
    if booked || asked == Some(Protocol::Vbtp) {
        return 2;
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(2, LANES_MAX)
}

/// Returns the rate at which the next object will probably move: the rate that the transfer has found by now, or else
/// the offered rate. `limit` is the present limit of all lanes, and `learned` comes from the last object.
pub fn expected_rate(offer: &Offer, limit: Rate, learned: Learned) -> Rate {
    let offered = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
    let found = match offer.protocol {
        // the limit is what losses and searches have found
        Protocol::Rbudp | Protocol::RbudpPlus => limit,
        // the limit leaves room for the rate control of the protocol
        Protocol::Sabul | Protocol::SabulSwift => match learned {
            // a low rate beside other flows must not shorten objects, because each object starts its rate control again
            Learned::Path(memory) => memory.rate.max(offered),
            Learned::Nothing | Learned::Width(_) | Learned::Socket(_) | Learned::Room(_) => offered,
        },
        Protocol::Tcp | Protocol::Ptcp | Protocol::Vbtp => offered,
    };
    found.min(limit)
}

/// Returns the approximate length of an object at the [`expected_rate`], in bytes. It is long enough to keep the path
/// full while the last packets of another object are requested and sent again.
pub fn object_len(offer: &Offer, rate: Rate, rtt: Duration) -> u64 {
    let len = match rate {
        // another protocol may move the next object, and this object must end before
        _ if offer.udp && !offer.protocol.is_datagrams() => OBJECT_LEN_MIN * 4,
        // the next object must last until the tail of this object has arrived
        _ if offer.protocol == Protocol::Vbtp => OBJECT_LEN_MAX,
        Rate::UNLIMITED => OBJECT_LEN_MIN * 16,
        rate => rate.bytes_in((rtt * 5).max(OBJECT_TIME)),
    };
    len.clamp(OBJECT_LEN_MIN, OBJECT_LEN_MAX)
}

/// Returns the parameters for an object of `object_len` bytes, the same on both sides.
pub fn setup(
    offer: &Offer,
    (object, object_len): (u64, u64),
    lane: &Lane,
    plain: bool,
) -> Result<Setup, Error> {
    if offer.packet_len == 0 || !offer.packet_len.is_multiple_of(32) {
        return Err(PeerFault::PacketLen(offer.packet_len).into());
    }
    let settle = Duration::from_micros(offer.settle_us.into());
    let rate =
        Rate::from_bps(offer.rate_bps).ok_or(PeerFault::Invalid("an offer with a rate of zero"))?;
    let setup = Setup {
        protocol: offer.protocol,
        object,
        object_len,
        packet_len: offer.packet_len,
        overhead_len: header_len(lane.stream.peer())
            + CONNECTION_LEN
            + if plain { 0 } else { TAG_LEN },
        rate,
        path_rate: rate,
        is_remembered: false,
        stream: lane.stream.number(),
        streams: lane.more.len() as u16,
        settle: settle.clamp(SETTLE_MIN, SETTLE_MAX),
        repeat: settle,
        rtt: Duration::from_micros(offer.rtt_us.into()),
        trc: None,
    };
    setup.check().map_err(Fault::ObjectSetup)?;
    Ok(setup)
}

/// Opens the offered lanes over the path's sockets, or over the session's streams. They have no
/// keys yet.
pub fn lanes_over(
    session: &Session,
    offer: &Offer,
    path: Path,
    joined: &[Control],
) -> Result<Vec<Lane>, Error> {
    let mut sockets = path.sockets.into_iter();
    let lane = |number| {
        let number = LANES + u16::from(number);
        let more = joined.iter().map(|control| control.open(number));
        Ok(Lane {
            udp: sockets.next(),
            stream: session.control.open(number)?,
            more: more.collect::<Result<_, _>>()?,
            connection: 0,
            seal: None,
            open: None,
            head_len: offer.protocol.head_len(),
            clock: session.clock,
            scatter: None,
            competition: None,
            share: None,
            counters: Arc::default(),
        })
    };
    (0..offer.lanes).map(lane).collect()
}

/// Lets the machines on a receiver's `lane` predict competition for the processor, if `protocol` uses that.
pub fn predict_competition(lane: &mut Lane, protocol: Protocol) {
    if protocol == Protocol::RbudpPlus && lane.competition.is_none() {
        lane.competition = Some(Competition::new());
    }
}

/// Prepares `lane` for an object that `protocol` moves. Returns the socket that a protocol of
/// streams does not use, and that the lane gets back for the next object.
#[must_use]
pub fn prepare(lane: &mut Lane, protocol: Protocol) -> Option<Udp> {
    lane.head_len = protocol.head_len();
    let is_unused = !protocol.is_datagrams();
    is_unused.then(|| lane.udp.take()).flatten()
}

/// Gives `lane` the connection number and the keys of object `number`.
pub fn rekey(session: &Session, lane: &mut Lane, number: u64, plain: bool) {
    let keys = session.secrets.object(number);
    lane.connection = keys.connection;
    lane.seal = (!plain).then_some(keys.seal);
    lane.open = (!plain).then_some(keys.open);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(protocol: Protocol, udp: bool) -> Offer {
        Offer {
            protocol,
            packet_len: 1408,
            rate_bps: 1_000_000_000,
            settle_us: 2000,
            rtt_us: 1000,
            udp,
            lanes: 2,
            joins: 0,
        }
    }

    #[test]
    fn only_alternatives_may_replace_the_offered_protocol() {
        for protocol in Protocol::ALL {
            for other in Protocol::ALL {
                let may_change = protocol.alternatives().contains(other);
                for (udp, auto) in [(false, false), (false, true), (true, false), (true, true)] {
                    let allowed = offer(*protocol, udp).allows(*other, auto);
                    let expected = protocol == other || udp && auto && may_change;
                    assert_eq!(allowed, expected, "{protocol} {other} {udp} {auto}");
                }
            }
        }
    }

    #[test]
    fn packets_fit_each_protocol_that_may_follow() {
        for protocol in Protocol::ALL {
            let offered = offer(*protocol, true);
            for other in protocol.alternatives() {
                let next = offered.with(*other);
                let len = if other.is_datagrams() {
                    1408
                } else {
                    STREAM_PACKET_LEN
                };
                assert_eq!((next.protocol, next.packet_len), (*other, len));
            }
        }
        assert_eq!(
            offer(Protocol::Tcp, true).with(Protocol::Tcp).packet_len,
            STREAM_PACKET_LEN
        );
        // where no datagram passes, all packets are of the offered length
        assert_eq!(
            offer(Protocol::Tcp, false).with(Protocol::Tcp).packet_len,
            1408
        );
    }

    #[test]
    fn buffer_that_fills_in_ten_milliseconds_is_small() {
        let rate = Rate::from_bps(10_000_000_000).unwrap();
        let small = SmallBuffer::find(4 << 20, rate).unwrap();
        assert_eq!(small.advised, 64 << 20);
        assert_eq!(small.to_string(), "full after 3.4 ms at 10.000 Gb/s");
        assert!(SmallBuffer::find(13_000_000, rate).is_none());
        assert!(SmallBuffer::find(0, Rate::UNLIMITED).is_none());
    }
}
