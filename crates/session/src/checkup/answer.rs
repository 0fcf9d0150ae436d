//! The side of a checkup that answers.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;

use crate::checkup::back;
use crate::checkup::message::{Facts, Message, out_of_turn};
use crate::door::Door;
use crate::error::Error;
use crate::path::explore;
use crate::session::Session;

/// Tells the time as often as it is asked for, looks at the path, and says what it is like here.
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
    // either side asks how its own datagrams fare
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

/// How long the last word gets to leave.
const FAREWELL: Duration = Duration::from_secs(2);
