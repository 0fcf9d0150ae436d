//! Bytes between sockets and the link: reading, writing and forming slabs.
//!
//! These functions of `Multiplexer` move bytes in turns of 1 ms, so that datagrams are not delayed:
//!
//! ```text
//! program -> serve (pages) -> supply -> launch: slab -> link -> other gateway
//! program <- serve <-------------------- link <- other gateway
//! ```
//!
//! A session is read only within its window. All of them together read ahead at most 100 ms of the
//! channel, or two slabs, and only into free memory. Sessions that lack room wait until a slab is
//! formed.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::refusal::Refusal;
use lighthaul_slabs::flow::Flow;
use lighthaul_slabs::{Link, Plan};
use tracing::debug;

use crate::multiplexer::Multiplexer;
use crate::page_pool::PagePool;
use crate::window::widen;

impl Multiplexer {
    /// Serves the sessions with pending work, for at most one turn.
    pub(crate) fn pump(&mut self, link: &mut Link, now: Instant) {
        let until = now + TURN;
        while let Some(token) = self.sessions.busy.pop_first() {
            self.serve(link, token);
            if self.clock.now() >= until {
                break;
            }
        }
        if !self.sessions.busy.is_empty() {
            self.wake();
        }
    }

    /// Writes received bytes to the socket of a session, and reads from it.
    fn serve(&mut self, link: &mut Link, token: u64) {
        let Some(session) = self.sessions.entries.get_mut(&token) else {
            return;
        };
        let Some(socket) = &mut session.socket else {
            return;
        };
        let mut pool = self.pool.borrow_mut();
        let id = session.id;
        let written = session
            .to_program
            .write(socket, &mut pool, session.relay.as_ref());
        let mut result = written.map(|written| {
            link.free(written.pages);
            self.status.wrote(written.bytes);
            if written.bytes > 0 {
                widen(link, id, &session.to_program);
            }
        });
        if result.is_ok() && session.from_program.is_ready {
            let waiting = session.from_program.waiting.len();
            let fair = room(link, &pool).saturating_sub(waiting).min(TURN_PAGES);
            let gap = link.flow(id).map_or(0, Flow::gap);
            let wanted = gap.div_ceil(link.config().page_len().into()) as usize;
            let pages = fair.min(wanted);
            let read = session.from_program.read(socket, &mut pool, pages);
            result = read.map(|bytes| self.status.read(bytes));
            // a program that has filled its window is read again when the window grows
            if session.from_program.is_ready && wanted > pages {
                if pages < TURN_PAGES {
                    self.sessions.blocked.insert(token);
                } else {
                    self.sessions.busy.insert(token);
                }
            }
        }
        drop(pool);
        if let Err(error) = result {
            debug!("session {id} ended: {error}");
            self.end(link, token, Refusal::Broken);
            return;
        }
        self.supply(link, token);
    }

    /// Supplies the link with full pages. Removes a session that has ended.
    fn supply(&mut self, link: &mut Link, token: u64) {
        let Some(session) = self.sessions.entries.get_mut(&token) else {
            return;
        };
        let now = self.clock.now();
        for len in session.from_program.supplies() {
            link.supply(now, session.id, len);
        }
        match session.from_program.end(session.relay.as_ref()) {
            Ok(Some(digest)) => link.finish(session.id, digest),
            Ok(None) => {}
            Err(error) => {
                debug!("session {} ended: {error}", session.id);
                self.end(link, token, Refusal::Broken);
                return;
            }
        }
        if session.is_over()
            && let Some(mut session) = self.remove(link, token)
        {
            self.status.ended();
            debug!("session {} has ended", session.id);
            session.part();
        }
    }

    /// Forms and sends the slabs that are due.
    pub(crate) fn launch(&mut self, link: &mut Link, now: Instant) {
        while let Some(plan) = link.form(now) {
            let crcs = self.load(&plan);
            let mut sessions: Vec<u64> = Vec::with_capacity(plan.runs.len());
            for (id, _) in &plan.runs {
                sessions.extend(self.sessions.token(*id));
            }
            link.launch(plan, &crcs);
            sessions.dedup();
            for token in sessions {
                self.supply(link, token);
            }
            self.sessions.unblock();
        }
        if !self.sessions.busy.is_empty() {
            self.wake();
        }
    }

    /// Moves the pages of a slab to the pool's queue for sending. Returns the CRC of each run.
    fn load(&mut self, plan: &Plan) -> Vec<u32> {
        let mut pool = self.pool.borrow_mut();
        let mut crcs = Vec::with_capacity(plan.runs.len());
        for (id, run) in &plan.runs {
            let token = self.sessions.token(*id);
            let session = token.and_then(|token| self.sessions.entries.get_mut(&token));
            let waiting = session.map(|session| &mut session.from_program.waiting);
            let pages = waiting
                .into_iter()
                .flat_map(|waiting| waiting.drain(..run.lens.len()));
            crcs.push(pool.launch(pages));
        }
        crcs
    }
}

/// Returns the number of further pages that may be read from programs. The limit is what the channel carries in a
/// moment, so that programs notice its rate soon. While the channel has no rate, only memory limits it.
fn room(link: &Link, pool: &PagePool) -> usize {
    let waiting = link.waiting_pages() as usize;
    let Some(rate) = link.sender().rate() else {
        return pool.room();
    };
    let config = link.config();
    let ahead = rate.bytes_in(AHEAD) / u64::from(config.page_len());
    let most = ahead.max(2 * u64::from(config.slab_pages)) as usize;
    most.saturating_sub(waiting).min(pool.room())
}

/// Time of the channel for which pages are read ahead.
const AHEAD: Duration = Duration::from_millis(100);
/// Time for which sessions are served before datagrams get their turn.
const TURN: Duration = Duration::from_millis(1);
/// Maximum number of pages that are read from one session in a turn: about 2 MB.
const TURN_PAGES: usize = 32;
