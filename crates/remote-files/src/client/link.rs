//! Session with the server, and its connections.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::error::Error as World;
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::fault::PeerFault;
use lighthaul_session::join::join;
use lighthaul_session::message::Message as SessionMessage;
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

use crate::client::channel::Channel;
use crate::client::connector::Connected;
use crate::message::{Message, Request};

/// Further connections for data over a long path. One connection carries only a few MB in a round trip.
const JOINS: u8 = 16;
/// Interval of keepalives.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest silence of the server, which sends keepalives.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Longest wait until the server knows that the session ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Session with the server.
pub(super) struct Link {
    shared: Arc<Shared>,
    _keep: Box<dyn Any + Send + Sync>,
}

#[derive(Debug)]
struct Shared {
    session: Session,
    first: Arc<Channel>,
    /// Connections that can be used, the first one included.
    channels: RwLock<Vec<Arc<Channel>>>,
    over: AtomicBool,
}

impl Debug for Link {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Link {
    /// Starts the threads of a session.
    pub(super) fn start(connected: Connected, request: Request) -> Result<Self, Error> {
        let Connected { session, keep } = connected;
        session.control.limit_silence(SILENCE_MAX);
        let first = Channel::start(session.control.clone())?;
        let shared = Arc::new(Shared {
            session,
            channels: RwLock::new(vec![Arc::clone(&first)]),
            first,
            over: AtomicBool::new(false),
        });
        spawn(&shared, attend)?;
        if request.joins {
            spawn(&shared, open_further)?;
        }
        Ok(Self {
            shared,
            _keep: keep,
        })
    }

    /// Returns true if the session has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.first.has_ended()
    }

    /// Returns the round-trip time.
    pub(super) fn rtt(&self) -> Duration {
        self.shared.session.rtt
    }

    /// Returns the first connection.
    pub(super) fn first(&self) -> Arc<Channel> {
        Arc::clone(&self.shared.first)
    }

    /// Returns the number of connections.
    pub(super) fn count(&self) -> usize {
        let channels = self.shared.channels.read();
        channels.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the connection with the fewest bytes in transit.
    pub(super) fn idlest(&self) -> Arc<Channel> {
        let channels = self.shared.channels.read();
        let channels = channels.unwrap_or_else(PoisonError::into_inner);
        let idlest = channels
            .iter()
            .filter(|channel| !channel.has_ended())
            .min_by_key(|channel| channel.awaited());
        idlest.map_or_else(|| self.first(), Arc::clone)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.over.store(true, Relaxed);
        if !self.has_ended() && self.shared.session.say(&Message::End).is_ok() {
            self.shared.session.control.flush(END_TIMEOUT);
        }
        for channel in &*self.shared.channels() {
            channel.close();
        }
    }
}

impl Shared {
    fn channels(&self) -> Vec<Arc<Channel>> {
        let channels = self.channels.read();
        channels.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn spawn(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    let shared = Arc::clone(shared);
    let thread = thread::Builder::new().name("remote session".into());
    let spawned = thread.spawn(move || {
        if let Err(error) = caught("remote session", || work(&shared)) {
            // the error that the server reported says more than the lost connection
            let error = shared.session.blame(error);
            for channel in shared.channels() {
                channel.lose(&error);
            }
        }
    });
    spawned.map_err(|error| World::world("cannot start a thread", error))?;
    Ok(())
}

/// Answers the session's own messages until it ends.
fn attend(shared: &Shared) -> Result<(), Error> {
    let session = &shared.session;
    let clock = Clock::start();
    let mut moved = BTreeMap::new();
    loop {
        lose_silent(shared, clock.now(), &mut moved);
        match session.hear_for::<Message>(KEEPALIVE_INTERVAL) {
            Ok(_) => return Err(PeerFault::Unexpected("a keepalive").into()),
            Err(error) if error.code() == Code::TimedOut && !session.was_told() => {
                session.say(&SessionMessage::Keepalive { work: 0 })?;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Gives up further connections whose answers do not arrive. The server sends keepalives on the first one only.
fn lose_silent(shared: &Shared, now: Instant, moved: &mut BTreeMap<u64, (u64, Instant)>) {
    for channel in shared.channels() {
        let Some(progress) = channel.progress() else {
            moved.remove(&channel.number);
            continue;
        };
        let (last, since) = moved.entry(channel.number).or_insert((progress, now));
        if *last != progress {
            (*last, *since) = (progress, now);
        } else if channel.number != shared.first.number && now.since(*since) > SILENCE_MAX {
            channel
                .lose(&PeerFault::reported(Code::TimedOut as u8, "a connection is silent").into());
        }
    }
}

/// Opens further connections. Requests use the accepted connections, and continue without the others.
fn open_further(shared: &Shared) -> Result<(), Error> {
    let dialog = shared.session.path_dialog(Arc::default())?;
    let joined = join(&dialog, &Role::Client(false), JOINS, false);
    for control in joined.unwrap_or_default() {
        let channel = Channel::start(control)?;
        let channels = shared.channels.write();
        channels
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::clone(&channel));
        if shared.over.load(Relaxed) {
            channel.close();
        }
    }
    Ok(())
}
