//! Stream for which both sides are ready, and its messages.

use std::time::Duration;

use lighthaul_io::drive::Lane;
use lighthaul_io::host::interrupt;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::offer::Offer;
use lighthaul_session::session::Session;

use crate::message::{Message, StreamRequest};

/// Stream for which both sides are ready.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    pub(crate) session: &'a Session,
    pub(crate) wanted: &'a StreamRequest,
    pub(crate) offer: Offer,
    pub(crate) plain: bool,
    /// Maximum number of bytes of a message.
    pub(crate) message_len: u32,
    /// Nanoseconds by which the receiver's clock is ahead; zero on the sender.
    pub(crate) ahead_nanos: i64,
    pub(crate) lane: Lane,
}

/// Waits for the next message as long as the peer is alive, since a stream may pause.
pub(crate) fn hear(session: &Session) -> Result<Message, Error> {
    loop {
        interrupt::check()?;
        match session.hear_for(LOOK) {
            Ok(message) => return Ok(message),
            Err(error) if error.code() == Code::TimedOut && !session.was_told() => {}
            Err(error) => return Err(error),
        }
    }
}

/// Fails if this side has ended the stream.
pub(crate) fn check(session: &Session) -> Result<(), Error> {
    interrupt::check()?;
    session.halt.check()
}

/// Fails if either side has ended the stream. The peer must not send other messages now.
pub(crate) fn check_both(session: &Session) -> Result<(), Error> {
    check(session)?;
    match session.heard::<Message>()? {
        None => Ok(()),
        Some(_) => Err(out_of_turn()),
    }
}

/// Returns the error of a peer whose message does not belong to a stream, or not to this step.
pub(crate) fn out_of_turn() -> Error {
    PeerFault::Unexpected("the next message of a stream").into()
}

/// Interval at which a waiting side checks for an interruption.
const LOOK: Duration = Duration::from_secs(1);
