//! One end of a link, which a thread has with its sessions, whatever becomes of its connections.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use lighthaul_base::Trc;
use lighthaul_io::host::clock::Clock;

use crate::capture::refusal::Refusal;
use crate::command::{
    Command, CommandQueue, CommandSender, LinkConnection, NewSession, command_channel,
    refuse_session,
};
use crate::quota::Quota;
use crate::status::Status;

/// CommandQueue the thread of one end of a link; when the last of these is gone, the thread ends.
#[derive(Clone, Debug)]
pub struct LinkHandle {
    pub(crate) commands: CommandSender,
    pub(crate) status: Arc<Status>,
    clock: Clock,
}

impl LinkHandle {
    /// Nobody answers its queue yet.
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

    /// Counts its sessions together with those of other links; to be called before there are any.
    pub fn share_sessions(&self, quota: Arc<dyn Quota>) {
        self.status.share(quota);
    }

    /// Takes a program in.
    pub fn open_session(&self, new_session: NewSession) {
        let call = Command::Open(Box::new(new_session));
        if let Err(Command::Open(new_session)) = self.commands.try_send(call) {
            refuse_session(*new_session, Refusal::Busy);
        }
    }

    /// Lets go of the connection that there may be, and says how many messages were heard; nothing if there is no link to go on
    /// with.
    pub fn detach(&self) -> Option<u64> {
        let (answer, heard) = sync_channel(1);
        if !self.commands.send(Command::Detach(answer)) {
            return None;
        }
        heard.recv().ok().flatten()
    }

    /// There is a new connection.
    pub fn attach(&self, connection: LinkConnection) -> bool {
        self.commands.send(Command::Attach(Box::new(connection)))
    }

    /// Ends the link and all of its sessions at once.
    pub fn end(&self) {
        self.commands.send(Command::End);
    }

    /// The other gateway refuses this one: sessions end, and programs are told so at once until [`LinkHandle::attach`].
    pub fn refuse(&self) {
        self.commands.send(Command::Refuse);
    }

    /// Takes nobody in any more; the thread ends with its last session.
    pub fn drain(&self) {
        self.commands.send(Command::Drain);
    }

    /// Whether its thread has ended.
    pub fn is_over(&self) -> bool {
        self.status.is_over()
    }

    /// Keeps to another vector from now on, by [`LinkHandle::clock`], whatever becomes of connections.
    pub fn follow(&self, trc: Trc) {
        self.commands.send(Command::Follow(trc));
    }

    /// Has the thread look around, so that it says soon whether it has something to send.
    pub(crate) fn wake(&self) {
        self.commands.wake();
    }

    /// The clock that vectors are followed by.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// What it counts.
    pub fn status(&self) -> &Status {
        &self.status
    }
}
