//! A stream that both sides are ready for, and what they say to each other meanwhile.

use std::time::Duration;

use lighthaul_io::drive::Lane;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::offer::Offer;
use lighthaul_session::session::Session;

use crate::message::{Message, Wanted};

/// A stream that both sides are ready for.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    pub(crate) session: &'a Session,
    pub(crate) wanted: &'a Wanted,
    pub(crate) offer: Offer,
    pub(crate) plain: bool,
    /// The most bytes of a message.
    pub(crate) message_len: u32,
    /// By how much the receiver's clock is ahead; the sender does not know.
    pub(crate) ahead_nanos: i64,
    pub(crate) lane: Lane,
}

/// Waits for what the peer says next as long as the peer is alive: a stream may rest.
pub(crate) fn hear(session: &Session) -> Result<Message, Error> {
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
pub(crate) fn check(session: &Session) -> Result<(), Error> {
    interrupt::check()?;
    session.halt.check()
}

/// Fails if either side has ended the stream, at a time when the peer has nothing else to say.
pub(crate) fn check_both(session: &Session) -> Result<(), Error> {
    check(session)?;
    match session.heard::<Message>()? {
        None => Ok(()),
        Some(_) => Err(out_of_turn()),
    }
}

pub(crate) fn out_of_turn() -> Error {
    Error::new(
        Code::Protocol,
        "the peer said something else than a stream needs",
    )
}

/// How often who waits looks whether it is to stop.
const LOOK: Duration = Duration::from_secs(1);
