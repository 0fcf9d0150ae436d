//! What reaches a link's thread from others.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use lighthaul_base::{Rate, Trc};
use lighthaul_io::control::{Control, Stream};
use lighthaul_io::crypto::seal::Key;
use lighthaul_io::error::Error;
use lighthaul_io::host::wait::Sign;
use lighthaul_io::net::udp::Udp;
use lighthaul_proto::slabs::SessionId;
use socket2::Socket;

use crate::capture::handshake::Handshake;
use crate::capture::refusal::Refusal;
use crate::host_shares::HostShare;
use crate::session::Session;
use crate::session_relay::RelayEnd;
use crate::target::Target;

/// A connection of a program that wants to go somewhere.
#[derive(Debug)]
pub struct NewSession {
    /// What its session is called, if it has a name already.
    pub session: Option<SessionId>,
    /// Does not block.
    pub socket: Socket,
    /// Where to.
    pub target: Target,
    /// What tells the program how it went; nothing if it believes that it is there already.
    pub handshake: Option<Box<dyn Handshake>>,
    /// What it has said so far.
    pub rest: Vec<u8>,
    /// Gateways that its session may still cross.
    pub hops: u8,
    /// It is a session of another link that goes on.
    pub relay: Option<RelayEnd>,
    /// Its part of its host's share, if it is a program.
    pub share: Option<HostShare>,
}

/// An authenticated connection between two gateways.
#[derive(Debug)]
pub struct LinkConnection {
    /// Keeps the connection.
    pub control: Control,
    /// Carries letters.
    pub stream: Stream,
    /// Carries pages, if datagrams pass.
    pub udp: Option<Udp>,
    /// Marks our datagrams and letters.
    pub connection: u64,
    /// Seals and opens datagrams; without, they are plain.
    pub keys: Option<(Key, Key)>,
    /// What the channel takes, if nobody set that.
    pub rate: Option<Rate>,
    /// The longest datagram that passes, without its UDP header.
    pub datagram_len: u16,
    /// Bytes that a session may send before it is told more: as both sides agreed.
    pub window: u32,
    /// How many messages the peer has heard on this link; nothing if it is new on either side.
    pub heard: Option<u64>,
    /// Hears why the connection ended.
    pub ended: SyncSender<Error>,
}

/// The addresses of a target that may be called, or why there are none.
pub(crate) type ResolvedTarget = Result<Vec<SocketAddr>, Refusal>;

/// What a link's thread is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Open(Box<NewSession>),
    /// The addresses of a session's target, or why it has none.
    Resolved(SessionId, ResolvedTarget),
    /// Let go of the connection, and say how many messages were heard; nothing if there is no link.
    Detach(SyncSender<Option<u64>>),
    Attach(Box<LinkConnection>),
    /// What the channel takes from now on, whatever becomes of connections.
    Follow(Trc),
    /// The other gateway refuses this one: programs are told so at once, until there is a connection.
    Refuse,
    /// End at once, with all sessions.
    End,
    /// No more sessions; when the last is over, the thread ends.
    Drain,
}

/// Where calls come in.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    pub(crate) queue: Receiver<Command>,
    pub(crate) sign: Sign,
}

/// CommandQueue a link's thread.
#[derive(Clone, Debug)]
pub(crate) struct CommandSender {
    queue: SyncSender<Command>,
    sign: Sign,
}

impl CommandSender {
    /// Asks for something; gives it back if the thread is gone, or too much waits.
    pub(crate) fn try_send(&self, command: Command) -> Result<(), Command> {
        let result = self.queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(call) | TrySendError::Disconnected(call) => call,
        });
        self.sign.raise();
        result
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        self.sign.raise();
    }

    /// The same, waiting until there is room; answers whether the thread is there.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = self.queue.send(command).is_ok();
        self.sign.raise();
        sent
    }
}

/// A way to call a link's thread.
pub(crate) fn command_channel() -> std::io::Result<(CommandSender, CommandQueue)> {
    let (queue, incoming) = sync_channel(CALLS_MAX);
    let sign = Sign::new()?;
    let calls = CommandQueue {
        queue: incoming,
        sign: sign.clone(),
    };
    Ok((CommandSender { queue, sign }, calls))
}

/// Sends a program away: with words, or with a reset where there are none for it.
pub(crate) fn refuse_session(new_session: NewSession, why: Refusal) {
    let mut session = Session::new(SessionId([0; 16]));
    session.relay = new_session.relay;
    if session.connect(new_session.socket).is_ok()
        && let Some(handshake) = new_session.handshake
    {
        session.say(&handshake.answer(Err(why)));
        session.part();
    }
}

/// CommandQueue that wait; a new_session beyond is sent away.
const CALLS_MAX: usize = 1 << 10;
