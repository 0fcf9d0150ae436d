//! Answering side of a checkup.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;

use crate::checkup::message::{HostFacts, Message, unexpected};
use crate::checkup::reverse;
use crate::error::Error;
use crate::fault::PeerFault;
use crate::path::{LISTEN_TIMEOUT, explore};
use crate::role::Role;
use crate::session::Session;

/// Answers clock requests, explores the path, and reports the facts of this host.
pub fn answer(session: &Session, role: &Role) -> Result<(), Error> {
    answer_clocks(session)?;
    // each side measures the path of its own datagrams
    let mut path = explore(&session.dialog(), role, true, 1)?;
    let facts = HostFacts::of(session.control.local(), path.datagram_len);
    session.say(&Message::Facts(facts))?;
    match path.listen(&session.dialog(), Some(LISTEN_TIMEOUT))? {
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

/// Answers clock requests until the client explores the path. Their number and their time are limited.
fn answer_clocks(session: &Session) -> Result<(), Error> {
    let until = session.clock.now() + CLOCKS_TIMEOUT;
    for _ in 0..=ROUND_TRIPS_MAX {
        match session.hear_for(session.clock.until(until))? {
            Message::Time { .. } => session.say(&Message::Time {
                nanos: unix_nanos(),
            })?,
            Message::Explore => return Ok(()),
            Message::Facts(_) | Message::SendTo { .. } | Message::End => return Err(unexpected()),
        }
    }
    Err(PeerFault::Invalid("more requests for the time than the limit").into())
}

/// Most clock requests.
const ROUND_TRIPS_MAX: usize = 16;
/// Longest time for all clock requests.
const CLOCKS_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait until the last message is sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
