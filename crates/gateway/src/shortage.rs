//! Memory that programs keep busy because they do not read.
//!
//! Each session may have one first window of unread bytes, and the memory holds that many of the
//! oldest sessions. Younger sessions, and larger windows, use memory that these do not need. If the
//! memory runs short, sessions of these two kinds are reset if their programs have read nothing for
//! a while. So readers that do not read cannot stop the link, and a small link still has many
//! sessions.

use lighthaul_capture::refusal::Refusal;
use lighthaul_slabs::Link;
use lighthaul_slabs::config::Config;

use crate::multiplexer::Multiplexer;

impl Multiplexer {
    /// Resets sessions whose programs have read nothing for several checks, if the memory for received pages runs short.
    /// Must be called once a second.
    pub(crate) fn relieve(&mut self, link: &mut Link) {
        let pages_max = link.config().pages_max as usize;
        let is_short = link.receiver().room() < (pages_max / RESERVED) as u64;
        let (each, kept) = (pages_each(link.config()), sessions_kept(link.config()));
        let mut stalled = Vec::new();
        for (nth, (token, session)) in self.sessions.entries.iter_mut().enumerate() {
            let pages = session.to_program.pages();
            let is_stalled = session.to_program.check() >= STALLED;
            if is_short && is_stalled && (nth >= kept || pages > each) {
                stalled.push((*token, session.id, pages));
            }
        }
        let mut freed = 0;
        while freed < pages_max / RESERVED
            && let Some((token, id, pages)) = stalled.pop()
        {
            let line = || {
                format!("session {id} is reset: its reader does not read, and the memory is full")
            };
            self.stalls.warn(self.clock.now(), line);
            self.end(link, token, Refusal::Busy);
            freed += pages;
        }
        self.stalls.summarize(self.clock.now());
    }
}

/// Returns the maximum number of pages that the unread bytes of a first window take. They may begin within a page.
fn pages_each(config: &Config) -> usize {
    config.window.div_ceil(config.page_len()) as usize + 1
}

/// Returns the number of sessions whose first windows always fit in the memory.
fn sessions_kept(config: &Config) -> usize {
    let pages_max = config.pages_max as usize;
    (pages_max - pages_max / RESERVED) / pages_each(config)
}

/// One page of this number is for programs that read.
const RESERVED: usize = 8;
/// Number of seconds without a read after which a program may lose its session.
const STALLED: u32 = 3;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Duration;

    use lighthaul_base::{Endpoint, Instant, Message, Transmit, Via};
    use lighthaul_io::drive::Owner;
    use lighthaul_io::host::clock::Clock;
    use lighthaul_slabs::{Event, SessionId};
    use socket2::Socket;

    use super::*;
    use crate::command::command_channel;
    use crate::crc::crc_of;
    use crate::page_pool::PagePool;
    use crate::resolve::Resolver;
    use crate::session::Session;
    use crate::session_relay::relay_pair;
    use crate::settings::Settings;
    use crate::status::Status;

    const PAGE: usize = 44_000;
    const CONFIG: Config = Config {
        packet_len: 1000,
        overhead_len: 44,
        stream: 0,
        burst: None,
        settle: Duration::from_millis(2),
        ack_every: Duration::from_millis(10),
        patience: Duration::from_hours(9),
        slab_pages: 4,
        age: Duration::from_millis(1),
        pages_max: 16,
        window: PAGE as u32,
    };

    /// Gateway with the programs of sessions, and the link of another gateway that sends to them.
    struct Pair {
        multiplexer: Multiplexer,
        link: Link,
        peer: Link,
        now: Instant,
        programs: Vec<Socket>,
    }

    impl Pair {
        fn new() -> Self {
            let settings = Arc::new(Settings::example());
            let (sender, commands) = command_channel().unwrap();
            let clock = Clock::start();
            let resolver = Resolver::new(Arc::clone(&settings.allowed), sender, clock);
            let (status, from) = (Arc::<Status>::default(), (clock, commands));
            let mut multiplexer = Multiplexer::new(settings, status, from, resolver).unwrap();
            let pool = PagePool::new(1000, PAGE as u32, 16);
            multiplexer.pool = Rc::new(RefCell::new(pool));
            Self {
                multiplexer,
                link: Link::new(Instant::ZERO, CONFIG, None),
                peer: Link::new(Instant::ZERO, CONFIG, None),
                now: Instant::ZERO,
                programs: Vec::new(),
            }
        }

        /// Opens a session to which the other gateway sends a page. A program that does not read has a full socket.
        fn begin(&mut self, reads: bool) -> SessionId {
            let id = SessionId([self.programs.len() as u8 + 1; 16]);
            let [(mut ours, relay), (program, _)] = relay_pair().unwrap();
            while !reads && ours.write(&[1; 1000]).is_ok() {}
            self.programs.push(program);
            assert!(self.link.open(id, b""));
            let mut session = Session::new(id);
            session.relay = Some(relay);
            session.connect(ours).unwrap();
            self.multiplexer.enter(session);
            self.exchange();
            self.peer.supply(self.now, id, PAGE as u32);
            self.exchange();
            id
        }

        /// Carries everything between both gateways. All bytes are zero, as unused pages are.
        fn exchange(&mut self) {
            for _ in 0..100 {
                self.now += Duration::from_millis(1);
                self.link.handle_timeout(self.now);
                self.peer.handle_timeout(self.now);
                while let Some(sent) = self.peer.poll_transmit(self.now) {
                    deliver(&mut self.link, self.now, &sent);
                }
                while let Some(event) = self.link.poll_event() {
                    let now = self.now;
                    self.multiplexer.event(&mut self.link, event, now).unwrap();
                }
                while let Some(sent) = self.link.poll_transmit(self.now) {
                    deliver(&mut self.peer, self.now, &sent);
                }
                while let Some(event) = self.peer.poll_event() {
                    assert!(!matches!(event, Event::Failed(_)), "{event:?}");
                    while let Some(plan) = self.peer.form(self.now) {
                        let zeros = |len: u32| crc_of([&vec![0; len as usize][..]]);
                        let crcs: Vec<u32> =
                            plan.runs.iter().map(|(_, run)| zeros(run.len())).collect();
                        self.peer.launch(plan, &crcs);
                    }
                }
            }
        }

        fn open_sessions(&self) -> Vec<u8> {
            let sessions = self.multiplexer.sessions.entries.values();
            sessions.map(|session| session.id.0[0]).collect()
        }
    }

    fn deliver(link: &mut Link, now: Instant, sent: &Transmit) {
        let octets = sent.octets();
        let len = sent.body.object_len();
        assert!(len > 0 || matches!(sent.via, Via::Stream(_)));
        let message = Message {
            via: sent.via,
            head: &octets,
            len,
        };
        link.handle_message(now, message);
    }

    #[test]
    fn readers_that_do_not_read_leave_memory_to_others() {
        let mut pair = Pair::new();
        for _ in 0..16 {
            pair.begin(false);
        }
        assert_eq!(pair.link.receiver().room(), 0);
        pair.begin(true);
        let mut page = vec![1; PAGE];
        let none = pair.programs[16]
            .read(&mut page)
            .map_err(|error| error.kind());
        assert_eq!(
            none,
            Err(std::io::ErrorKind::WouldBlock),
            "the memory is full"
        );
        for _ in 0..=STALLED {
            pair.multiplexer.relieve(&mut pair.link);
        }
        pair.exchange();
        assert_eq!(pair.programs[16].read(&mut page).unwrap(), PAGE);
        // the youngest of the stalled sessions are reset, as few as possible
        let expected: Vec<u8> = (1..=14).chain([17]).collect();
        assert_eq!(pair.open_sessions(), expected);
    }

    #[test]
    fn slow_reader_is_not_reset() {
        let mut pair = Pair::new();
        for _ in 0..16 {
            pair.begin(false);
        }
        for _ in 0..STALLED {
            pair.multiplexer.relieve(&mut pair.link);
        }
        for (token, program) in (1..).zip(&mut pair.programs) {
            program.read_exact(&mut [0; 2000]).unwrap();
            let sessions = &mut pair.multiplexer.sessions;
            let session = sessions.entries.get_mut(&token).unwrap();
            session.to_program.is_ready = true;
            sessions.busy.insert(token);
        }
        for _ in 0..100 {
            pair.multiplexer.pump(&mut pair.link, pair.now);
        }
        assert_eq!(pair.link.receiver().room(), 0, "a part of each page waits");
        for _ in 0..STALLED {
            pair.multiplexer.relieve(&mut pair.link);
        }
        assert_eq!(pair.open_sessions().len(), 16);
        pair.multiplexer.relieve(&mut pair.link);
        assert_eq!(pair.open_sessions().len(), 14);
    }

    #[test]
    fn first_windows_of_the_oldest_sessions_fit_in_the_memory() {
        assert_eq!((pages_each(&CONFIG), sessions_kept(&CONFIG)), (2, 7));
        let mut pair = Pair::new();
        for _ in 0..16 {
            pair.begin(false);
        }
        for _ in 0..20 * STALLED {
            pair.multiplexer.relieve(&mut pair.link);
            pair.begin(false);
        }
        let kept = pair.open_sessions();
        assert_eq!(kept[..7], [1, 2, 3, 4, 5, 6, 7]);
    }
}
