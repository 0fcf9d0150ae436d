//! All sessions of one link at this gateway: between the sockets of programs and targets, and the
//! machine of the link.
//!
//! [`Multiplexer`] owns the sessions, their sockets and their pages. Its thread is the only one
//! that changes them; other threads send it commands. It survives the loss of a connection:
//! sessions wait, and continue over the next one. After a violation by the peer, all of its
//! sessions end with a reset.

use std::cell::RefCell;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TryRecvError};
use std::time::Duration;

use lighthaul_base::{Instant, Trc, counted};
use lighthaul_capture::refusal::Refusal;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_io::drive::{Next, Owner};
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_slabs::receiver::CompleteRecord;
use lighthaul_slabs::sender::RecordPages;
use lighthaul_slabs::{Event, Link, SessionId};
use socket2::Socket;
use tracing::{debug, warn};

use crate::command::{Command, CommandQueue, LinkConnection, NewSession, refuse_session};
use crate::crc::crc_of;
use crate::epoll::Epoll;
use crate::line_limit::LineLimit;
use crate::messages::{self, Opening, UNKNOWN_ADDRESS};
use crate::page_pool::{Page, PagePool};
use crate::resolve::Resolver;
use crate::session::{Piece, Session};
use crate::session_table::SessionTable;
use crate::settings::Settings;
use crate::starting_sessions::{Awaiting, StartingSessions};
use crate::status::Status;
use crate::window::promise;

/// Sessions of a link, their sockets, and their memory.
#[derive(Debug)]
pub(crate) struct Multiplexer {
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<Status>,
    pub(crate) pool: Rc<RefCell<PagePool>>,
    pub(crate) poll: Epoll,
    pub(crate) resolver: Resolver,
    pub(crate) sessions: SessionTable,
    pub(crate) starting: StartingSessions,
    pub(crate) channel: Channel,
    pub(crate) control: ThreadControl,
    /// Damaged parts in the log.
    damages: LineLimit,
    /// Resets of sessions in the log, because their programs do not read.
    pub(crate) stalls: LineLimit,
}

/// State of the channel to the other gateway.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    /// Rates of a booked channel over time.
    pub(crate) trc: Option<Trc>,
    /// True if datagrams arrive. Without datagrams, pages cross the TCP connection, which has a rate of its own.
    pub(crate) has_datagrams: bool,
}

/// Requests of other threads to the thread of the link.
#[derive(Debug)]
pub(crate) struct ThreadControl {
    commands: CommandQueue,
    /// Reason to leave the connection as soon as possible.
    interruption: Option<Interruption>,
    /// True if no further sessions are accepted.
    pub(crate) draining: bool,
    /// True if the other gateway has lost its right to the link.
    is_revoked: bool,
}

/// Reason for the thread to leave the connection.
#[derive(Debug)]
pub(crate) enum Interruption {
    /// Report the number of received messages, to reconnect.
    Detach(SyncSender<Option<u64>>),
    /// Use a new connection.
    Attach(Box<LinkConnection>),
    /// End all sessions, but keep the thread.
    GiveUp,
    /// End the thread: it has no sessions, and will get none.
    End,
}

impl Multiplexer {
    pub(crate) fn new(
        settings: Arc<Settings>,
        status: Arc<Status>,
        (clock, commands): (Clock, CommandQueue),
        resolver: Resolver,
    ) -> std::io::Result<Self> {
        let poll = Epoll::new()?;
        poll.add(&commands.waker, WAKER)?;
        Ok(Self {
            settings,
            clock,
            status,
            pool: Rc::new(RefCell::new(PagePool::new(1, 1, 0))),
            poll,
            resolver,
            sessions: SessionTable::default(),
            starting: StartingSessions::default(),
            channel: Channel::default(),
            control: ThreadControl {
                commands,
                interruption: None,
                draining: false,
                is_revoked: false,
            },
            damages: LineLimit::of("damaged parts"),
            stalls: LineLimit::of("resets of stalled sessions"),
        })
    }

    /// Waits for a command while the link has no connection. Returns nothing at `until`.
    pub(crate) fn wait_for_command(&mut self, until: Instant) -> Option<Interruption> {
        loop {
            if let Some(after) = self.control.interruption.take() {
                return Some(after);
            }
            if self.control.draining && self.sessions.entries.is_empty() {
                return Some(Interruption::End);
            }
            match self.control.commands.queue.try_recv() {
                Ok(Command::Detach(answer)) => return Some(Interruption::Detach(answer)),
                Ok(Command::Attach(connection)) => return Some(Interruption::Attach(connection)),
                Ok(Command::Follow(trc)) => self.channel.trc = Some(trc),
                Ok(Command::Drain) => {
                    self.control.draining = true;
                    self.requeue();
                }
                Ok(Command::Refuse) => {
                    self.status.refuse(true);
                    self.requeue();
                    return Some(Interruption::GiveUp);
                }
                Ok(Command::End | Command::Revoke) => {
                    self.control.draining = true;
                    self.requeue();
                    return Some(Interruption::End);
                }
                Ok(Command::Open(new_session)) => self.enqueue(*new_session),
                Ok(Command::Resolved(id, found)) => self.starting.resolved.push((id, found)),
                Err(TryRecvError::Disconnected) => return Some(Interruption::End),
                Err(TryRecvError::Empty) => {
                    if self.clock.now() >= until {
                        return None;
                    }
                    let mut watches = [Watch::read(self.control.commands.waker.as_raw_fd())];
                    self.expire_waiting();
                    let next_check = until.min(self.clock.now() + CHECK_INTERVAL);
                    if wait(self.clock, &mut watches, next_check).is_err() {
                        return None;
                    }
                    self.control.commands.waker.lower();
                }
            }
        }
    }

    /// Keeps a new session until the link has a connection, or refuses it.
    fn enqueue(&mut self, new_session: NewSession) {
        let why = if self.status.is_refused() {
            Refusal::Rejected
        } else {
            Refusal::Busy
        };
        let has_room = self.starting.has_room(&new_session);
        if has_room && !self.control.draining && why == Refusal::Busy {
            self.starting
                .queue
                .push_back((self.clock.now(), new_session));
        } else {
            self.status.refused();
            refuse_session(new_session, why);
        }
    }

    /// Refuses waiting sessions that may not wait any longer.
    fn requeue(&mut self) {
        let waiting = std::mem::take(&mut self.starting.queue).into_iter();
        waiting.for_each(|(_, new_session)| self.enqueue(new_session));
    }

    /// Refuses sessions that have waited for a connection too long.
    fn expire_waiting(&mut self) {
        let now = self.clock.now();
        self.starting.refusals.summarize(now);
        while let Some(new_session) = self.starting.pop_expired(now) {
            self.status.refused();
            refuse_session(new_session, Refusal::Broken);
        }
    }

    /// Ends all sessions at once. Their programs see a reset.
    pub(crate) fn fail_all(&mut self) {
        let count = self.sessions.entries.len() as u64;
        if count > 0 {
            warn!(
                "reset {} of this link",
                counted(count, "session", "sessions")
            );
            self.status.broke(count);
        }
        for (token, awaiting) in std::mem::take(&mut self.starting.awaiting) {
            let Some(handshake) = awaiting.handshake else {
                continue;
            };
            if let Some(session) = self.sessions.entries.get_mut(&token) {
                session.say(&handshake.answer(Err(Refusal::Broken)));
                session.part();
            }
        }
        self.sessions.clear();
        self.starting.attempts.clear();
        self.starting.resolved.clear();
        self.status.sessions(0);
    }

    /// Opens a session for a program, with an identifier of its own on this link: a peer of another link could choose one
    /// that is in use here.
    pub(crate) fn open_session(&mut self, link: &mut Link, new_session: NewSession) {
        let id = SessionId(random_octets());
        let words = Opening {
            hops: new_session.hops,
            target: new_session.target.clone(),
        };
        if self.is_full() || !link.open(id, &words.encode()) {
            self.status.refused();
            refuse_session(new_session, Refusal::Busy);
            return;
        }
        let NewSession {
            session: inbound,
            socket,
            target,
            handshake,
            rest,
            relay,
            share,
            ..
        } = new_session;
        if let Some(inbound) = inbound {
            debug!("session {id} to {target} continues session {inbound}");
        } else {
            debug!("session {id} to {target}");
        }
        promise(link, id);
        let mut session = Session::new(id);
        session.relay = relay;
        session.share = share;
        session
            .from_program
            .begin_with(&rest, &mut self.pool.borrow_mut());
        let token = self.enter(session);
        self.starting
            .awaiting
            .insert(token, Awaiting { target, handshake });
        self.connect(link, token, socket);
    }

    /// Returns true if no further session may begin.
    pub(crate) fn is_full(&self) -> bool {
        let count = self.sessions.entries.len() + 1;
        self.control.draining || !self.status.may_have(count, self.settings.sessions_max)
    }

    /// Wakes the thread at once.
    pub(crate) fn wake(&self) {
        self.control.commands.waker.raise();
    }

    /// Adds a session, and returns its token.
    pub(crate) fn enter(&mut self, session: Session) -> u64 {
        let token = self.sessions.insert(session);
        self.status.sessions(self.sessions.entries.len());
        token
    }

    /// Adds the socket of a session.
    fn connect(&mut self, link: &mut Link, token: u64, socket: Socket) {
        let watched = self.poll.add(&socket, token);
        let Some(session) = self.sessions.entries.get_mut(&token) else {
            return;
        };
        match watched.and_then(|()| session.connect(socket)) {
            Ok(()) => {
                self.sessions.busy.insert(token);
            }
            Err(error) => {
                warn!("session {} cannot be connected: {error}", session.id);
                self.end(link, token, Refusal::Broken);
            }
        }
    }

    /// Ends a session at once on both sides.
    pub(crate) fn end(&mut self, link: &mut Link, token: u64, why: Refusal) {
        if let Some(session) = self.remove(link, token) {
            self.status.broke(1);
            link.reset(session.id, &messages::encode_refusal(why));
        }
    }

    /// Removes a session, and frees its memory.
    pub(crate) fn remove(&mut self, link: &mut Link, token: u64) -> Option<Session> {
        let mut session = self.sessions.remove(token)?;
        self.starting.remove(token);
        self.status.sessions(self.sessions.entries.len());
        let mut pool = self.pool.borrow_mut();
        for page in session.from_program.drain() {
            pool.give_back(page);
        }
        let pages = session.to_program.drain();
        link.free(pages.len() as u64);
        for page in pages {
            pool.recycle(page);
        }
        drop(pool);
        Some(session)
    }

    /// Handles the answer of the other gateway.
    fn answered(&mut self, link: &mut Link, id: SessionId, accepted: bool, words: &[u8]) {
        let Some(token) = self.sessions.token(id) else {
            return;
        };
        let outcome = if accepted {
            Ok(messages::decode_reached(words).unwrap_or(UNKNOWN_ADDRESS))
        } else {
            Err(messages::decode_refusal(words))
        };
        let (target, handshake) = match self.starting.awaiting.remove(&token) {
            Some(awaiting) => (Some(awaiting.target), awaiting.handshake),
            None => (None, None),
        };
        if let Some(handshake) = handshake
            && let Some(session) = self.sessions.entries.get_mut(&token)
        {
            session.say(&handshake.answer(outcome));
            if outcome.is_err() {
                session.part();
            }
        }
        if let Err(why) = outcome {
            let target = target.map_or_else(String::new, |target| format!(" to {target}"));
            let now = self.clock.now();
            let line = || format!("session {id}{target} was refused: {why}");
            self.starting.refusals.log(now, line);
            self.status.refused();
            self.remove(link, token);
        }
    }

    /// Passes a complete record to its program, if its checksum is right.
    fn take(&mut self, link: &mut Link, whole: &CompleteRecord) {
        let RecordPages { record, pages } = &whole.part;
        let count = pages.end - pages.start;
        let mut pool = self.pool.borrow_mut();
        let collected = pool.collect(pages.clone(), record.len);
        if crc_of(collected.iter().map(Page::bytes)) != record.crc {
            let slab = whole.slab;
            let line = || format!("a part of slab {slab} was damaged and is sent again");
            self.damages.warn(self.clock.now(), line);
            pool.restore(pages.start, collected);
            link.judge(whole, false);
            return;
        }
        link.judge(whole, true);
        pool.forget_below(link.receiver().first_page());
        let token = self.sessions.token(record.session);
        let session = token.and_then(|token| self.sessions.entries.get_mut(&token));
        let Some(session) = session else {
            // the session has ended meanwhile
            for page in collected {
                pool.recycle(page);
            }
            link.free(count);
            return;
        };
        let piece = Piece {
            pages: collected,
            end: record.end,
        };
        let emptied = session.to_program.take(record.offset, piece, &mut pool);
        link.free(emptied);
        self.sessions.busy.extend(token);
    }

    /// Frees the pages of which the other gateway has custody.
    fn release_pages(&mut self, parts: &[RecordPages]) {
        let mut pool = self.pool.borrow_mut();
        let ranges = parts.iter().map(|part| part.pages.clone());
        ranges
            .filter(|pages: &Range<u64>| !pages.is_empty())
            .for_each(|pages| pool.release(pages));
        drop(pool);
        self.sessions.unblock();
    }

    /// Handles the commands of other threads.
    fn handle_commands(&mut self, link: &mut Link) {
        self.control.commands.waker.lower();
        for (id, found) in std::mem::take(&mut self.starting.resolved) {
            self.call_target(link, id, found);
        }
        while let Some((_, new_session)) = self.starting.queue.pop_front() {
            self.open_session(link, new_session);
        }
        while self.control.interruption.is_none() {
            match self.control.commands.queue.try_recv() {
                Ok(Command::Open(new_session)) => self.open_session(link, *new_session),
                Ok(Command::Resolved(id, found)) => self.call_target(link, id, found),
                Ok(Command::Detach(answer)) => {
                    self.control.interruption = Some(Interruption::Detach(answer));
                }
                Ok(Command::Attach(connection)) => {
                    self.control.interruption = Some(Interruption::Attach(connection));
                }
                Ok(Command::Follow(trc)) => {
                    let followed = self.channel.has_datagrams.then(|| trc.clone());
                    link.follow(self.clock.now(), followed);
                    self.channel.trc = Some(trc);
                }
                Ok(Command::Drain) => self.control.draining = true,
                Ok(Command::Refuse) => {
                    self.status.refuse(true);
                    self.control.interruption = Some(Interruption::GiveUp);
                }
                Ok(command @ (Command::End | Command::Revoke)) => {
                    self.control.draining = true;
                    self.control.is_revoked = matches!(command, Command::Revoke);
                    self.control.interruption = Some(Interruption::End);
                }
                Err(_) => break,
            }
        }
    }

    /// Reports to the cluster if datagrams wait for the channel. Pages on the TCP connection do not count.
    fn report_demand(&self, link: &Link) {
        self.status
            .want(self.channel.has_datagrams && link.sender().has_more());
    }

    fn poll_sockets(&mut self, link: &mut Link, now: Instant) -> Result<(), Error> {
        let failed = |error| Error::world("waiting for sockets", error);
        for ready in self.poll.ready().map_err(failed)? {
            self.poll_attempt(link, ready.token, now);
            let session = self.sessions.entries.get(&ready.token);
            if ready.broken && session.is_some_and(Session::is_reset) {
                self.end(link, ready.token, Refusal::Broken);
            }
            if let Some(session) = self.sessions.entries.get_mut(&ready.token) {
                session.from_program.is_ready |= ready.readable;
                session.to_program.is_ready |= ready.writable;
                self.sessions.busy.insert(ready.token);
            }
        }
        Ok(())
    }

    /// Returns an error if the connection must be left.
    fn check(&self) -> Result<(), Error> {
        match &self.control.interruption {
            None => Ok(()),
            Some(Interruption::End) if self.control.is_revoked => {
                let text = "the right of the other gateway was withdrawn";
                Err(Error::Network(text.into()))
            }
            Some(Interruption::End) => Err(Error::Network("the gateway has been stopped".into())),
            Some(_) => Err(Error::Network("the link is reconnected".into())),
        }
    }
}

impl Owner<Link> for Multiplexer {
    fn event(&mut self, link: &mut Link, event: Event, now: Instant) -> Result<Next, Error> {
        match event {
            Event::Opened(id, words) => self.open(link, id, &words),
            Event::Answered(id, accepted, words) => self.answered(link, id, accepted, &words),
            Event::Reset(id, words) => {
                if let Some(token) = self.sessions.token(id) {
                    debug!(
                        "session {id} was reset: {}",
                        messages::decode_refusal(&words)
                    );
                    self.status.broke(1);
                    self.remove(link, token);
                }
            }
            Event::Complete(whole) => self.take(link, &whole),
            Event::Kept(parts) => self.release_pages(&parts),
            Event::Widened(id) => self.sessions.busy.extend(self.sessions.token(id)),
            Event::SlabReady => {
                self.launch(link, now);
                self.report_demand(link);
            }
            Event::DatagramsLost => {
                warn!(
                    "no datagram reaches the other gateway: all bytes cross the TCP connection from now on"
                );
                self.channel.has_datagrams = false;
                return Ok(Next::Divert);
            }
            Event::Silent => {
                return Err(Error::TimedOut(
                    "no data from the other gateway for 5 s".into(),
                ));
            }
            Event::Exhausted => {
                return Err(Error::TimedOut(
                    "the packet numbers of the connection to the other gateway are used up; it is replaced"
                        .into(),
                ));
            }
            Event::Failed(why) => return Err(Error::PeerMisbehaved(why.to_string())),
        }
        self.pump(link, now);
        self.check()?;
        Ok(Next::Continue)
    }

    fn tick(&mut self, link: &mut Link, now: Instant) -> Result<Next, Error> {
        self.poll_sockets(link, now)?;
        self.handle_commands(link);
        self.sweep(link, now);
        self.starting.refusals.summarize(now);
        self.damages.summarize(now);
        self.pump(link, now);
        self.launch(link, now);
        self.status.look(link, &self.pool.borrow());
        self.report_demand(link);
        if self.control.draining && self.sessions.entries.is_empty() && link.sessions() == 0 {
            self.control.interruption = Some(Interruption::End);
        }
        self.check()?;
        Ok(Next::Continue)
    }

    fn waker(&self) -> Option<RawFd> {
        Some(self.poll.as_raw_fd())
    }
}

/// Epoll token of the command queue.
const WAKER: u64 = u64::MAX;
/// Interval of checks without a connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
