//! Which protocol moves an object, and with what parameters.

use std::net::SocketAddr;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::drive::Lane;
use lighthaul_io::udp::header_len;
use lighthaul_proto::rbudp::Config;
use lighthaul_proto::rbudp::wire::HEAD_LEN;

use crate::error::{Code, Error};
use crate::message::Offer;
use crate::path::Path;
use crate::session::Session;
use crate::watch::{Sight, Start, Watcher};

/// The stream of the first lane.
const STREAM: u16 = 1;
/// Octets of a datagram that are not the object's: the connection's number, and the tag.
const CONNECTION_LEN: u32 = 8;
const TAG_LEN: u32 = 16;
/// Bytes in each packet that crosses on the stream.
const STREAM_PACKET_LEN: u32 = 32 << 10;
/// The least and the most that a receiver waits for stragglers at the end of a round.
const SETTLE_MIN: Duration = Duration::from_millis(2);
const SETTLE_MAX: Duration = Duration::from_millis(25);

/// The largest packet that fits in the path's datagrams, and fills pages with its like.
pub fn packet_len(path: &Path) -> u32 {
    if path.udp.is_none() {
        return STREAM_PACKET_LEN;
    }
    (path.datagram_len as u32 - CONNECTION_LEN - HEAD_LEN as u32 - TAG_LEN) / 32 * 32
}

/// How long to wait for stragglers: a part of what another round would cost.
pub fn settle(rtt: Duration) -> Duration {
    (rtt / 8).clamp(SETTLE_MIN, SETTLE_MAX)
}

/// The protocol's parameters for `offer`, the same on both sides.
pub fn config(offer: &Offer, plain: bool, peer: SocketAddr) -> Result<Config, Error> {
    let bad = |text: String| Error::new(Code::Protocol, text);
    if offer.packet_len == 0 || !offer.packet_len.is_multiple_of(32) {
        return Err(bad(format!(
            "packets of {} bytes cannot be used",
            offer.packet_len
        )));
    }
    let config = Config {
        object_len: offer.object_len,
        packet_len: offer.packet_len,
        overhead_len: header_len(peer) + CONNECTION_LEN + if plain { 0 } else { TAG_LEN },
        rate: Rate::from_bps(offer.rate_bps).ok_or_else(|| bad("a rate of zero".into()))?,
        burst: None,
        stream: STREAM,
        settle: Duration::from_micros(offer.settle_us.into()).clamp(SETTLE_MIN, SETTLE_MAX),
    };
    config
        .check()
        .map_err(|error| bad(format!("the object cannot be sent: {error}")))?;
    Ok(config)
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
        entries: offer.entries,
        file_bytes: offer.file_bytes,
        rate_bps: offer.udp.then_some(offer.rate_bps),
        packet_len: offer.packet_len,
        cipher: if plain {
            "plain"
        } else {
            session.secrets.cipher().name()
        },
        start_up,
    }));
}

/// The lane that carries the transfer.
pub fn lane(session: &Session, path: Path, plain: bool) -> Result<Lane, Error> {
    let keys = session.secrets.lane();
    Ok(Lane {
        udp: path.udp,
        stream: session.control.open(STREAM)?,
        connection: keys.connection,
        seal: (!plain).then_some(keys.seal),
        open: (!plain).then_some(keys.open),
        head_len: HEAD_LEN,
        clock: session.clock,
        scatter: None,
        counters: std::sync::Arc::default(),
    })
}
