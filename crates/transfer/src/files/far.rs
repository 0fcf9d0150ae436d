//! Files of a peer: asking for them, and answering.

use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_io::host::wait::{Watch, wait};

use crate::error::{Code, Error};
use crate::files::verb::{Answer, Verb};
use crate::files::work::{Scope, work};
use crate::message::Message;
use crate::session::Session;

/// Answers what a peer asks; as far ahead of the peer as TCP allows, and no further.
pub fn answer(session: &Session, scope: Scope<'_>, verb: &Verb) -> Result<u64, Error> {
    let done = work(scope, verb, &mut |answer| {
        wait_for_room(session)?;
        session.say(&Message::Files(answer))
    })?;
    session.control.flush(PATIENCE);
    Ok(done)
}

/// Hears the answer of a peer that agreed to do something, piece by piece, the last one included.
pub fn hear(
    session: &Session,
    take: &mut dyn FnMut(Answer) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let Message::Files(answer) = session.hear()? else {
            return Err(Error::new(
                Code::Protocol,
                "the far side answered something else",
            ));
        };
        let done = matches!(answer, Answer::Done(_));
        take(answer)?;
        if done {
            return Ok(());
        }
    }
}

fn wait_for_room(session: &Session) -> Result<(), Error> {
    let deadline = session.clock.now() + PATIENCE;
    while !session.stream.has_room() {
        if session.clock.now() >= deadline {
            return Err(Error::new(
                Code::TimedOut,
                "the peer does not listen any more",
            ));
        }
        let mut watches = [Watch::read(session.stream.as_raw_fd())];
        wait(session.clock, &mut watches, deadline)
            .map_err(|e| Error::new(Code::Io, format!("cannot wait for the peer: {e}")))?;
        // what the peer says meanwhile is that it goes, if anything
        session.stream.woken();
        session.heard()?;
    }
    Ok(())
}

/// How long a peer may take to make room.
const PATIENCE: Duration = Duration::from_secs(30);
