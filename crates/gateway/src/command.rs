//! Commands to the thread of a link.
//!
//! `command_channel` returns both ends: any thread sends a `Command` with a `CommandSender`, and
//! the thread of the link reads a `CommandQueue`. A `Waker` wakes that thread from its poll. The
//! queue has a maximum: `send` waits for room, and `try_send` returns the command. So sessions are
//! refused when the thread is overloaded. [`NewSession`] and [`LinkConnection`] are the largest
//! commands. Answers come through the channel in a command.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use lighthaul_base::{Rate, Trc};
use lighthaul_capture::handshake::Handshake;
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::Target;
use lighthaul_io::control::{Control, Stream};
use lighthaul_io::crypto::seal::Key;
use lighthaul_io::error::Error;
use lighthaul_io::host::wait::Waker;
use lighthaul_io::net::udp::Udp;
use lighthaul_slabs::SessionId;
use socket2::Socket;

use crate::host_shares::HostShare;
use crate::session::Session;
use crate::session_relay::RelayEnd;

/// Connection of a program that asks for a target.
#[derive(Debug)]
pub struct NewSession {
    /// Session of the other link, for a session that comes from another gateway. It has another identifier on this one.
    pub session: Option<SessionId>,
    /// Non-blocking socket of the program.
    pub socket: Socket,
    /// Requested target.
    pub target: Target,
    /// Handshake that sends the result; none for a captured program, for which the connection is already open.
    pub handshake: Option<Box<dyn Handshake>>,
    /// Bytes that followed the handshake.
    pub rest: Vec<u8>,
    /// Number of gateways that the session may still cross.
    pub hops: u8,
    /// Other side of the relay, for a session of another link.
    pub relay: Option<RelayEnd>,
    /// Share of the program's host, for a program that connects to this gateway.
    pub share: Option<HostShare>,
}

/// Authenticated connection between two gateways.
#[derive(Debug)]
pub struct LinkConnection {
    /// Keeps the connection open.
    pub control: Control,
    /// Stream of control messages.
    pub stream: Stream,
    /// Socket for pages, if datagrams arrive.
    pub udp: Option<Udp>,
    /// Number of the connection in datagrams and control messages of this side.
    pub connection: u64,
    /// Keys that seal and open datagrams; none if datagrams are not encrypted.
    pub keys: Option<(Key, Key)>,
    /// Measured rate of the channel.
    pub rate: Option<Rate>,
    /// Length of the longest datagram that arrives, without its UDP header.
    pub datagram_len: u16,
    /// Agreed number of bytes that a session may send before it needs more window.
    pub window: u32,
    /// Number of messages that the peer has received on this link; none if the link is new on either side.
    pub received: Option<u64>,
    /// Channel for the error with which the connection ended.
    pub ended: SyncSender<Error>,
}

/// Reason why a target has no allowed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotResolved {
    /// This gateway refuses the target.
    Refused(Refusal),
    /// The target is an address of this host, which a further gateway must not connect to either.
    OwnHost,
}

impl From<NotResolved> for Refusal {
    fn from(why: NotResolved) -> Self {
        match why {
            NotResolved::Refused(why) => why,
            NotResolved::OwnHost => Self::NotAllowed,
        }
    }
}

/// Allowed addresses of a target, or the reason why it has none.
pub(crate) type ResolvedTarget = Result<Vec<SocketAddr>, NotResolved>;

/// Command to the thread of a link.
#[derive(Debug)]
pub(crate) enum Command {
    Open(Box<NewSession>),
    /// The addresses of a session's target were resolved, or not.
    Resolved(SessionId, ResolvedTarget),
    /// Leave the connection, and report the number of received messages; none without a link.
    Detach(SyncSender<Option<u64>>),
    Attach(Box<LinkConnection>),
    /// Follow the rate vector on all connections.
    Follow(Trc),
    /// End the sessions and refuse new sessions until there is a connection: the other gateway refuses the link.
    Refuse,
    /// End at once, with all sessions.
    End,
    /// End at once, with all sessions, because the other gateway has lost its right to the link.
    Revoke,
    /// Accept no further sessions, and end with the last one.
    Drain,
}

/// Receiving side of the commands.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    pub(crate) queue: Receiver<Command>,
    pub(crate) waker: Waker,
}

/// Sending side of the commands.
#[derive(Clone, Debug)]
pub(crate) struct CommandSender {
    queue: SyncSender<Command>,
    waker: Waker,
}

impl CommandSender {
    /// Sends a command, or returns it if the thread has ended or the queue is full.
    pub(crate) fn try_send(&self, command: Command) -> Result<(), Command> {
        let result = self.queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(call) | TrySendError::Disconnected(call) => call,
        });
        self.waker.raise();
        result
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        self.waker.raise();
    }

    /// Sends a command, and waits while the queue is full. Returns false if the thread has ended.
    pub(crate) fn send(&self, command: Command) -> bool {
        let sent = self.queue.send(command).is_ok();
        self.waker.raise();
        sent
    }
}

/// Creates a queue of commands.
pub(crate) fn command_channel() -> std::io::Result<(CommandSender, CommandQueue)> {
    let (queue, incoming) = sync_channel(COMMANDS_MAX);
    let waker = Waker::new()?;
    let calls = CommandQueue {
        queue: incoming,
        waker: waker.clone(),
    };
    Ok((CommandSender { queue, waker }, calls))
}

/// Refuses a session: by an answer of its handshake, or by a reset if it has no handshake.
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

/// Maximum number of queued commands; further sessions are refused.
const COMMANDS_MAX: usize = 1 << 10;
