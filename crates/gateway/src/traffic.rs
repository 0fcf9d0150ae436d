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
//! channel, or two slabs, and only into free memory. They are served in the order in which their work
//! came, and each has an equal share of what may be read ahead. A session with nothing waiting may
//! always read one page while memory is free. Sessions that lack room wait until a slab is formed.

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
        while let Some(token) = self.sessions.busy.pop() {
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
        let readers = self.sessions.active() + 1;
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
            let fair = share(link, &pool, (waiting, readers)).min(TURN_PAGES);
            let gap = link.flow(id).map_or(0, Flow::gap);
            let wanted = gap.div_ceil(link.config().page_len().into()) as usize;
            let pages = fair.min(wanted);
            let read = session.from_program.read(socket, &mut pool, pages);
            result = read.map(|bytes| self.status.read(bytes));
            // a program that has filled its window is read again when the window grows
            if session.from_program.is_ready && wanted > pages {
                let queue = match pages {
                    0 => &mut self.sessions.starved,
                    TURN_PAGES => &mut self.sessions.busy,
                    _ => &mut self.sessions.blocked,
                };
                queue.insert(token);
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

/// Returns the number of further pages that may be read from a program with `waiting` pages, one of `readers` that may
/// have bytes. A program has an equal share of the pages that may wait, and one page even if others use all of them.
fn share(link: &Link, pool: &PagePool, (waiting, readers): (usize, usize)) -> usize {
    // the last pages of the memory are for programs with nothing waiting
    let room = pool.room().saturating_sub(pool.size() / RESERVED);
    let all = link.waiting_pages() as usize;
    let most = most_ahead(link).unwrap_or(all + room);
    let others = link.ready_sessions() + usize::from(waiting == 0);
    let fair = most / readers.max(others);
    let further = fair.max(1).saturating_sub(waiting);
    let further = further.min(most.saturating_sub(all)).min(room);
    if waiting == 0 {
        further.max(1).min(pool.room())
    } else {
        further
    }
}

/// Returns the number of pages that may wait for a slab. The limit is what the channel carries in a moment, so that
/// programs notice its rate soon. While the channel has no rate, only memory limits it.
fn most_ahead(link: &Link) -> Option<usize> {
    let rate = link.sender().rate()?;
    let config = link.config();
    let ahead = rate.bytes_in(AHEAD) / u64::from(config.page_len());
    Some(ahead.max(2 * u64::from(config.slab_pages)) as usize)
}

/// Time of the channel for which pages are read ahead.
const AHEAD: Duration = Duration::from_millis(100);
/// Time for which sessions are served before datagrams get their turn.
const TURN: Duration = Duration::from_millis(1);
/// Maximum number of pages that are read from one session in a turn: about 2 MB.
const TURN_PAGES: usize = 32;
/// One page of this number is for sessions with nothing waiting.
const RESERVED: usize = 16;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::Write;
    use std::rc::Rc;
    use std::sync::Arc;

    use lighthaul_base::{Endpoint, Message, Rate, Trc, Via};
    use lighthaul_io::host::clock::Clock;
    use lighthaul_slabs::SessionId;
    use lighthaul_slabs::config::Config;
    use lighthaul_slabs::wire::Control;
    use socket2::Socket;

    use super::*;
    use crate::command::command_channel;
    use crate::resolve::Resolver;
    use crate::session::Session;
    use crate::session_relay::relay_pair;
    use crate::settings::Settings;
    use crate::status::Status;

    /// Side of a link that programs send to. No page is ever in the custody of the other side.
    struct Sending {
        multiplexer: Multiplexer,
        link: Link,
        now: Instant,
        /// Programs, and true for those that always have bytes.
        programs: Vec<(Socket, bool)>,
    }

    impl Sending {
        /// Creates a link with this rate, or without a limit, with memory for this number of pages.
        fn new(rate: Option<Rate>, pages_max: u32) -> Self {
            let config = Config {
                packet_len: 1000,
                overhead_len: 44,
                stream: 0,
                burst: None,
                settle: Duration::from_millis(2),
                ack_every: Duration::from_millis(10),
                patience: Duration::from_hours(9),
                slab_pages: 4,
                age: Duration::from_millis(1),
                pages_max,
                window: 1 << 24,
            };
            let settings = Arc::new(Settings::example());
            let (sender, commands) = command_channel().unwrap();
            let clock = Clock::start();
            let resolver = Resolver::new(Arc::clone(&settings.allowed), sender, clock);
            let (status, from) = (Arc::<Status>::default(), (clock, commands));
            let mut multiplexer = Multiplexer::new(settings, status, from, resolver).unwrap();
            let pool = PagePool::new(1000, config.page_len(), pages_max as usize);
            multiplexer.pool = Rc::new(RefCell::new(pool));
            let mut link = Link::new(Instant::ZERO, config, rate.map(Trc::steady));
            let pages = pages_max.into();
            let credit = Control::Credit { pages }.encode();
            let message = Message {
                via: Via::Stream(0),
                head: &credit,
                len: 0,
            };
            link.handle_message(Instant::ZERO, message);
            Self {
                multiplexer,
                link,
                now: Instant::ZERO,
                programs: Vec::new(),
            }
        }

        /// Opens a session whose program sends one byte, or always has more.
        fn begin(&mut self, is_full: bool) -> SessionId {
            let id = SessionId([self.programs.len() as u8 + 1; 16]);
            let [(ours, relay), (mut program, _)] = relay_pair().unwrap();
            program.write_all(&[1]).unwrap();
            self.programs.push((program, is_full));
            self.link.open(id, b"");
            let mut session = Session::new(id);
            session.relay = Some(relay);
            session.connect(ours).unwrap();
            let token = self.multiplexer.enter(session);
            self.multiplexer.sessions.busy.insert(token);
            id
        }

        /// Serves all sessions until none can read more.
        fn serve(&mut self) {
            for _ in 0..1000 {
                let before = self.multiplexer.pool.borrow().held();
                for ((program, is_full), token) in self.programs.iter_mut().zip(1..) {
                    while *is_full && program.write(&[1; 10_000]).is_ok() {}
                    let sessions = &mut self.multiplexer.sessions;
                    let session = sessions.entries.get_mut(&token).unwrap();
                    session.from_program.is_ready |= *is_full;
                    sessions.busy.insert(token);
                }
                // a turn may end before all sessions are served
                for _ in 0..1000 {
                    self.multiplexer.pump(&mut self.link, self.now);
                }
                assert!(self.multiplexer.sessions.busy.is_empty());
                if self.multiplexer.pool.borrow().held() == before {
                    return;
                }
            }
            panic!("the sessions always have work");
        }

        /// Serves all sessions, and sends slabs until the channel is busy.
        fn turn(&mut self) {
            self.serve();
            self.multiplexer.launch(&mut self.link, self.now);
            while let Some(due) = self.link.sender().due() {
                self.now = self.now.max(due);
                while self.link.poll_transmit(self.now).is_some() {}
            }
        }

        /// Returns the bytes of a session that were supplied.
        fn supplied(&self, id: SessionId) -> u64 {
            let flow = self.link.flow(id).unwrap();
            flow.in_flight() + flow.queued_bytes()
        }
    }

    const RATE: Option<Rate> = Some(Rate::from_mbps(8));

    #[test]
    fn new_session_is_served_beside_twelve_full_ones() {
        let mut sending = Sending::new(RATE, 1000);
        for _ in 0..12 {
            sending.begin(true);
        }
        for _ in 0..6 {
            sending.turn();
        }
        let small = sending.begin(false);
        let slabs = sending.link.sender().next_slab();
        sending.turn();
        assert_eq!(sending.link.flow(small).unwrap().in_flight(), 1);
        assert!(sending.link.sender().next_slab() <= slabs + 2);
    }

    #[test]
    fn full_sessions_share_the_channel_equally() {
        let mut sending = Sending::new(RATE, 1000);
        let ids: Vec<SessionId> = (0..12).map(|_| sending.begin(true)).collect();
        for _ in 0..60 {
            sending.turn();
        }
        let pages: Vec<u64> = ids
            .iter()
            .map(|id| sending.supplied(*id) / 44_000)
            .collect();
        assert!(pages.iter().sum::<u64>() >= 230, "{pages:?}");
        let (least, most) = (pages.iter().min().unwrap(), pages.iter().max().unwrap());
        assert!(4 * least >= 3 * most, "{pages:?}");
    }

    #[test]
    fn full_session_leaves_memory_for_a_new_one() {
        let mut sending = Sending::new(None, 32);
        let full = sending.begin(true);
        sending.serve();
        assert_eq!(sending.supplied(full), 30 * 44_000);
        let small = sending.begin(false);
        sending.serve();
        assert_eq!(sending.supplied(small), 1);
    }
}
