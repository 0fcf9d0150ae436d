//! Frames on stream 0, of any topic.

use std::time::Duration;

use lighthaul_session::session::Session;

/// Reads frames until the peer closes.
pub(crate) fn stay(session: &Session) {
    let patience = Duration::from_secs(30);
    let next = || {
        session
            .stream
            .receive(session.clock, session.clock.now() + patience)
    };
    while next().is_ok() {}
}
