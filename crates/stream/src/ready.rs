//! A stream that both sides are ready for, and what they say to each other meanwhile.

use std::time::Duration;

use lighthaul_io::drive::Lane;
use lighthaul_io::interrupt;

use super::message::{Message, Wanted};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::offer::Offer;
use lighthaul_session::session::Session;

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

/// Waits for what the peer says next as long as the peer is alive: a stream may rest.
pub(super) fn hear(session: &Session) -> Result<Message, Error> {
    loop {
        interrupt::check()?;
        match session.hear_for(LOOK) {
            Ok(message) => return Ok(message),
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
    match session.heard::<Message>()? {
        None => Ok(()),
        Some(_) => Err(out_of_turn()),
    }
}

pub(super) fn out_of_turn() -> Error {
    Error::new(
        Code::Protocol,
        "the peer said something else than a stream needs",
    )
}

/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_secs(1);
