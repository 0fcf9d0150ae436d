//! Frames on stream 0, of any topic.

use std::time::Duration;

use lighthaul_copy::message::Message;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

/// Reads frames until the peer has its result, or closes.
pub(crate) fn stay(session: &Session) {
    let patience = Duration::from_secs(30);
    let next = || {
        session
            .stream
            .receive(session.clock, session.clock.now() + patience)
    };
    let is_result = |octets: &[u8]| matches!(Message::decode(octets), Ok(Message::Result(_)));
    while next().is_ok_and(|frame| !is_result(&frame.octets)) {}
}
