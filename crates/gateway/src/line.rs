//! One end of a link, which a thread has with its sessions, whatever becomes of its connections.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use lighthaul_base::Trc;
use lighthaul_io::host::clock::Clock;

use crate::call::{Call, Caller, Calls, Joint, Newcomer, calls, turn_away};
use crate::capture::refusal::Refusal;
use crate::quota::Quota;
use crate::status::Status;

/// Calls the thread of one end of a link; when the last of these is gone, the thread ends.
#[derive(Clone, Debug)]
pub struct Line {
    pub(crate) caller: Caller,
    pub(crate) status: Arc<Status>,
    clock: Clock,
}

impl Line {
    /// Nobody answers its calls yet.
    pub(crate) fn new() -> io::Result<(Self, Calls)> {
        let (caller, calls) = calls()?;
        let (status, clock) = (Arc::default(), Clock::start());
        let line = Self {
            caller,
            status,
            clock,
        };
        Ok((line, calls))
    }

    /// Counts its sessions together with those of other links; to be called before there are any.
    pub fn share_sessions(&self, quota: Arc<dyn Quota>) {
        self.status.share(quota);
    }

    /// Takes a program in.
    pub fn take(&self, newcomer: Newcomer) {
        let call = Call::Newcomer(Box::new(newcomer));
        if let Err(Call::Newcomer(newcomer)) = self.caller.call(call) {
            turn_away(*newcomer, Refusal::Busy);
        }
    }

    /// Lets go of the connection that there may be, and says how many messages were heard; nothing if there is no link to go on
    /// with.
    pub fn pause(&self) -> Option<u64> {
        let (answer, heard) = sync_channel(1);
        if !self.caller.call_patiently(Call::Pause(answer)) {
            return None;
        }
        heard.recv().ok().flatten()
    }

    /// There is a new connection.
    pub fn join(&self, joint: Joint) -> bool {
        self.caller.call_patiently(Call::Join(Box::new(joint)))
    }

    /// Ends the link and all of its sessions at once.
    pub fn end(&self) {
        self.caller.call_patiently(Call::End);
    }

    /// The other gateway refuses this one: sessions end, and programs are told so at once until [`Line::join`].
    pub fn refuse(&self) {
        self.caller.call_patiently(Call::Refuse);
    }

    /// Takes nobody in any more; the thread ends with its last session.
    pub fn drain(&self) {
        self.caller.call_patiently(Call::Drain);
    }

    /// Whether its thread has ended.
    pub fn is_over(&self) -> bool {
        self.status.is_over()
    }

    /// Keeps to another vector from now on, by [`Line::clock`], whatever becomes of connections.
    pub fn follow(&self, trc: Trc) {
        self.caller.call_patiently(Call::Follow(trc));
    }

    /// Has the thread look around, so that it says soon whether it has something to send.
    pub(crate) fn nudge(&self) {
        self.caller.nudge();
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
