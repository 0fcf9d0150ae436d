//! All sessions of one link in this gateway: between the sockets of programs and the machine of the link.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Instant, Trc};
use lighthaul_io::clock::Clock;
use lighthaul_io::drive::{Next, Owner};
use lighthaul_io::error::Error;
use lighthaul_io::identity::chance;
use lighthaul_io::wait::{Watch, wait};
use lighthaul_proto::slabs::receiver::Whole;
use lighthaul_proto::slabs::sender::Part;
use lighthaul_proto::slabs::{Event, Link, SessionId};
use socket2::Socket;
use tracing::{debug, info, warn};

use crate::attempt::Attempt;
use crate::bond::{self, Onward};
use crate::call::{Call, Calls, Joint, Newcomer};
use crate::capture::handshake::Handshake;
use crate::capture::refusal::Refusal;
use crate::depot::Depot;
use crate::line::Line;
use crate::poll::Poll;
use crate::resolve::{Resolver, look_up};
use crate::session::{Piece, Session};
use crate::settings::Settings;
use crate::status::Status;
use crate::target::Host;
use crate::word::{self, NOWHERE, Opening};

/// Sessions, their sockets, and where their bytes lie.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) status: Arc<Status>,
    pub(crate) depot: Rc<RefCell<Depot>>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) tokens: BTreeMap<SessionId, u64>,
    last_token: u64,
    /// Sessions of programs that wait for word from the other side, and how they are told.
    greeted: BTreeMap<u64, Box<dyn Handshake>>,
    /// Sessions from the other side whose target is being called.
    attempts: BTreeMap<u64, Attempt>,
    /// Sessions to look at.
    pub(crate) busy: BTreeSet<u64>,
    /// Sessions that would be read from, were there room.
    pub(crate) starved: BTreeSet<u64>,
    poll: Poll,
    calls: Calls,
    resolver: Resolver,
    /// What ends the connection as soon as possible.
    pub(crate) next: Option<After>,
    draining: bool,
    /// Newcomers who came while there was no connection, and when.
    waiting: VecDeque<(Instant, Newcomer)>,
    /// What the channel takes, if somebody says so from moment to moment.
    pub(crate) trc: Option<Trc>,
}

/// What is wanted of the thread once it has let go of the connection.
#[derive(Debug)]
pub(crate) enum After {
    /// Somebody wants to know how many messages were heard, to connect anew.
    Pause(std::sync::mpsc::SyncSender<Option<u64>>),
    /// There is a new connection.
    Join(Box<Joint>),
    /// The last session is over, and there will be no more.
    End,
    /// Nobody who has a caller is left.
    Orphaned,
}

impl Hub {
    pub(crate) fn new(
        settings: Arc<Settings>,
        status: Arc<Status>,
        (clock, calls): (Clock, Calls),
        resolver: Resolver,
    ) -> std::io::Result<Self> {
        let poll = Poll::new()?;
        poll.add(&calls.sign, SIGN)?;
        Ok(Self {
            settings,
            clock,
            status,
            depot: Rc::new(RefCell::new(Depot::new(1, 1, 0))),
            sessions: BTreeMap::new(),
            tokens: BTreeMap::new(),
            last_token: 0,
            greeted: BTreeMap::new(),
            attempts: BTreeMap::new(),
            busy: BTreeSet::new(),
            starved: BTreeSet::new(),
            poll,
            calls,
            resolver,
            next: None,
            draining: false,
            waiting: VecDeque::new(),
            trc: None,
        })
    }

    /// Waits for a call while there is no connection; answers what is wanted, or nothing once it is `until`.
    pub(crate) fn wait_for_call(&mut self, until: Instant) -> Option<After> {
        loop {
            if let Some(after) = self.next.take() {
                return Some(after);
            }
            if self.draining && self.sessions.is_empty() {
                return Some(After::End);
            }
            match self.calls.queue.try_recv() {
                Ok(Call::Pause(answer)) => return Some(After::Pause(answer)),
                Ok(Call::Join(joint)) => return Some(After::Join(joint)),
                Ok(Call::Follow(trc)) => self.trc = Some(trc),
                Ok(Call::Drain) => {
                    self.draining = true;
                    let waiting = std::mem::take(&mut self.waiting).into_iter();
                    waiting.for_each(|(_, newcomer)| self.ask_to_wait(newcomer));
                }
                Ok(Call::Newcomer(newcomer)) => self.ask_to_wait(newcomer),
                Ok(Call::Resolved(..)) => {}
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Some(After::Orphaned),
                Err(std::sync::mpsc::TryRecvError::Empty) => {
                    if self.clock.now() >= until {
                        return None;
                    }
                    let mut watches = [Watch::read(self.calls.sign.as_raw_fd())];
                    self.dismiss();
                    let look = until.min(self.clock.now() + LOOK);
                    if wait(self.clock, &mut watches, look).is_err() {
                        return None;
                    }
                    self.calls.sign.lower();
                }
            }
        }
    }

    /// There is no connection to carry a newcomer, but there may soon be one.
    fn ask_to_wait(&mut self, newcomer: Newcomer) {
        if self.waiting.len() < WAITING_MAX && !self.draining {
            self.waiting.push_back((self.clock.now(), newcomer));
        } else {
            self.status.refused();
            turn_away(newcomer, Refusal::Busy);
        }
    }

    /// Sends those away who have waited for a connection for too long.
    fn dismiss(&mut self) {
        let late = self.clock.now();
        while let Some((_, newcomer)) = self
            .waiting
            .pop_front_if(|(since, _)| *since + CONNECT <= late)
        {
            self.status.refused();
            turn_away(newcomer, Refusal::Broken);
        }
    }

    /// Ends all sessions at once: their programs see a reset.
    pub(crate) fn fail_all(&mut self) {
        let count = self.sessions.len();
        if count > 0 {
            warn!("{count} sessions ended with their link");
            self.status.broke(count as u64);
        }
        for (token, handshake) in std::mem::take(&mut self.greeted) {
            if let Some(session) = self.sessions.get_mut(&token) {
                session.say(&handshake.answer(Err(Refusal::Broken)));
                session.part();
            }
        }
        self.sessions.clear();
        self.tokens.clear();
        self.attempts.clear();
        self.busy.clear();
        self.starved.clear();
        self.status.sessions(0);
    }

    /// Takes a program in.
    fn welcome(&mut self, link: &mut Link, newcomer: Newcomer) {
        if self.sessions.len() >= self.settings.sessions_max || self.draining {
            self.status.refused();
            turn_away(newcomer, Refusal::Busy);
            return;
        }
        let Newcomer {
            session,
            socket,
            target,
            handshake,
            rest,
            hops,
            tie,
        } = newcomer;
        // what crosses several gateways has one name on all of them, unless it goes in a circle
        let free = |id: &SessionId| !self.tokens.contains_key(id);
        let id = session.filter(free).unwrap_or_else(|| SessionId(chance()));
        debug!("session {id} to {target}");
        let words = Opening { hops, target };
        link.open(id, &words.encode());
        let mut session = Session::new(id);
        session.tie = tie;
        session
            .from_edge
            .begin_with(&rest, &mut self.depot.borrow_mut());
        let token = self.enter(session);
        if let Some(handshake) = handshake {
            self.greeted.insert(token, handshake);
        }
        self.connect(link, token, socket);
    }

    /// What a session goes by here.
    pub(crate) fn token(&self, id: SessionId) -> Option<u64> {
        self.tokens.get(&id).copied()
    }

    /// Has itself woken at once.
    pub(crate) fn come_back(&self) {
        self.calls.sign.raise();
    }

    /// Gives a session a token.
    fn enter(&mut self, session: Session) -> u64 {
        self.last_token += 1;
        self.tokens.insert(session.id, self.last_token);
        self.sessions.insert(self.last_token, session);
        self.status.sessions(self.sessions.len());
        self.last_token
    }

    /// A session gets its socket.
    fn connect(&mut self, link: &mut Link, token: u64, socket: Socket) {
        let watched = self.poll.add(&socket, token);
        let Some(session) = self.sessions.get_mut(&token) else {
            return;
        };
        match watched.and_then(|()| session.connect(socket)) {
            Ok(()) => {
                self.busy.insert(token);
            }
            Err(error) => {
                warn!("session {} could not begin: {error}", session.id);
                self.end(link, token, Refusal::Broken);
            }
        }
    }

    /// The other side begins a session.
    fn open(&mut self, link: &mut Link, id: SessionId, words: &[u8]) {
        let Ok(Opening { hops, target }) = Opening::decode(words) else {
            link.answer(id, false, &word::encode_refusal(Refusal::Broken));
            return;
        };
        let full = self.sessions.len() >= self.settings.sessions_max || self.draining;
        let is_known = matches!(target.host, Host::Ip(_));
        if full || !(is_known || self.resolver.ask(id, target.clone())) {
            self.status.refused();
            link.answer(id, false, &word::encode_refusal(Refusal::Busy));
            return;
        }
        debug!("session {id} to {target}");
        let token = self.enter(Session::new(id));
        let until = self.clock.now() + CONNECT;
        let found = is_known.then(|| look_up(&self.settings.allowed, &target));
        let attempt = Attempt::new(target, hops, until, self.settings.keepalive);
        self.attempts.insert(token, attempt);
        if let Some(found) = found {
            self.call_target(link, id, found);
        }
    }

    /// The addresses of a session's target are known.
    fn call_target(
        &mut self,
        link: &mut Link,
        id: SessionId,
        found: Result<Vec<std::net::SocketAddr>, Refusal>,
    ) {
        let Some(token) = self.tokens.get(&id).copied() else {
            return;
        };
        let onward = self.settings.onward.clone();
        let begun = match (self.attempts.get_mut(&token), found, onward) {
            (None, ..) => Ok(()),
            (Some(_), Err(Refusal::NotAllowed), Some(line)) => self.go_on(token, &line),
            (Some(_), Err(why), _) => Err(why),
            (Some(attempt), Ok(addresses), _) => attempt.begin(addresses, &self.poll, token),
        };
        if let Err(why) = begun {
            self.refuse(link, token, why);
        }
    }

    /// A session whose target is not ours to call goes on to a further gateway.
    fn go_on(&mut self, token: u64, line: &Line) -> Result<(), Refusal> {
        let (Some(attempt), Some(session)) =
            (self.attempts.get_mut(&token), self.sessions.get_mut(&token))
        else {
            return Ok(());
        };
        let hops = attempt.hops().checked_sub(1).ok_or(Refusal::Unreachable)?;
        let [(came, ours), (goes, theirs)] = bond::tie().map_err(|_| Refusal::Busy)?;
        session.tie = Some(ours);
        line.take(Newcomer {
            session: Some(session.id),
            socket: goes,
            target: attempt.target().clone(),
            handshake: Some(Box::new(Onward)),
            rest: Vec::new(),
            hops,
            tie: Some(theirs),
        });
        attempt.go_on(came, &self.poll, token)
    }

    /// Looks how calling a target goes.
    fn look_at_attempt(&mut self, link: &mut Link, token: u64, now: Instant) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        match attempt.look(now, &self.poll, token) {
            Ok(None) => {}
            Ok(Some((socket, from))) => {
                self.attempts.remove(&token);
                if let Some(session) = self.sessions.get_mut(&token) {
                    link.answer(session.id, true, &word::encode_reached(from));
                    if let Err(error) = session.connect(socket) {
                        warn!("session {} could not begin: {error}", session.id);
                        self.end(link, token, Refusal::Broken);
                    }
                }
                self.busy.insert(token);
            }
            Err(why) => self.refuse(link, token, why),
        }
    }

    /// A session that the other side began does not go on.
    fn refuse(&mut self, link: &mut Link, token: u64, why: Refusal) {
        if let Some(attempt) = self.attempts.remove(&token) {
            info!("{} was not reached: {why}", attempt.target());
        }
        if let Some(session) = self.remove(link, token) {
            self.status.refused();
            link.answer(session.id, false, &word::encode_refusal(why));
        }
    }

    /// Ends a session at once, on both sides.
    pub(crate) fn end(&mut self, link: &mut Link, token: u64, why: Refusal) {
        if let Some(session) = self.remove(link, token) {
            self.status.broke(1);
            link.reset(session.id, &word::encode_refusal(why));
        }
    }

    /// Lets a session go; what it holds is free.
    pub(crate) fn remove(&mut self, link: &mut Link, token: u64) -> Option<Session> {
        let mut session = self.sessions.remove(&token)?;
        self.tokens.remove(&session.id);
        self.attempts.remove(&token);
        self.greeted.remove(&token);
        self.busy.remove(&token);
        self.starved.remove(&token);
        self.status.sessions(self.sessions.len());
        let mut depot = self.depot.borrow_mut();
        for page in session.from_edge.drain() {
            depot.give_back(page);
        }
        let pages = session.to_edge.drain();
        link.free(pages.len() as u64);
        for page in pages {
            depot.recycle(page);
        }
        drop(depot);
        Some(session)
    }

    /// The other side has answered.
    fn answered(&mut self, link: &mut Link, id: SessionId, accepted: bool, words: &[u8]) {
        let Some(token) = self.tokens.get(&id).copied() else {
            return;
        };
        let outcome = if accepted {
            Ok(word::decode_reached(words).unwrap_or(NOWHERE))
        } else {
            Err(word::decode_refusal(words))
        };
        if let Some(handshake) = self.greeted.remove(&token)
            && let Some(session) = self.sessions.get_mut(&token)
        {
            session.say(&handshake.answer(outcome));
            if outcome.is_err() {
                session.part();
            }
        }
        if let Err(why) = outcome {
            info!("session {id} was refused: {why}");
            self.status.refused();
            self.remove(link, token);
        }
    }

    /// All of a record came: it goes to its program, if its bytes are what they should be.
    fn take(&mut self, link: &mut Link, whole: &Whole) {
        let Part { record, pages } = &whole.part;
        let count = pages.end - pages.start;
        let mut depot = self.depot.borrow_mut();
        let collected = depot.collect(pages.clone(), record.len);
        if crate::depot::Page::crc_of(&collected) != record.crc {
            warn!(
                "a part of slab {} came damaged, and comes again",
                whole.slab
            );
            depot.restore(pages.start, collected);
            link.judge(whole, false);
            return;
        }
        link.judge(whole, true);
        depot.forget_below(link.receiver().first_page());
        let token = self.tokens.get(&record.session).copied();
        let session = token.and_then(|token| self.sessions.get_mut(&token));
        let Some(session) = session else {
            // it ended meanwhile
            for page in collected {
                depot.recycle(page);
            }
            link.free(count);
            return;
        };
        let piece = Piece {
            pages: collected,
            end: record.end,
        };
        session.to_edge.take(record.offset, piece);
        self.busy.extend(token);
    }

    /// Records that the other side has custody of.
    fn let_go(&mut self, parts: &[Part]) {
        let mut depot = self.depot.borrow_mut();
        let ranges = parts.iter().map(|part| part.pages.clone());
        ranges
            .filter(|pages: &Range<u64>| !pages.is_empty())
            .for_each(|pages| depot.let_go(pages));
        drop(depot);
        self.busy.append(&mut self.starved);
    }

    /// Does what others ask for.
    fn hear_calls(&mut self, link: &mut Link) {
        self.calls.sign.lower();
        while let Some((_, newcomer)) = self.waiting.pop_front() {
            self.welcome(link, newcomer);
        }
        while self.next.is_none() {
            match self.calls.queue.try_recv() {
                Ok(Call::Newcomer(newcomer)) => self.welcome(link, newcomer),
                Ok(Call::Resolved(id, found)) => self.call_target(link, id, found),
                Ok(Call::Pause(answer)) => self.next = Some(After::Pause(answer)),
                Ok(Call::Join(joint)) => self.next = Some(After::Join(joint)),
                Ok(Call::Follow(trc)) => {
                    link.follow(self.clock.now(), Some(trc.clone()));
                    self.trc = Some(trc);
                }
                Ok(Call::Drain) => self.draining = true,
                Err(_) => break,
            }
        }
    }

    fn look_at_sockets(&mut self, link: &mut Link) -> Result<(), Error> {
        let failed = |error| Error::world("waiting for sockets", error);
        for ready in self.poll.ready().map_err(failed)? {
            let session = self.sessions.get(&ready.token);
            if ready.broken && session.is_some_and(Session::is_reset) {
                self.end(link, ready.token, Refusal::Broken);
            }
            if let Some(session) = self.sessions.get_mut(&ready.token) {
                session.from_edge.is_ready |= ready.readable;
                session.to_edge.is_ready |= ready.writable;
                self.busy.insert(ready.token);
            }
        }
        Ok(())
    }

    fn look_at_attempts(&mut self, link: &mut Link, now: Instant) {
        let tokens: Vec<u64> = self.attempts.keys().copied().collect();
        for token in tokens {
            self.look_at_attempt(link, token, now);
        }
    }

    /// Whether the connection is to be let go of.
    fn check(&self) -> Result<(), Error> {
        match &self.next {
            None => Ok(()),
            Some(After::End) => Err(Error::Network("the gateway has been stopped".into())),
            Some(_) => Err(Error::Network("the link is connected anew".into())),
        }
    }
}

impl Owner<Link> for Hub {
    fn event(&mut self, link: &mut Link, event: Event, now: Instant) -> Result<Next, Error> {
        match event {
            Event::Opened(id, words) => self.open(link, id, &words),
            Event::Answered(id, accepted, words) => self.answered(link, id, accepted, &words),
            Event::Reset(id, words) => {
                if let Some(token) = self.tokens.get(&id).copied() {
                    debug!("session {id} was reset: {}", word::decode_refusal(&words));
                    self.status.broke(1);
                    self.remove(link, token);
                }
            }
            Event::Whole(whole) => self.take(link, &whole),
            Event::Kept(parts) => self.let_go(&parts),
            Event::Ripe => {
                self.launch(link, now);
                self.status.want(link.sender().has_more());
            }
            Event::Silent => {
                return Err(Error::TimedOut(
                    "nothing was heard of the other gateway for some seconds".into(),
                ));
            }
            Event::Failed(why) => return Err(Error::PeerMisbehaved(why.to_string())),
        }
        self.pump(link, now);
        self.check()?;
        Ok(Next::Continue)
    }

    fn tick(&mut self, link: &mut Link, now: Instant) -> Result<Next, Error> {
        self.look_at_sockets(link)?;
        self.hear_calls(link);
        self.look_at_attempts(link, now);
        self.pump(link, now);
        self.launch(link, now);
        self.status.look(link, &self.depot.borrow());
        if self.draining && self.sessions.is_empty() && link.sessions() == 0 {
            self.next = Some(After::End);
        }
        self.check()?;
        Ok(Next::Continue)
    }

    fn sign(&self) -> Option<RawFd> {
        Some(self.poll.as_raw_fd())
    }
}

/// Sends a program away: with words, or with a reset where there are none for it.
pub(crate) fn turn_away(newcomer: Newcomer, why: Refusal) {
    let mut session = Session::new(SessionId([0; 16]));
    session.tie = newcomer.tie;
    if session.connect(newcomer.socket).is_ok()
        && let Some(handshake) = newcomer.handshake
    {
        session.say(&handshake.answer(Err(why)));
        session.part();
    }
}

/// What calls are known by.
const SIGN: u64 = u64::MAX;
/// How long a target may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// Newcomers who wait for a connection between gateways.
const WAITING_MAX: usize = 1 << 10;
/// How often a thread without a connection looks around.
const LOOK: Duration = Duration::from_secs(1);
