//! Answering side of a checkup.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;

use crate::checkup::message::{HostFacts, Message, unexpected};
use crate::checkup::reverse;
use crate::error::Error;
use crate::path::explore;
use crate::role::Role;
use crate::session::Session;

/// Answers clock requests, explores the path, and reports the facts of this host.
pub fn answer(session: &Session, role: &Role<'_>) -> Result<(), Error> {
    loop {
        match session.hear()? {
            Message::Time { .. } => session.say(&Message::Time {
                nanos: unix_nanos(),
            })?,
            Message::Explore => break,
            Message::Facts(_) | Message::SendTo { .. } | Message::End => return Err(unexpected()),
        }
    }
    // each side measures the path of its own datagrams
    let mut path = explore(session, role, true, 1)?;
    let facts = HostFacts::of(session.control.local(), path.datagram_len);
    session.say(&Message::Facts(facts))?;
    match path.listen(session)? {
        Message::End => {}
        Message::SendTo { port } => {
            reverse::send(session, port)?;
            let Message::End = session.hear()? else {
                return Err(unexpected());
            };
        }
        Message::Time { .. } | Message::Explore | Message::Facts(_) => return Err(unexpected()),
    }
    session.say(&Message::End)?;
    session.control.flush(FLUSH_TIMEOUT);
    Ok(())
}

/// Longest wait until the last message is sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
