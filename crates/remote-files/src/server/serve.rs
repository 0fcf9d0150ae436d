//! Session that serves files: one thread for each connection, a few for long requests.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_io::control::Control;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::join::join;
use lighthaul_session::message::Message as SessionMessage;
use lighthaul_session::role::Role;
use lighthaul_session::secrets::JOINS_MAX;
use lighthaul_session::session::Session;

use crate::message::{Message, Request, STREAM};
use crate::server::connection::Connection;
use crate::server::jobs::{Job, Queues, work};
use crate::server::shared::{Scope, Shared};

/// Threads of a session for requests that may read whole files.
const FILE_WORKERS: usize = 4;
/// Threads of a session for requests that take longer.
pub const WORKERS: usize = FILE_WORKERS + 1;
/// Maximum number of requests in each queue.
const JOBS_MAX: usize = 64;
/// Interval of keepalives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest silence of the client, which sends keepalives.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Serves the requests of a client until it ends the session. Returns the bytes that were read and written.
pub fn serve(
    session: &Session,
    role: Role,
    mut scope: Scope,
    request: Request,
) -> Result<u64, Error> {
    scope.access = scope.access.following();
    scope.writable &= request.changes;
    session.control.limit_silence(SILENCE_MAX);
    let shared = Shared::new(session, scope);
    let (files, for_files) = sync_channel(JOBS_MAX);
    let (lists, for_lists) = sync_channel(JOBS_MAX);
    let (for_files, for_lists) = (Mutex::new(for_files), Mutex::new(for_lists));
    let queues = Queues { files, lists };
    let result = thread::scope(|scope| {
        for _ in 0..FILE_WORKERS {
            scope.spawn(|| worker(&shared, &for_files));
        }
        scope.spawn(|| worker(&shared, &for_lists));
        let (shared, first) = (&shared, queues.clone());
        scope.spawn(move || connection(shared, &session.control, first));
        scope.spawn(move || {
            let joined = caught("further connections", || further(shared, &role, request));
            // the client continues with its present connections
            for control in joined.unwrap_or_default() {
                let queues = queues.clone();
                scope.spawn(move || connection(shared, &control, queues));
            }
        });
        let result = caught("session", || attend(session));
        shared.end();
        result
    });
    result.map(|()| shared.bytes.load(Relaxed))
}

/// Answers the session's own messages until the client ends it.
fn attend(session: &Session) -> Result<(), Error> {
    loop {
        match session.hear_for::<Message>(KEEPALIVE_INTERVAL) {
            Ok(Message::End) => return Ok(()),
            Ok(_) => return Err(PeerFault::Unexpected("the end of the session").into()),
            Err(error) if error.code() == Code::TimedOut && !session.was_told() => {
                session.say(&SessionMessage::Keepalive { work: 0 })?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Returns the further connections of the client.
fn further(shared: &Shared<'_>, role: &Role, request: Request) -> Result<Vec<Control>, Error> {
    if !request.joins {
        return Ok(Vec::new());
    }
    let dialog = shared.session.path_dialog(Arc::default())?;
    join(&dialog, role, JOINS_MAX, false)
}

/// Serves one connection until it ends.
fn connection(shared: &Shared<'_>, control: &Control, queues: Queues) {
    let served = caught("connection", || {
        let stream = control.open(STREAM)?;
        if shared.keep(control) {
            Connection::new(shared, stream, queues).serve()?;
        }
        Ok(())
    });
    if let Err(error) = served
        && !shared.over.load(Relaxed)
        && error.code() != Code::Network
    {
        shared.session.halt.stop(error);
    }
    control.close();
}

/// Executes long requests until no connection can send more.
fn worker(shared: &Shared<'_>, waiting: &Mutex<Receiver<Job>>) {
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(job) = next else {
            return;
        };
        let done = caught("job", || work(shared, job));
        if let Err(error) = done
            && !shared.over.load(Relaxed)
            && error.code() != Code::Network
        {
            shared.session.halt.stop(error);
        }
    }
}
