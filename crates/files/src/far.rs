//! Requests about files of a peer: receiving the reply, and replying.

use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::{Code, Error};
use lighthaul_session::session::Session;

use crate::verb::{Answer, Verb};
use crate::work::{Scope, work};

/// Executes the request of a peer and sends the reply, no further ahead than TCP allows. Returns
/// the number of items done.
pub fn answer(session: &Session, scope: Scope<'_>, verb: &Verb) -> Result<u64, Error> {
    let done = work(scope, verb, &mut |answer| {
        wait_for_room(session)?;
        session.say(&answer)
    })?;
    session.control.flush(PATIENCE);
    Ok(done)
}

/// Receives the reply of a peer, part by part. The last part is [`Answer::Done`].
pub fn hear(
    session: &Session,
    take: &mut dyn FnMut(Answer) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let answer: Answer = session.hear()?;
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
            return Err(Error::new(Code::TimedOut, "the peer stopped reading"));
        }
        let mut watches = [Watch::read(session.stream.as_raw_fd())];
        wait(session.clock, &mut watches, deadline)
            .map_err(|e| Error::new(Code::Io, format!("cannot wait for the peer: {e}")))?;
        // the peer may only report an error now
        session.stream.woken();
        session.heard::<Answer>()?;
    }
    Ok(())
}

/// Longest wait until the peer reads on.
const PATIENCE: Duration = Duration::from_secs(30);
