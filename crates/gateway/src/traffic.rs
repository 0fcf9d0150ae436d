//! Bytes between sockets and the link: who is read from, who is written to, what becomes a slab.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_proto::slabs::{Link, Plan};
use tracing::debug;

use crate::capture::refusal::Refusal;
use crate::depot::Page;
use crate::hub::Hub;

impl Hub {
    /// Looks at all sessions that something has happened to, for a moment.
    pub(crate) fn pump(&mut self, link: &mut Link, now: Instant) {
        let until = now + TURN;
        while let Some(token) = self.busy.pop_first() {
            self.serve(link, token);
            if self.clock.now() >= until {
                break;
            }
        }
        if !self.busy.is_empty() {
            self.come_back();
        }
    }

    /// Writes what came for a session, and reads what its program says.
    fn serve(&mut self, link: &mut Link, token: u64) {
        let Some(session) = self.sessions.get_mut(&token) else {
            return;
        };
        let Some(socket) = &mut session.socket else {
            return;
        };
        let mut depot = self.depot.borrow_mut();
        let id = session.id;
        let written = session.to_edge.write(socket, &mut depot);
        let mut result = written.map(|written| {
            link.free(written.pages);
            self.status.wrote(written.bytes);
            if written.bytes > 0 {
                let recent = session.to_edge.recent(self.clock.now(), written.bytes);
                let window = window(link, recent);
                link.allow(id, session.to_edge.written() + window);
            }
        });
        if result.is_ok() && session.from_edge.is_ready {
            let held = link
                .flow(id)
                .map_or(0, |flow| flow.in_flight() + flow.queued_bytes());
            let held = (held / u64::from(link.config().page_len())) as usize;
            let pages = depot.room().saturating_sub(held).min(TURN_PAGES);
            let read = session.from_edge.read(socket, &mut depot, pages);
            result = read.map(|bytes| self.status.read(bytes));
            if session.from_edge.is_ready {
                if pages < TURN_PAGES {
                    self.starved.insert(token);
                } else {
                    self.busy.insert(token);
                }
            }
        }
        drop(depot);
        if let Err(error) = result {
            debug!("session {id} ended: {error}");
            self.end(link, token, Refusal::Broken);
            return;
        }
        self.supply(link, token);
    }

    /// Tells the link what waits for a slab; lets a session go that is over.
    fn supply(&mut self, link: &mut Link, token: u64) {
        let Some(session) = self.sessions.get_mut(&token) else {
            return;
        };
        let now = self.clock.now();
        for len in session.from_edge.supplies() {
            link.supply(now, session.id, len);
        }
        if let Some(digest) = session.from_edge.end() {
            link.finish(session.id, digest);
        }
        if session.is_over()
            && let Some(mut session) = self.remove(link, token)
        {
            self.status.ended();
            debug!("session {} is over", session.id);
            session.part();
        }
    }

    /// Forms and sends what is ripe.
    pub(crate) fn launch(&mut self, link: &mut Link, now: Instant) {
        while let Some(plan) = link.form(now) {
            let crcs = self.load(&plan);
            let mut sessions: Vec<u64> = Vec::with_capacity(plan.runs.len());
            for (id, _) in &plan.runs {
                sessions.extend(self.token(*id));
            }
            link.launch(plan, &crcs);
            sessions.dedup();
            for token in sessions {
                self.supply(link, token);
            }
        }
    }

    /// Moves the pages of a slab to where the driver finds them; answers the CRC of each run.
    fn load(&mut self, plan: &Plan) -> Vec<u32> {
        let mut depot = self.depot.borrow_mut();
        let mut crcs = Vec::with_capacity(plan.runs.len());
        for (id, run) in &plan.runs {
            let token = self.tokens.get(id);
            let session = token.and_then(|token| self.sessions.get_mut(token));
            let waiting = session.map(|session| &mut session.from_edge.waiting);
            let pages: Vec<Page> = waiting
                .into_iter()
                .flat_map(|waiting| waiting.drain(..run.lens.len()))
                .collect();
            crcs.push(Page::crc_of(&pages));
            pages.into_iter().for_each(|page| depot.launch(page));
        }
        crcs
    }
}

/// How far a session may be ahead of what its program has taken, which was so much of late: what it takes in two round trips at that
/// speed, but never so much that few could take it all.
fn window(link: &Link, recent: u64) -> u64 {
    let config = link.config();
    let free = link.receiver().room() * u64::from(config.page_len());
    (2 * recent).min(free / 4).max(config.window.into())
}

/// For how long sessions are looked at before datagrams get their turn.
const TURN: Duration = Duration::from_millis(1);
/// Pages that one session may be read from at a time: about 2 MB.
const TURN_PAGES: usize = 32;
