//! The side of a checkup that answers.

use std::time::Duration;

use lighthaul_io::host::clock::unix_nanos;

use crate::checkup::back;
use crate::checkup::word::{Facts, Word};
use crate::error::{Code, Error};
use crate::message::Message;
use crate::path::{Door, explore};
use crate::session::Session;

/// Tells the time as often as it is asked for, looks at the path, and says what it is like here.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "whatever else a peer says is out of turn"
)]
pub fn answer(session: &Session, door: &Door<'_>) -> Result<(), Error> {
    loop {
        match hear(session)? {
            Word::Time(_) => say(session, Word::Time(unix_nanos()))?,
            Word::Explore => break,
            Word::Facts(_) | Word::Try(_) | Word::End => return Err(out_of_turn()),
        }
    }
    // either side asks how its own datagrams fare
    let mut path = explore(session, door, true, 1)?;
    let facts = Facts::of(session.control.local(), path.datagram_len);
    say(session, Word::Facts(facts))?;
    match path.listen(session)? {
        Message::Checkup(Word::End) => {}
        Message::Checkup(Word::Try(port)) => {
            back::send(session, port)?;
            let Word::End = hear(session)? else {
                return Err(out_of_turn());
            };
        }
        _ => return Err(out_of_turn()),
    }
    say(session, Word::End)?;
    session.control.flush(FAREWELL);
    Ok(())
}

pub(super) fn say(session: &Session, word: Word) -> Result<(), Error> {
    session.say(&Message::Checkup(word))
}

pub(super) fn hear(session: &Session) -> Result<Word, Error> {
    let Message::Checkup(word) = session.hear()? else {
        return Err(out_of_turn());
    };
    Ok(word)
}

pub(super) fn out_of_turn() -> Error {
    Error::new(
        Code::Protocol,
        "the peer said something else than a checkup needs",
    )
}

/// How long the last word gets to leave.
const FAREWELL: Duration = Duration::from_secs(2);
