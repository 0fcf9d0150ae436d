//! Routing of further connections to the sessions that they belong to.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::Error;
use lighthaul_session::message::Message;
use lighthaul_session::role;
use lighthaul_session::secrets::{JOINS_MAX, Join};
use lighthaul_session::session::Session;

use crate::client_identity::ClientIdentity;
use crate::error::Fault;

/// Sessions that accept further connections, by number.
#[derive(Debug, Default)]
pub(crate) struct Joins(Mutex<BTreeMap<u64, JoinableSession>>);

/// Session that accepts further connections, and the proof that they must show.
#[derive(Debug)]
struct JoinableSession {
    key: Fingerprint,
    /// Identity whose resource share the connections use.
    identity: ClientIdentity,
    join: Join,
    hand_over: HandOver,
}

/// Channel of the connections to their session.
type HandOver = SyncSender<(u8, Session)>;

/// Registration of a session for further connections, which ends on drop.
#[derive(Debug)]
pub(crate) struct Registration<'a>(&'a Joins, u64);

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl Joins {
    /// Registers `session` for further connections, and returns the channel on which they arrive.
    pub(crate) fn open(
        &self,
        session: &Session,
        identity: ClientIdentity,
    ) -> (Registration<'_>, role::Joins) {
        let (hand_over, joins) = sync_channel(JOINS_MAX.into());
        let join = session.secrets.join(0);
        let waiting = JoinableSession {
            key: session.peer,
            identity,
            join,
            hand_over,
        };
        self.lock().insert(join.session, waiting);
        (Registration(self, join.session), joins)
    }

    /// Checks the proof of the holder of `key`. Returns the identity whose share of the daemon the connection uses.
    pub(crate) fn check(&self, key: Fingerprint, join: &Join) -> Result<ClientIdentity, Error> {
        self.find(key, join).map(|(_, identity)| identity)
    }

    /// Hands a connection to its session.
    pub(crate) fn hand_over(&self, connection: Session, join: &Join) -> Result<(), Error> {
        let found = self.find(connection.peer, join);
        let found = found.and_then(|waiting| {
            connection.say(&Message::Welcome)?;
            Ok(waiting)
        });
        match found {
            Ok((hand_over, _)) => {
                // a session that has ended, or that has all its connections, needs no more
                hand_over.try_send((join.number, connection)).ok();
                Ok(())
            }
            Err(error) => {
                connection.give_up(&error);
                Err(error)
            }
        }
    }

    fn find(&self, key: Fingerprint, join: &Join) -> Result<(HandOver, ClientIdentity), Error> {
        let waiting = self.lock();
        let waiting = waiting.get(&join.session);
        let waiting = waiting.filter(|waiting| waiting.key == key && waiting.join.proves(join));
        // the same error for an unknown session and a wrong proof, so that sessions cannot be guessed
        let refused = || Fault::NoSession.into();
        waiting
            .map(|waiting| (waiting.hand_over.clone(), waiting.identity))
            .ok_or_else(refused)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, JoinableSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
