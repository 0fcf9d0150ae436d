//! Answering side of a checkup.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;

use crate::checkup::count;
use crate::checkup::message::{HostFacts, Message, unexpected};
use crate::checkup::reverse;
use crate::error::Error;
use crate::fault::PeerFault;
use crate::path::{LISTEN_TIMEOUT, explore};
use crate::role::Role;
use crate::session::Session;

/// Answers clock requests, counts datagrams, explores the path, and reports the facts of this host, as the client
/// requests.
pub fn answer(session: &Session, role: &Role) -> Result<(), Error> {
    if !answer_clocks(session, role)? {
        return end(session);
    }
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
        Message::Time { .. }
        | Message::Explore
        | Message::Facts(_)
        | Message::Count
        | Message::Counted { .. } => return Err(unexpected()),
    }
    end(session)
}

fn end(session: &Session) -> Result<(), Error> {
    session.say(&Message::End)?;
    session.control.flush(FLUSH_TIMEOUT);
    Ok(())
}

/// Answers clock requests and counts datagrams, until the client explores the path or ends the checkup. Returns true if
/// it explores. The number of requests and their time are limited.
fn answer_clocks(session: &Session, role: &Role) -> Result<bool, Error> {
    let until = session.clock.now() + CLOCKS_TIMEOUT;
    for _ in 0..=ROUND_TRIPS_MAX {
        match session.hear_for(session.clock.until(until))? {
            Message::Time { .. } => session.say(&Message::Time {
                nanos: unix_nanos(),
            })?,
            Message::Count => count::answer(session, role, until)?,
            Message::Explore => return Ok(true),
            Message::End => return Ok(false),
            Message::Facts(_) | Message::SendTo { .. } | Message::Counted { .. } => {
                return Err(unexpected());
            }
        }
    }
    Err(PeerFault::Invalid("more requests for the time than the limit").into())
}

/// Maximum number of clock requests.
const ROUND_TRIPS_MAX: usize = 16;
/// Longest time for all clock requests.
const CLOCKS_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait until the last message is sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
