//! Words of a checkup, said and heard.

use crate::checkup::word::Word;
use crate::error::{Code, Error};
use crate::message::Message;
use crate::session::Session;

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
