//! Frames on stream 0, of any topic.

use std::time::Duration;

use lighthaul_copy::message::Message;
use lighthaul_session::message as own;
use lighthaul_session::session::Session;
use lighthaul_session::topic::Topic;

/// Reads frames until the peer has its result, has failed, or closes.
pub(crate) fn stay(session: &Session) {
    let patience = Duration::from_secs(30);
    let next = || {
        session
            .stream
            .receive(session.clock, session.clock.now() + patience)
    };
    let is_last = |octets: &[u8]| {
        let failed = own::Message::decode(octets);
        matches!(failed, Ok(own::Message::Failed { .. }))
            || matches!(Message::decode(octets), Ok(Message::Result(_)))
    };
    while next().is_ok_and(|frame| !is_last(&frame.octets)) {}
}
