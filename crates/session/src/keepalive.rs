//! Keepalive messages while this side is busy, for example while a user reads the plan of a copy.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::error::caught;
use crate::message::Message;
use crate::session::Session;

/// Interval between keepalive messages.
const INTERVAL: Duration = Duration::from_secs(1);

/// Thread that sends keepalive messages to the peer until this value is dropped.
#[derive(Debug)]
pub struct Keepalive {
    _stop: Sender<()>,
}

impl Keepalive {
    /// Starts the thread in `scope`, with the counter of this side's work ([`Message::Keepalive`]).
    pub fn start<'s>(
        scope: &'s Scope<'s, '_>,
        session: &'s Session,
        mut work: impl FnMut() -> u64 + Send + 's,
    ) -> Self {
        let (stop, ends) = channel();
        scope.spawn(move || {
            let sent = caught("keepalive", || {
                while ends.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    // a peer that is done may have closed, and its last message may be unread
                    session.say(&Message::Keepalive { work: work() }).ok();
                }
                Ok(())
            });
            if let Err(error) = sent {
                session.halt.stop(error);
            }
        });
        Self { _stop: stop }
    }
}
