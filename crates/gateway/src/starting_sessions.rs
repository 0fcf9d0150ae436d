//! Sessions that are being started: queued, waiting for the other gateway, or connecting to a target.

use std::collections::{BTreeMap, VecDeque};

use lighthaul_base::Instant;
use lighthaul_capture::handshake::Handshake;
use lighthaul_capture::target::Target;
use lighthaul_slabs::SessionId;

use crate::attempt::{Attempt, CONNECT};
use crate::command::{NewSession, ResolvedTarget};
use crate::host_shares::HostShare;
use crate::line_limit::LineLimit;

/// Sessions that are being started.
#[derive(Debug, Default)]
pub(crate) struct StartingSessions {
    /// Sessions of programs that wait for the answer of the other gateway.
    pub(crate) awaiting: BTreeMap<u64, Awaiting>,
    /// Sessions of the other gateway whose targets are being connected.
    pub(crate) attempts: BTreeMap<u64, Attempt>,
    /// Time of the next check of attempts without events.
    pub(crate) check_at: Instant,
    /// Addresses that were resolved while the link had no connection.
    pub(crate) resolved: Vec<(SessionId, ResolvedTarget)>,
    /// Sessions that were opened while the link had no connection, with the time.
    pub(crate) queue: VecDeque<(Instant, NewSession)>,
    /// Refusals in the log.
    pub(crate) refusals: LineLimit,
}

/// Session of a program that waits for the answer of the other gateway.
#[derive(Debug)]
pub(crate) struct Awaiting {
    pub(crate) target: Target,
    /// Handshake that sends the answer; `None` for a captured program, whose `connect()` has already succeeded.
    pub(crate) handshake: Option<Box<dyn Handshake>>,
}

impl StartingSessions {
    /// Returns true if the queue has room for a session of the program's host.
    pub(crate) fn has_room(&self, new_session: &NewSession) -> bool {
        let host = |session: &NewSession| session.share.as_ref().map(HostShare::host);
        let of_host = self
            .queue
            .iter()
            .filter(|(_, other)| host(other) == host(new_session));
        self.queue.len() < QUEUE_MAX && of_host.count() < QUEUE_HOST_MAX
    }

    /// Removes the next session that has waited for a connection too long.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<NewSession> {
        let expired = self
            .queue
            .pop_front_if(|(since, _)| *since + CONNECT <= now);
        expired.map(|(_, new_session)| new_session)
    }

    /// Removes the state of a session.
    pub(crate) fn remove(&mut self, token: u64) {
        self.attempts.remove(&token);
        self.awaiting.remove(&token);
    }
}

/// Maximum number of queued sessions.
const QUEUE_MAX: usize = 1 << 10;
/// Maximum number of queued sessions of one host.
const QUEUE_HOST_MAX: usize = QUEUE_MAX / 4 * 3;
