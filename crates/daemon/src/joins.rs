//! Further connections find the session that they belong to.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::Message;
use lighthaul_session::secrets::{JOINS_MAX, Join};
use lighthaul_session::session::Session;
use lighthaul_session::{protocol, role};

/// Sessions that further connections may join.
#[derive(Debug, Default)]
pub(crate) struct Joins(Mutex<BTreeMap<u64, Waiting>>);

/// A session, and what a connection has to show to belong to it.
#[derive(Debug)]
struct Waiting {
    key: Fingerprint,
    /// Whose share of the daemon it uses.
    identity: Fingerprint,
    join: Join,
    hand_over: HandOver,
}

/// Takes connections to the session that they belong to.
type HandOver = SyncSender<(u8, Session)>;

/// A session's being open to further connections, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Open<'a>(&'a Joins, u64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl Joins {
    /// Lets connections join `session` from now on, and says where they arrive.
    pub(crate) fn open(&self, session: &Session, identity: Fingerprint) -> (Open<'_>, role::Joins) {
        let (hand_over, joins) = sync_channel(JOINS_MAX.into());
        let join = session.secrets.join(0);
        let waiting = Waiting {
            key: session.peer,
            identity,
            join,
            hand_over,
        };
        self.lock().insert(join.session, waiting);
        (Open(self, join.session), joins)
    }

    /// Whose share of the daemon a connection uses with which the holder of `key` may join with this.
    pub(crate) fn check(&self, key: Fingerprint, join: &Join) -> Result<Fingerprint, Error> {
        self.find(key, join).map(|(_, identity)| identity)
    }

    /// Hands the connection to the session that it belongs to.
    pub(crate) fn hand_over(&self, connection: Session, join: &Join) -> Result<(), Error> {
        let found = self.find(connection.peer, join);
        let found = found.and_then(|waiting| {
            connection.say(&Message::Welcome {
                protocols: protocol::names(),
            })?;
            Ok(waiting)
        });
        match found {
            Ok((hand_over, _)) => {
                // a session that has ended or has as many as it takes needs no more
                hand_over.try_send((join.number, connection)).ok();
                Ok(())
            }
            Err(error) => {
                connection.give_up(&error);
                Err(error)
            }
        }
    }

    fn find(&self, key: Fingerprint, join: &Join) -> Result<(HandOver, Fingerprint), Error> {
        let waiting = self.lock();
        let waiting = waiting.get(&join.session);
        let waiting = waiting.filter(|waiting| waiting.key == key && waiting.join.proves(join));
        // nobody learns which sessions there are
        let refused = || Error::new(Code::Permission, "no session there is yours to join");
        waiting
            .map(|waiting| (waiting.hand_over.clone(), waiting.identity))
            .ok_or_else(refused)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
