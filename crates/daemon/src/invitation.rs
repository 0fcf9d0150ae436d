//! Invitations: a client with rights has another client admitted, whose key it names.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_copy::watch::Summary;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::halt::Halt;
use lighthaul_session::message::Message;
use lighthaul_session::session::Session;

use crate::client_identity::ClientIdentity;
use crate::error::Fault;
use crate::rights::Rights;
use crate::session_request::SessionRequest;

/// Time until the invited client must have connected.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence of the inviting client, which sends keepalives.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Interval at which the inviting session checks for messages and for the end of the invited session.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time for the end of the invited session after that of the inviting session.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of keepalive messages to the inviting client, so that no firewall drops the idle connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Invitation of one client for one request, valid as long as the inviting session.
#[derive(Debug)]
pub(crate) struct Invitation {
    /// Request that the invited client must make.
    pub(crate) request: SessionRequest,
    /// Rights of the inviting client.
    pub(crate) rights: Rights,
    /// Identity of the inviting client; the invited client uses its resource share.
    pub(crate) identity: ClientIdentity,
    /// Ends the invited session.
    pub(crate) halt: Arc<Halt>,
    /// Channel that is closed on drop, which signals the end of the invited session.
    _ended: Sender<()>,
}

/// Open invitations, by the key of the invited client.
#[derive(Debug, Default)]
pub(crate) struct Invitations(Mutex<BTreeMap<Fingerprint, Invitation>>);

impl Invitations {
    /// Removes and returns the invitation of `key`.
    pub(crate) fn take(&self, key: Fingerprint) -> Option<Invitation> {
        self.lock().remove(&key)
    }

    /// Invites the holder of `key` for `request`, and waits until its session has ended. The end of the inviting
    /// session also ends the invited one.
    pub(crate) fn invite(
        &self,
        session: &Session,
        key: Fingerprint,
        request: SessionRequest,
        (rights, identity): (&Rights, ClientIdentity),
    ) -> Result<Summary, Error> {
        let (here, gone) = channel();
        let halt = Arc::<Halt>::default();
        let invitation = Invitation {
            request,
            rights: rights.clone(),
            identity,
            halt: Arc::clone(&halt),
            _ended: here,
        };
        if self.lock().insert(key, invitation).is_some() {
            // two clients cannot invite the same key, since keys are random: one of them copied it
            self.take(key);
            return Err(Fault::InvitedTwice.into());
        }
        let result = self.wait(session, key, &gone);
        self.withdraw(key, &halt);
        if let Err(error) = &result {
            halt.stop(error.clone());
            // a retry must not compete with this session
            gone.recv_timeout(END_TIMEOUT).ok();
        }
        result.map(|()| Summary::default())
    }

    /// Removes the invitation with the halt `halt`, if it is still open.
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
        session.say(&Message::Welcome)?;
        session.control.limit_silence(SILENCE_MAX);
        let began = session.clock.now();
        let mut alive = began;
        loop {
            match session.hear_for::<Message>(CHECK_INTERVAL) {
                Err(error) if error.code() == Code::TimedOut && !session.was_told() => {}
                // the inviting client may disconnect once the invited session has ended
                Err(_)
                    if gone.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Disconnected) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
                Ok(_) => return Err(Fault::Unexpected("the end of the session").into()),
            }
            if gone.try_recv() == Err(TryRecvError::Disconnected) {
                return Ok(());
            }
            let now = session.clock.now();
            if now.since(began) > CONNECT_TIMEOUT && self.lock().contains_key(&key) {
                return Err(Fault::NotCalled.into());
            }
            if now.since(alive) > KEEPALIVE_INTERVAL {
                alive = now;
                session.say(&Message::Keepalive { work: 0 })?;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, Invitation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
