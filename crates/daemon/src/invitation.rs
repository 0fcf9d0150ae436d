//! Callers whom somebody with rights here has asked to be let in, by the key that they will show.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::message::Message;
use lighthaul_session::protocol;
use lighthaul_session::session::{Halt, Session};
use lighthaul_transfer::watch::Summary;

use crate::asked::Asked;
use crate::rights::Rights;

/// How long a caller may take to come.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a host looks at what became of its caller.
const LOOK: Duration = Duration::from_millis(200);
/// How long a caller may take to end once its host has.
const GRACE: Duration = Duration::from_secs(5);
/// How often a host hears that we are there, so that nothing between takes the line for dead.
const ALIVE: Duration = Duration::from_secs(10);

/// What one caller may do, once, while its host looks on.
#[derive(Debug)]
pub(crate) struct Invitation {
    /// What it must ask for.
    pub(crate) asked: Asked,
    /// Its host's.
    pub(crate) rights: Rights,
    /// Whose share of the daemon it uses: its host's.
    pub(crate) identity: Fingerprint,
    /// Ends its session.
    pub(crate) halt: Arc<Halt>,
    /// Tells the host when it goes.
    _here: Sender<()>,
}

/// The invitations that nobody has come with yet.
#[derive(Debug, Default)]
pub(crate) struct Invitations(Mutex<BTreeMap<Fingerprint, Invitation>>);

impl Invitations {
    /// The invitation of the holder of `key`, which is used up.
    pub(crate) fn take(&self, key: Fingerprint) -> Option<Invitation> {
        self.lock().remove(&key)
    }

    /// Lets the holder of `key` in to ask for `asked`, and stays until it has gone; it goes if its host does.
    pub(crate) fn host(
        &self,
        session: &Session,
        key: Fingerprint,
        asked: Asked,
        (rights, identity): (&Rights, Fingerprint),
    ) -> Result<Summary, Error> {
        let (here, gone) = channel();
        let halt = Arc::<Halt>::default();
        let invitation = Invitation {
            asked,
            rights: rights.clone(),
            identity,
            halt: Arc::clone(&halt),
            _here: here,
        };
        if self.lock().insert(key, invitation).is_some() {
            // of two hosts with one caller, at least one lies
            self.take(key);
            let text = "somebody else expects the same caller there";
            return Err(Error::new(Code::Permission, text));
        }
        let result = self.wait(session, key, &gone);
        self.withdraw(key, &halt);
        if let Err(error) = &result {
            halt.stop(error.clone());
            // who comes again finds nothing of it in its way
            gone.recv_timeout(GRACE).ok();
        }
        result.map(|()| Summary::default())
    }

    /// Takes back the invitation that has this halt, if nobody has come with it.
    fn withdraw(&self, key: Fingerprint, halt: &Arc<Halt>) {
        let mut open = self.lock();
        if open
            .get(&key)
            .is_some_and(|invitation| Arc::ptr_eq(&invitation.halt, halt))
        {
            open.remove(&key);
        }
    }

    fn wait(&self, session: &Session, key: Fingerprint, gone: &Receiver<()>) -> Result<(), Error> {
        session.say(&Message::Welcome {
            protocols: protocol::names(),
        })?;
        let began = session.clock.now();
        let mut alive = began;
        loop {
            match session.hear_for::<Message>(LOOK) {
                Err(error) if error.code == Code::TimedOut && !session.was_told() => {}
                // who leaves when all is over leaves nobody behind
                Err(_) if gone.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
                Ok(_) => return Err(Error::new(Code::Protocol, "the peer spoke out of turn")),
            }
            if gone.try_recv() == Err(TryRecvError::Disconnected) {
                return Ok(());
            }
            let now = session.clock.now();
            if now.since(began) > PATIENCE && self.lock().contains_key(&key) {
                let text = "whom you expected did not call within a minute";
                return Err(Error::new(Code::TimedOut, text));
            }
            if now.since(alive) > ALIVE {
                alive = now;
                session.say(&Message::Alive { work: 0 })?;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, Invitation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
