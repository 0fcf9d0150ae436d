//! Word to the peer that we are there, however long whoever watches takes to look: a plan may be read in a pager.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::error::caught;
use crate::message::Message;
use crate::session::Session;

/// How often the peer hears that we are there.
const OFTEN: Duration = Duration::from_secs(1);

/// The peer hears that we are there until this is dropped.
#[derive(Debug)]
pub struct Alive {
    _over: Sender<()>,
}

impl Alive {
    /// Begins to say so, from a thread of `scope`, with the counter of our work ([`Message::Alive`]).
    pub fn say<'s>(
        scope: &'s Scope<'s, '_>,
        session: &'s Session,
        mut work: impl FnMut() -> u64 + Send + 's,
    ) -> Self {
        let (over, ends) = channel();
        scope.spawn(move || {
            let said = caught("sign of life", || {
                while ends.recv_timeout(OFTEN) == Err(RecvTimeoutError::Timeout) {
                    // a peer that is done may be gone, and its last word be waiting for us
                    session.say(&Message::Alive { work: work() }).ok();
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
