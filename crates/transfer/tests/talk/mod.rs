//! Frames on the talk stream, whatever their topics.

use std::time::Duration;

use lighthaul_session::session::Session;

/// Takes frames until the peer goes.
pub(crate) fn stay(session: &Session) {
    let patience = Duration::from_secs(30);
    let next = || {
        session
            .stream
            .receive(session.clock, session.clock.now() + patience)
    };
    while next().is_ok() {}
}
