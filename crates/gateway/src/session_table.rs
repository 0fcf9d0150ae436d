//! Sessions of a link by token and by identifier, and sessions with pending work.

use std::collections::BTreeMap;

use lighthaul_slabs::SessionId;

use crate::session::Session;
use crate::turn_queue::TurnQueue;

/// Sessions of a link.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    /// Sessions by token, the number of their sockets in epoll.
    pub(crate) entries: BTreeMap<u64, Session>,
    tokens: BTreeMap<SessionId, u64>,
    last_token: u64,
    /// Sessions with pending work.
    pub(crate) busy: TurnQueue,
    /// Sessions that have read their share, and could read more once pages are free.
    pub(crate) blocked: TurnQueue,
    /// Sessions that could read nothing until pages are free. They are served before the blocked ones.
    pub(crate) starved: TurnQueue,
}

impl SessionTable {
    /// Adds a session, and returns its token.
    pub(crate) fn insert(&mut self, session: Session) -> u64 {
        self.last_token += 1;
        self.tokens.insert(session.id, self.last_token);
        self.entries.insert(self.last_token, session);
        self.last_token
    }

    /// Removes a session.
    pub(crate) fn remove(&mut self, token: u64) -> Option<Session> {
        let session = self.entries.remove(&token)?;
        self.tokens.remove(&session.id);
        for queue in self.queues() {
            queue.remove(token);
        }
        Some(session)
    }

    /// Removes all sessions.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.tokens.clear();
        for queue in self.queues() {
            queue.clear();
        }
    }

    /// Returns the token of a session.
    pub(crate) fn token(&self, id: SessionId) -> Option<u64> {
        self.tokens.get(&id).copied()
    }

    /// Marks sessions that waited for pages as busy, since pages are free now.
    pub(crate) fn unblock(&mut self) {
        self.busy.append(&mut self.starved);
        self.busy.append(&mut self.blocked);
    }

    /// Returns the number of sessions that have pending work or could read more.
    pub(crate) fn active(&self) -> usize {
        self.busy.len() + self.blocked.len() + self.starved.len()
    }

    const fn queues(&mut self) -> [&mut TurnQueue; 3] {
        [&mut self.busy, &mut self.blocked, &mut self.starved]
    }
}
