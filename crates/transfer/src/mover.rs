//! With what parameters a protocol moves an object, and over what.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::drive::Lane;
use lighthaul_io::probe::LANES_MAX;
use lighthaul_io::udp::{Udp, header_len};

use crate::error::{Code, Error};
use crate::machine::Setup;
use crate::message::Offer;
use crate::path::Path;
use crate::protocol::Protocol;
use crate::session::{LANES, Session};
use crate::watch::{Sight, Start, Watcher};

/// Bytes of an object, and how long it takes where that is in between.
const OBJECT_LEN_MIN: u64 = 4 << 20;
const OBJECT_LEN_MAX: u64 = 1 << 30;
const OBJECT_TIME: Duration = Duration::from_millis(500);
/// Octets of a datagram that are not the object's: the connection's number, and the tag.
const CONNECTION_LEN: u32 = 8;
const TAG_LEN: u32 = 16;
/// Bytes in each packet that crosses on the stream.
const STREAM_PACKET_LEN: u32 = 32 << 10;
/// The least and the most that a receiver waits for stragglers at the end of a round.
const SETTLE_MIN: Duration = Duration::from_millis(2);
const SETTLE_MAX: Duration = Duration::from_millis(25);

/// How objects go over `path` at `rate`.
pub fn offer(session: &Session, protocol: Protocol, path: &Path, rate: Rate) -> Offer {
    Offer {
        protocol,
        packet_len: packet_len(protocol, path),
        rate_bps: rate.as_bps(),
        settle_us: settle(session.rtt).as_micros() as u32,
        udp: !path.sockets.is_empty(),
        lanes: path.sockets.len().max(1) as u8,
    }
}

/// The largest packet that fits in the path's datagrams, and fills pages with its like.
fn packet_len(protocol: Protocol, path: &Path) -> u32 {
    if path.sockets.is_empty() {
        return STREAM_PACKET_LEN;
    }
    (path.datagram_len as u32 - CONNECTION_LEN - protocol.head_len() as u32 - TAG_LEN) / 32 * 32
}

/// How long to wait for stragglers: a part of what another round would cost.
fn settle(rtt: Duration) -> Duration {
    (rtt / 8).clamp(SETTLE_MIN, SETTLE_MAX)
}

/// How many objects move at a time: one is on its way while another waits to hear what came of it,
/// and more where there are cores for them.
pub fn lanes() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 2).clamp(2, LANES_MAX)
}

/// About how many bytes an object has: enough that the path is full while another object's last
/// packets are asked for and sent again.
pub fn object_len(offer: &Offer, rtt: Duration) -> u64 {
    let len = match Rate::from_bps(offer.rate_bps) {
        Some(rate) if rate != Rate::UNLIMITED => rate.bytes_in((rtt * 5).max(OBJECT_TIME)),
        _ => OBJECT_LEN_MIN * 16,
    };
    len.clamp(OBJECT_LEN_MIN, OBJECT_LEN_MAX)
}

/// The protocol's parameters for an object of `object_len` bytes, the same on both sides.
pub fn setup(
    offer: &Offer,
    object_len: u64,
    plain: bool,
    peer: SocketAddr,
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
        object_len,
        packet_len: offer.packet_len,
        overhead_len: header_len(peer) + CONNECTION_LEN + if plain { 0 } else { TAG_LEN },
        rate: Rate::from_bps(offer.rate_bps).ok_or_else(|| bad("a rate of zero".into()))?,
        stream: LANES,
        settle: settle.clamp(SETTLE_MIN, SETTLE_MAX),
        repeat: settle,
    };
    setup
        .check()
        .map_err(|error| bad(format!("the object cannot be sent: {error}")))?;
    Ok(setup)
}

/// Tells an onlooker how the object is about to move; `start_up` is how long it took to find out.
pub fn announce(
    session: &Session,
    offer: &Offer,
    plain: bool,
    start_up: Duration,
    watcher: Watcher<'_>,
) {
    if !offer.udp {
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
        start_up,
    }));
}

/// Lanes over the path's sockets, or one over the stream; they have no keys yet.
pub fn lanes_over(session: &Session, protocol: Protocol, path: Path) -> Result<Vec<Lane>, Error> {
    let mut sockets: Vec<Option<Udp>> = path.sockets.into_iter().map(Some).collect();
    if sockets.is_empty() {
        sockets.push(None);
    }
    let lane = |(number, udp)| {
        Ok(Lane {
            udp,
            stream: session.control.open(LANES + number)?,
            connection: 0,
            seal: None,
            open: None,
            head_len: protocol.head_len(),
            clock: session.clock,
            scatter: None,
            share: None,
            counters: Arc::default(),
        })
    };
    (0..).zip(sockets).map(lane).collect()
}

/// Gives `lane` what marks and seals the datagrams of object `number`.
pub fn rekey(session: &Session, lane: &mut Lane, number: u64, plain: bool) {
    let keys = session.secrets.object(number);
    lane.connection = keys.connection;
    lane.seal = (!plain).then_some(keys.seal);
    lane.open = (!plain).then_some(keys.open);
}
