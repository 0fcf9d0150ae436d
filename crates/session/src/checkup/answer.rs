//! Answering side of a checkup.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;

use crate::checkup::back;
use crate::checkup::message::{Facts, Message, out_of_turn};
use crate::door::Door;
use crate::error::Error;
use crate::path::explore;
use crate::session::Session;

/// Answers clock requests, explores the path, and reports the facts of this host.
pub fn answer(session: &Session, door: &Door<'_>) -> Result<(), Error> {
    loop {
        match session.hear()? {
            Message::Time { .. } => session.say(&Message::Time {
                nanos: unix_nanos(),
            })?,
            Message::Explore => break,
            Message::Facts(_) | Message::Try { .. } | Message::End => return Err(out_of_turn()),
        }
    }
    // each side measures the path of its own datagrams
    let mut path = explore(session, door, true, 1)?;
    let facts = Facts::of(session.control.local(), path.datagram_len);
    session.say(&Message::Facts(facts))?;
    match path.listen(session)? {
        Message::End => {}
        Message::Try { port } => {
            back::send(session, port)?;
            let Message::End = session.hear()? else {
                return Err(out_of_turn());
            };
        }
        Message::Time { .. } | Message::Explore | Message::Facts(_) => return Err(out_of_turn()),
    }
    session.say(&Message::End)?;
    session.control.flush(FAREWELL);
    Ok(())
}

/// Longest wait until the last message is sent.
const FAREWELL: Duration = Duration::from_secs(2);
