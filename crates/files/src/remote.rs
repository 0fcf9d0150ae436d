//! Requests about files of a peer: receiving the reply, and replying.

use std::os::fd::AsRawFd;
use std::time::Duration;

use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_session::error::Error;
use lighthaul_session::session::Session;

use crate::error::Fault;
use crate::execute::{Scope, execute};
use crate::request::{FileReply, FileRequest};

/// Executes the request of a peer and sends the reply, as fast as TCP takes it. Returns the number of items done.
pub fn serve(session: &Session, scope: Scope<'_>, request: &FileRequest) -> Result<u64, Error> {
    serve_with(session, |say| execute(scope, request, say))
}

/// Sends the reply that `execute` passes to its argument, as fast as TCP takes it. Returns the number of items done.
pub fn serve_with(
    session: &Session,
    execute: impl FnOnce(&mut dyn FnMut(FileReply) -> Result<(), Error>) -> Result<u64, Error>,
) -> Result<u64, Error> {
    let done = execute(&mut |answer| {
        wait_for_room(session)?;
        session.say(&answer)
    })?;
    session.control.flush(TIMEOUT);
    Ok(done)
}

/// Receives the reply of a peer, part by part. The last part is [`FileReply::Done`].
pub fn receive(
    session: &Session,
    take: &mut dyn FnMut(FileReply) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let answer: FileReply = session.hear()?;
        let done = matches!(answer, FileReply::Done { .. });
        take(answer)?;
        if done {
            return Ok(());
        }
    }
}

fn wait_for_room(session: &Session) -> Result<(), Error> {
    let deadline = session.clock.now() + TIMEOUT;
    while !session.stream.has_room() {
        if session.clock.now() >= deadline {
            return Err(Fault::Unread.into());
        }
        let mut watches = [Watch::read(session.stream.as_raw_fd())];
        wait(session.clock, &mut watches, deadline).map_err(Fault::Wait)?;
        // the peer may only report an error now
        session.stream.woken();
        session.heard::<FileReply>()?;
    }
    Ok(())
}

/// Longest wait until the peer reads on.
const TIMEOUT: Duration = Duration::from_secs(30);
