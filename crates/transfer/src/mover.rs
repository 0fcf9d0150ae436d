//! With what parameters a protocol moves an object, and over what.

use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Rate, Size};
use lighthaul_io::control::Control;
use lighthaul_io::drive::Lane;
use lighthaul_io::host::competition::Competition;
use lighthaul_io::net::probe::LANES_MAX;
use lighthaul_io::net::udp::{Udp, header_len};
use lighthaul_proto::stripe::Width;

use crate::digest;
use crate::error::{Code, Error};
use crate::join::JOINS_MAX;
use crate::machine::{Learned, Setup};
use crate::message::Offer;
use crate::options::Options;
use crate::path::Path;
use crate::protocol::Protocol;
use crate::session::{LANES, Session};
use crate::watch::{Sight, Start, Watcher};

/// Bytes of an object, and how long it takes where that is in between.
const OBJECT_LEN_MIN: u64 = 4 << 20;
const OBJECT_LEN_MAX: u64 = 1 << 30;
const OBJECT_TIME: Duration = Duration::from_millis(500);
/// Octets of a datagram that are not the object's: the connection's number, and the tag.
pub(crate) const CONNECTION_LEN: u32 = 8;
pub(crate) const TAG_LEN: u32 = 16;
pub(crate) const AROUND_LEN: u32 = CONNECTION_LEN + TAG_LEN;
/// Objects at a time where streams carry them.
const STREAM_LANES: u8 = 2;
/// Bytes in each packet that crosses on the stream.
const STREAM_PACKET_LEN: u32 = 64 << 10;
/// A receiver may be away for this long without a loss, if its sockets have room; more room is of no use.
const ABSENCE: Duration = Duration::from_millis(10);
const BUFFER_MAX: u64 = 64 << 20;
/// The least and the most that a receiver waits for stragglers at the end of a round.
const SETTLE_MIN: Duration = Duration::from_millis(2);
const SETTLE_MAX: Duration = Duration::from_millis(25);

/// How objects go over `path` at `rate`: as was asked, or by streams where no datagram passes.
pub fn offer(
    session: &Session,
    (asked, options): (Protocol, &Options),
    path: &Path,
    rate: Rate,
) -> Offer {
    let blocked = asked.is_datagrams() && path.sockets.is_empty();
    let protocol = if blocked { Protocol::Ptcp } else { asked };
    Offer {
        protocol,
        packet_len: packet_len(protocol, path),
        rate_bps: rate.as_bps(),
        settle_us: settle(session.rtt).as_micros() as u32,
        rtt_us: session.rtt.as_micros() as u32,
        udp: !path.sockets.is_empty(),
        lanes: match path.sockets.len() {
            // while the last packets of one object are on their way, another follows
            0 => STREAM_LANES,
            sockets => sockets as u8,
        },
        joins: match (joins_max(protocol), options.streams) {
            (most, 0) => most,
            (most, streams) => most.min(streams),
        },
    }
}

/// The most connections that carry an object's packets besides the session's own, where their feedback crosses.
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

/// Refuses an offer that is not about `path`.
pub fn check(offer: &Offer, path: &Path) -> Result<(), Error> {
    let lie = |text: &str| Err(Error::new(Code::Protocol, text));
    let sockets = path.sockets.len();
    let streams = sockets == 0 && (1..=STREAM_LANES).contains(&offer.lanes);
    if usize::from(offer.lanes) != sockets && !streams {
        return lie("the peer's lanes are not ours");
    }
    if !offer.udp && offer.packet_len > STREAM_PACKET_LEN {
        return lie("the peer's packets are longer than streams carry");
    }
    if offer.joins > joins_max(offer.protocol) {
        return lie("the peer wants more connections than there may be");
    }
    Ok(())
}

/// What a receiver's kernel should be told where it lets so little wait in a socket that a short absence costs losses.
pub fn scarce(offer: &Offer, path: &Path) -> Option<String> {
    let granted = path.sockets.iter().map(Udp::buffer_bytes).min()? as u64;
    let rate = Rate::from_bps(offer.rate_bps).filter(|rate| *rate != Rate::UNLIMITED)?;
    if granted >= rate.bytes_in(ABSENCE).min(BUFFER_MAX) {
        return None;
    }
    let bytes = rate.bytes_in(ABSENCE * 4).min(BUFFER_MAX);
    let bytes = bytes.next_power_of_two();
    let time = rate.time_for(granted).as_secs_f64() * 1e3;
    Some(format!(
        "the receiving host's kernel lets {} wait in a socket, which {rate} fill in {time:.1} ms: \
         `sysctl -w net.core.rmem_max={bytes}` there spares losses",
        Size(granted)
    ))
}

/// How many of the connections that have `joined` are used: a few, and more as that pays, unless
/// somebody said how many.
pub fn width(session: &Session, options: &Options, joined: &[Control]) -> Learned {
    let most = joined.len() as u16;
    Learned::Width(match options.streams {
        0 => Width::measured(most, session.rtt),
        _ => Width::fixed(most),
    })
}

/// The largest packet that fits in the path's datagrams, and fills pages with its like.
pub(crate) fn packet_len(protocol: Protocol, path: &Path) -> u32 {
    if path.sockets.is_empty() {
        return STREAM_PACKET_LEN;
    }
    (path.datagram_len as u32 - CONNECTION_LEN - protocol.head_len() as u32 - TAG_LEN) / 32 * 32
}

/// How long to wait for stragglers: a part of what another round would cost.
pub(crate) fn settle(rtt: Duration) -> Duration {
    (rtt / 8).clamp(SETTLE_MIN, SETTLE_MAX)
}

/// How many objects move at a time: one is on its way while another waits to hear what came of it,
/// and more where there are cores for them. What is `booked` has a vector.
pub fn lanes(asked: Option<Protocol>, booked: bool) -> usize {
    if asked.is_some_and(|asked| !asked.is_datagrams()) {
        return 0;
    }
    if booked || asked == Some(Protocol::Vbtp) {
        return 1; // which has all of the circuit
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(2, LANES_MAX)
}

/// About how many bytes an object has that is sent at `rate`, as far as that is limited: enough that the path is full
/// while another object's last packets are asked for and sent again.
pub fn object_len(offer: &Offer, rate: Rate, rtt: Duration) -> u64 {
    let offered = Rate::from_bps(offer.rate_bps).unwrap_or(Rate::UNLIMITED);
    let len = match offered.min(rate) {
        // the circuit waits for the end of each
        _ if offer.protocol == Protocol::Vbtp => OBJECT_LEN_MAX,
        Rate::UNLIMITED => OBJECT_LEN_MIN * 16,
        rate => rate.bytes_in((rtt * 5).max(OBJECT_TIME)),
    };
    len.clamp(OBJECT_LEN_MIN, OBJECT_LEN_MAX)
}

/// The protocol's parameters for an object of `object_len` bytes, the same on both sides.
pub fn setup(
    offer: &Offer,
    (object, object_len): (u64, u64),
    lane: &Lane,
    plain: bool,
) -> Result<Setup, Error> {
    let bad = |text: String| Error::new(Code::Protocol, text);
    if offer.packet_len == 0 || !offer.packet_len.is_multiple_of(32) {
        return Err(bad(format!(
            "packets of {} bytes cannot be used",
            offer.packet_len
        )));
    }
    let settle = Duration::from_micros(offer.settle_us.into());
    let setup = Setup {
        protocol: offer.protocol,
        object,
        object_len,
        packet_len: offer.packet_len,
        overhead_len: header_len(lane.stream.peer())
            + CONNECTION_LEN
            + if plain { 0 } else { TAG_LEN },
        rate: Rate::from_bps(offer.rate_bps).ok_or_else(|| bad("a rate of zero".into()))?,
        stream: lane.stream.number(),
        streams: lane.more.len() as u16,
        settle: settle.clamp(SETTLE_MIN, SETTLE_MAX),
        repeat: settle,
        rtt: Duration::from_micros(offer.rtt_us.into()),
        trc: None,
    };
    setup
        .check()
        .map_err(|error| bad(format!("the object cannot be sent: {error}")))?;
    Ok(setup)
}

/// Tells an onlooker how the object is about to move; `start_up` is how long it took to find out.
pub fn announce(
    session: &Session,
    (asked, offer): (Option<Protocol>, &Offer),
    (plain, digest): (bool, digest::Kind),
    start_up: Duration,
    watcher: Watcher<'_>,
) {
    let diverted = !offer.udp && asked.is_some_and(Protocol::is_datagrams);
    if diverted {
        watcher(Sight::Diverted(
            "no UDP datagram arrived, so TCP carries the data".into(),
        ));
    }
    watcher(Sight::Started(Start {
        rate_bps: offer.udp.then_some(offer.rate_bps),
        protocol: offer.protocol.to_string(),
        packet_len: offer.packet_len,
        cipher: if plain {
            "plain"
        } else {
            session.secrets.cipher().name()
        }
        .to_owned(),
        digest: digest.name().to_owned(),
        start_up,
    }));
}

/// So many lanes over the path's sockets, or over the session's streams; they have no keys yet.
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

/// Lets the machines on a receiver's `lane` foresee when others have the processor, if their protocol
/// makes something of it.
pub fn foresee(lane: &mut Lane, protocol: Protocol) {
    if protocol == Protocol::RbudpPlus && lane.competition.is_none() {
        lane.competition = Some(Competition::new());
    }
}

/// Gives `lane` what marks and seals the datagrams of object `number`.
pub fn rekey(session: &Session, lane: &mut Lane, number: u64, plain: bool) {
    let keys = session.secrets.object(number);
    lane.connection = keys.connection;
    lane.seal = (!plain).then_some(keys.seal);
    lane.open = (!plain).then_some(keys.open);
}
