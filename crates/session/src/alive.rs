//! Keepalive messages while this side is busy, for example while a user reads the plan of a copy.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::error::caught;
use crate::message::Message;
use crate::session::Session;

/// Interval between keepalive messages.
const OFTEN: Duration = Duration::from_secs(1);

/// Thread that sends keepalive messages to the peer until this value is dropped.
#[derive(Debug)]
pub struct Alive {
    _over: Sender<()>,
}

impl Alive {
    /// Starts the thread in `scope`.
    pub fn say<'s>(scope: &'s Scope<'s, '_>, session: &'s Session) -> Self {
        let (over, ends) = channel();
        scope.spawn(move || {
            let said = caught("sign of life", || {
                while ends.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                    // a peer that is done may have closed, and its last message may be unread
                    session.say(&Message::Alive).ok();
                }
                Ok(())
            });
            if let Err(error) = said {
                session.halt.stop(error);
            }
        });
        Self { _over: over }
    }
}
