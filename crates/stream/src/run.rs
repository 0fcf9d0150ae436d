//! Begin and end of a stream, in either direction.
//!
//! [`send`] and [`receive`] are the two sides after the request was accepted:
//!
//! ```text
//! sender     explore, measure -> Begin -> answers clocks ----> data -> hears the report
//! receiver   explore ------------------> Time x 5, Ready ----> data -> Report
//! ```
//!
//! The clock offset in nanoseconds lets the receiver compute the age of messages. A stream uses one
//! lane, and the session's own connection if no datagram passes. The data itself is sent by
//! `messages` and `objects`.

use std::fs::File;
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::drive::Lane;
use lighthaul_proto::fec::wire::HEAD_LEN;
use lighthaul_session::error::Error;
use lighthaul_session::keepalive::Keepalive;
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::path::{LISTEN_TIMEOUT, Path, explore};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use crate::message::{Message, Report, StreamKind, StreamRequest};
use crate::ready::{Ready, hear, out_of_turn};
use crate::{messages, objects};

/// Settings of this side.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// True if datagrams are not encrypted.
    pub plain: bool,
    /// Upper bound of the rate on the wire; `None` to measure the path.
    pub rate: Option<Rate>,
}

/// Sends the data from `file` to the peer, which has accepted the request.
pub fn send(
    session: &Session,
    role: &Role,
    wanted: &StreamRequest,
    file: File,
    settings: Settings,
) -> Result<Report, Error> {
    let mut path = explore(&session.dialog(), role, true, 1)?;
    let rate = match settings.rate {
        Some(rate) => Some(rate),
        None => path.measure(&session.dialog())?,
    };
    let offer = Offer::new(
        session,
        (Protocol::Rbudp, 0),
        &path,
        rate.unwrap_or(RATE_UNKNOWN),
    );
    // one lane, on the session's own stream where no datagram passes
    let offer = Offer {
        protocol: if offer.udp {
            Protocol::Rbudp
        } else {
            Protocol::Tcp
        },
        lanes: 1,
        joins: 0,
        ..offer
    };
    let message_len = message_len(&path);
    session.say(&Message::Begin { offer, message_len })?;
    kept_alive(session, || {
        answer_clocks(session)?;
        let ready = Ready {
            session,
            wanted,
            offer,
            plain: settings.plain,
            message_len,
            ahead_nanos: 0,
            lane: the_lane(session, &offer, path)?,
        };
        send_from(ready, file)
    })
}

/// Runs a transfer, and sends keepalives during the transfer.
fn kept_alive<T>(session: &Session, run: impl FnOnce() -> T) -> T {
    session.control.limit_silence(SILENCE_MAX);
    thread::scope(|scope| {
        // a stream may rest, and nothing is owed
        let _alive = Keepalive::start(scope, session, || 0);
        run()
    })
}

/// Sends with the parameters that [`send`] announced.
fn send_from(ready: Ready<'_>, file: File) -> Result<Report, Error> {
    let (session, wanted) = (ready.session, ready.wanted);
    let offered = match &wanted.kind {
        StreamKind::Messages(how) => messages::send(ready, how, file)?,
        StreamKind::Objects(how) => objects::send(ready, how, file)?,
    };
    let Message::Report(report) = hear(session)? else {
        return Err(out_of_turn());
    };
    Ok(Report {
        messages: offered,
        ..report
    })
}

/// Writes the data of the peer to `file`.
pub fn receive(
    session: &Session,
    role: &Role,
    wanted: &StreamRequest,
    file: File,
    settings: Settings,
) -> Result<Report, Error> {
    let mut path = explore(&session.dialog(), role, false, 1)?;
    let Message::Begin { offer, message_len } =
        path.listen(&session.dialog(), Some(LISTEN_TIMEOUT))?
    else {
        return Err(out_of_turn());
    };
    if ![Protocol::Rbudp, Protocol::Tcp].contains(&offer.protocol) {
        return Err(out_of_turn());
    }
    kept_alive(session, || {
        let ahead_nanos = ask_clocks(session)?;
        let ready = Ready {
            session,
            wanted,
            offer,
            plain: settings.plain,
            message_len,
            ahead_nanos,
            lane: the_lane(session, &offer, path)?,
        };
        receive_into(ready, file)
    })
}

/// Receives with the parameters that [`receive`] was offered.
fn receive_into(ready: Ready<'_>, file: File) -> Result<Report, Error> {
    let (session, wanted) = (ready.session, ready.wanted);
    let report = match &wanted.kind {
        StreamKind::Messages(how) => messages::receive(ready, how, file)?,
        StreamKind::Objects(how) => objects::receive(ready, how, file)?,
    };
    session.say(&Message::Report(report))?;
    session.control.flush(FAREWELL);
    Ok(report)
}

/// Answers a limited number of clock requests of the receiver.
fn answer_clocks(session: &Session) -> Result<(), Error> {
    for _ in 0..=ROUND_TRIPS_MAX {
        match hear(session)? {
            Message::Time { .. } => session.say(&Message::Time {
                nanos: session.clock.now().as_nanos(),
            })?,
            Message::Ready => return Ok(()),
            Message::Begin { .. }
            | Message::Payload(_)
            | Message::End { .. }
            | Message::Report(_) => {
                return Err(out_of_turn());
            }
        }
    }
    Err(out_of_turn())
}

/// Returns the nanoseconds by which this clock is ahead of the sender's, from the shortest of a few round trips (RFC
/// 5905, section 8).
fn ask_clocks(session: &Session) -> Result<i64, Error> {
    let mut best = (Duration::MAX, 0);
    for _ in 0..ROUND_TRIPS {
        let before = session.clock.now();
        session.say(&Message::Time { nanos: 0 })?;
        let Message::Time { nanos: theirs } = hear(session)? else {
            return Err(out_of_turn());
        };
        let rtt = session.clock.now().since(before);
        if rtt < best.0 {
            let ours = i128::from((before + rtt / 2).as_nanos());
            best = (rtt, i64::try_from(ours - i128::from(theirs)).unwrap_or(0));
        }
    }
    session.say(&Message::Ready)?;
    Ok(best.1)
}

/// Returns the maximum length of a message that fits in a datagram of the path, together with
/// header, tag and length field.
fn message_len(path: &Path) -> u32 {
    if path.sockets.is_empty() {
        return STREAM_MESSAGE_LEN;
    }
    let around = offer::AROUND_LEN + HEAD_LEN as u32;
    (path.datagram_len as u32).saturating_sub(around) / 2 * 2
        - lighthaul_proto::fec::config::LEN_LEN
}

fn the_lane(session: &Session, offer: &Offer, path: Path) -> Result<Lane, Error> {
    offer::check(offer, &path)?;
    let mut lanes = offer::lanes_over(session, offer, path, &[])?;
    if lanes.is_empty() {
        return Err(out_of_turn());
    }
    Ok(lanes.swap_remove(0))
}

/// Rate for a path that carries datagrams but lost all datagrams of the measurement.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// Bytes of a message where no datagram passes.
const STREAM_MESSAGE_LEN: u32 = 1400;
const ROUND_TRIPS: usize = 5;
/// Maximum number of clock requests of a receiver.
const ROUND_TRIPS_MAX: usize = 16;
/// Longest silence of the peer before the stream fails.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Longest wait until the last message is sent.
const FAREWELL: Duration = Duration::from_secs(2);
