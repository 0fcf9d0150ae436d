//! Handle of the thread of one end of a link.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use lighthaul_base::Trc;
use lighthaul_capture::refusal::Refusal;
use lighthaul_io::host::clock::Clock;

use crate::command::{
    Command, CommandQueue, CommandSender, LinkConnection, NewSession, command_channel,
    refuse_session,
};
use crate::quota::Quota;
use crate::status::Status;

/// Handle of the thread of one end of a link. The thread ends with its last handle.
#[derive(Clone, Debug)]
pub struct LinkHandle {
    pub(crate) commands: CommandSender,
    pub(crate) status: Arc<Status>,
    clock: Clock,
}

impl LinkHandle {
    /// Creates a handle with the queue for its thread.
    pub(crate) fn new() -> io::Result<(Self, CommandQueue)> {
        let (commands, queue) = command_channel()?;
        let (status, clock) = (Arc::default(), Clock::start());
        let handle = Self {
            commands,
            status,
            clock,
        };
        Ok((handle, queue))
    }

    /// Counts the sessions of the link in a quota that several links share. Must be called before the link has
    /// sessions.
    pub fn share_sessions(&self, quota: Arc<dyn Quota>) {
        self.status.share(quota);
    }

    /// Opens a session for a program, or refuses it if the queue is full.
    pub fn open_session(&self, new_session: NewSession) {
        let call = Command::Open(Box::new(new_session));
        if let Err(Command::Open(new_session)) = self.commands.try_send(call) {
            refuse_session(*new_session, Refusal::Busy);
        }
    }

    /// Leaves the current connection. Returns the number of received messages, or nothing if there is no link to
    /// resume.
    pub fn detach(&self) -> Option<u64> {
        let (answer, received) = sync_channel(1);
        if !self.commands.send(Command::Detach(answer)) {
            return None;
        }
        received.recv().ok().flatten()
    }

    /// Attaches a new connection to the link. Returns false if the thread has ended.
    pub fn attach(&self, connection: LinkConnection) -> bool {
        self.commands.send(Command::Attach(Box::new(connection)))
    }

    /// Ends the link and its sessions at once.
    pub fn end(&self) {
        self.commands.send(Command::End);
    }

    /// Ends the link and its sessions at once, since the other gateway has lost its right to the link.
    pub fn revoke(&self) {
        self.commands.send(Command::Revoke);
    }

    /// Ends the sessions and refuses new ones until [`LinkHandle::attach`], since the other gateway refuses the link.
    pub fn refuse(&self) {
        self.commands.send(Command::Refuse);
    }

    /// Accepts no further sessions. The thread ends with its last session.
    pub fn drain(&self) {
        self.commands.send(Command::Drain);
    }

    /// Returns true if the thread has ended.
    pub fn is_over(&self) -> bool {
        self.status.is_over()
    }

    /// Follows another rate vector, in times of [`LinkHandle::clock`], on the present and further connections.
    pub fn follow(&self, trc: Trc) {
        self.commands.send(Command::Follow(trc));
    }

    /// Wakes the thread, so that it reports soon whether it has data to send.
    pub(crate) fn wake(&self) {
        self.commands.wake();
    }

    /// Returns the clock of rate vectors.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the counters.
    pub fn status(&self) -> &Status {
        &self.status
    }
}
