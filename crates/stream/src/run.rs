//! How a stream begins and ends, whichever way it goes.

use std::fs::File;
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::drive::Lane;
use lighthaul_proto::fec::wire::HEAD_LEN;
use lighthaul_session::alive::Alive;
use lighthaul_session::door::Door;
use lighthaul_session::error::Error;
use lighthaul_session::offer::{self, Offer};
use lighthaul_session::path::{Path, explore};
use lighthaul_session::protocol::Protocol;
use lighthaul_session::session::Session;

use crate::message::{Kind, Message, Report, Wanted};
use crate::ready::{Ready, hear, out_of_turn};
use crate::{messages, objects};

/// How our side wants it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// The rate on the wire that is never exceeded; `None` to measure the path.
    pub rate: Option<Rate>,
}

/// Sends what comes out of `file` to the peer, which has agreed.
pub fn send(
    session: &Session,
    door: &Door<'_>,
    wanted: &Wanted,
    file: File,
    settings: Settings,
) -> Result<Report, Error> {
    let mut path = explore(session, door, true, 1)?;
    let rate = match settings.rate {
        Some(rate) => Some(rate),
        None => path.measure(session)?,
    };
    let offer = Offer::new(
        session,
        (Protocol::Rbudp, 0),
        &path,
        rate.unwrap_or(RATE_UNKNOWN),
    );
    // one lane, over the session's own stream where no datagram passes
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
    session.control.limit_silence(SILENCE_MAX);
    thread::scope(|scope| {
        // a stream may rest, and nothing is owed
        let _alive = Alive::say(scope, session, || 0);
        send_from(
            file,
            (session, wanted),
            (path, offer, message_len),
            settings,
        )
    })
}

/// Sends as [`send`] has agreed with the peer.
fn send_from(
    file: File,
    (session, wanted): (&Session, &Wanted),
    (path, offer, message_len): (Path, Offer, u32),
    settings: Settings,
) -> Result<Report, Error> {
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
    let offered = match &wanted.kind {
        Kind::Messages(how) => messages::send(ready, how, file)?,
        Kind::Objects(how) => objects::send(ready, how, file)?,
    };
    let Message::Report(report) = hear(session)? else {
        return Err(out_of_turn());
    };
    Ok(Report {
        messages: offered,
        ..report
    })
}

/// Puts what the peer sends into `file`.
pub fn receive(
    session: &Session,
    door: &Door<'_>,
    wanted: &Wanted,
    file: File,
    settings: Settings,
) -> Result<Report, Error> {
    let mut path = explore(session, door, false, 1)?;
    let Message::Begin { offer, message_len } = path.listen(session)? else {
        return Err(out_of_turn());
    };
    if ![Protocol::Rbudp, Protocol::Tcp].contains(&offer.protocol) {
        return Err(out_of_turn());
    }
    session.control.limit_silence(SILENCE_MAX);
    thread::scope(|scope| {
        // a stream may rest, and nothing is owed
        let _alive = Alive::say(scope, session, || 0);
        receive_into(
            file,
            (session, wanted),
            (path, offer, message_len),
            settings,
        )
    })
}

/// Receives as [`receive`] has agreed with the peer.
fn receive_into(
    file: File,
    (session, wanted): (&Session, &Wanted),
    (path, offer, message_len): (Path, Offer, u32),
    settings: Settings,
) -> Result<Report, Error> {
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
    let report = match &wanted.kind {
        Kind::Messages(how) => messages::receive(ready, how, file)?,
        Kind::Objects(how) => objects::receive(ready, how, file)?,
    };
    session.say(&Message::Report(report))?;
    session.control.flush(FAREWELL);
    Ok(report)
}

/// Tells the time as often as the receiver asks.
fn answer_clocks(session: &Session) -> Result<(), Error> {
    loop {
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
}

/// By how much our clock is ahead of the sender's, as the shortest of a few round trips has it (RFC 5905, section 8).
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

/// The most bytes of a message that fit in the path's datagrams with the head, the seal and its own length.
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

/// Used when a path carries datagrams but none of a train arrived.
const RATE_UNKNOWN: Rate = Rate::from_mbps(10);
/// Messages where no datagrams pass.
const STREAM_MESSAGE_LEN: u32 = 1400;
const ROUND_TRIPS: usize = 5;
/// Longest silence of the peer before the stream fails.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How long the last word gets to leave.
const FAREWELL: Duration = Duration::from_secs(2);
