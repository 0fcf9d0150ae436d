//! How a stream begins and ends, whichever way it goes.

use std::fs::File;
use std::thread;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_io::drive::Lane;
use lighthaul_io::host::interrupt;
use lighthaul_proto::fec::wire::HEAD_LEN;

use super::word::{Kind, Report, Wanted, Word};
use super::{messages, objects};
use crate::alive::Alive;
use crate::error::{Code, Error};
use crate::message::{Message, Offer};
use crate::mover;
use crate::options::Options;
use crate::path::{Door, Path, explore};
use crate::protocol::Protocol;
use crate::session::Session;

/// How our side wants it.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Datagrams are not encrypted.
    pub plain: bool,
    /// The rate on the wire that is never exceeded; `None` to measure the path.
    pub rate: Option<Rate>,
    /// Longest silence of the peer before the stream fails.
    pub silence_max: Duration,
}

/// A stream that both sides are ready for.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    pub(super) session: &'a Session,
    pub(super) wanted: &'a Wanted,
    pub(super) offer: Offer,
    pub(super) plain: bool,
    /// The most bytes of a message.
    pub(super) message_len: u32,
    /// By how much the receiver's clock is ahead; the sender does not know.
    pub(super) ahead_nanos: i64,
    pub(super) lane: Lane,
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
    let asked = (Protocol::Rbudp, &Options::default());
    let offer = mover::offer(session, asked, &path, rate.unwrap_or(RATE_UNKNOWN));
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
    say(session, Word::Begin(offer, message_len))?;
    session.control.limit_silence(settings.silence_max);
    thread::scope(|scope| {
        let _alive = Alive::say(scope, session);
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
    let Word::Report(report) = hear(session)? else {
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
    let Message::Stream(Word::Begin(offer, message_len)) = path.listen(session)? else {
        return Err(out_of_turn());
    };
    if ![Protocol::Rbudp, Protocol::Tcp].contains(&offer.protocol) {
        return Err(out_of_turn());
    }
    session.control.limit_silence(settings.silence_max);
    thread::scope(|scope| {
        let _alive = Alive::say(scope, session);
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
    say(session, Word::Report(report))?;
    session.control.flush(FAREWELL);
    Ok(report)
}

pub(super) fn say(session: &Session, word: Word) -> Result<(), Error> {
    session.say(&Message::Stream(word))
}

/// Waits for the peer's next word as long as the peer is alive: a stream may rest.
pub(super) fn hear(session: &Session) -> Result<Word, Error> {
    loop {
        interrupt::check()?;
        match session.hear_for(LOOK) {
            Ok(Message::Stream(word)) => return Ok(word),
            Ok(Message::Alive) => {}
            Ok(_) => return Err(out_of_turn()),
            Err(error) if error.code == Code::TimedOut && !session.was_told() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Fails if this side has ended the stream.
pub(super) fn check(session: &Session) -> Result<(), Error> {
    interrupt::check()?;
    session.halt.check()
}

/// Fails if either side has ended the stream, at a time when the peer has nothing else to say.
pub(super) fn check_both(session: &Session) -> Result<(), Error> {
    check(session)?;
    loop {
        match session.heard()? {
            None => return Ok(()),
            Some(Message::Alive) => {}
            Some(_) => return Err(out_of_turn()),
        }
    }
}

pub(super) fn out_of_turn() -> Error {
    Error::new(
        Code::Protocol,
        "the peer said something else than a stream needs",
    )
}

/// Tells the time as often as the receiver asks.
fn answer_clocks(session: &Session) -> Result<(), Error> {
    loop {
        match hear(session)? {
            Word::Time(_) => say(session, Word::Time(session.clock.now().as_nanos()))?,
            Word::Ready => return Ok(()),
            Word::Begin(..) | Word::Payload(_) | Word::End(_) | Word::Report(_) => {
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
        say(session, Word::Time(0))?;
        let Word::Time(theirs) = hear(session)? else {
            return Err(out_of_turn());
        };
        let rtt = session.clock.now().since(before);
        if rtt < best.0 {
            let ours = i128::from((before + rtt / 2).as_nanos());
            best = (rtt, i64::try_from(ours - i128::from(theirs)).unwrap_or(0));
        }
    }
    say(session, Word::Ready)?;
    Ok(best.1)
}

/// The most bytes of a message that fit in the path's datagrams with the head, the seal and its own length.
fn message_len(path: &Path) -> u32 {
    if path.sockets.is_empty() {
        return STREAM_MESSAGE_LEN;
    }
    let around = mover::AROUND_LEN + HEAD_LEN as u32;
    (path.datagram_len as u32).saturating_sub(around) / 2 * 2
        - lighthaul_proto::fec::config::LEN_LEN
}

fn the_lane(session: &Session, offer: &Offer, path: Path) -> Result<Lane, Error> {
    mover::check(offer, &path)?;
    let mut lanes = mover::lanes_over(session, offer, path, &[])?;
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
/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_secs(1);
/// How long the last word gets to leave.
const FAREWELL: Duration = Duration::from_secs(2);
