//! Sessions with direct targets: they use no link, and the kernel moves their bytes from socket to socket (splice(2)).
//!
//! [`SpliceProxy`] is the thread that serves targets of `--direct`. It connects to the target, then
//! passes bytes in both directions without reading them. Each end sees what the other end does:
//! data, a regular end, or a reset.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::Host;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Watch, wait};
use lighthaul_io::net::tcp::pace_where_far;
use lighthaul_slabs::SessionId;
use socket2::Socket;
use tracing::{debug, warn};

use crate::attempt::{Attempt, CONNECT};
use crate::command::{
    Command, CommandQueue, NewSession, NotResolved, ResolvedTarget, refuse_session,
};
use crate::epoll::Epoll;
use crate::host_shares::HostShare;
use crate::line_limit::LineLimit;
use crate::resolve::{Question, QuestionShare, Resolver, look_up};
use crate::settings::Settings;
use crate::splice_pipe::SplicePipe;
use crate::status::Status;

/// Thread that splices sessions between sockets.
#[derive(Debug)]
// fields: state of one thread
pub(crate) struct SpliceProxy {
    settings: Arc<Settings>,
    clock: Clock,
    status: Arc<Status>,
    poll: Epoll,
    commands: CommandQueue,
    resolver: Resolver,
    /// Sessions whose targets are being connected.
    calling: BTreeMap<u64, (NewSession, Attempt)>,
    sweep: Instant,
    streams: BTreeMap<u64, Stream>,
    /// Sessions with pending work.
    busy: BTreeSet<u64>,
    last_token: u64,
    draining: bool,
    /// Refusals in the log.
    refusals: LineLimit,
}

/// Program and its target.
#[derive(Debug)]
struct Stream {
    program: Socket,
    target: Socket,
    there: SplicePipe,
    back: SplicePipe,
    /// Share of the program's host, held until the end.
    _place: Option<HostShare>,
}

impl SpliceProxy {
    /// Creates the proxy without sessions.
    pub(crate) fn new(
        settings: Arc<Settings>,
        status: Arc<Status>,
        (clock, commands): (Clock, CommandQueue),
        resolver: Resolver,
    ) -> io::Result<Self> {
        let poll = Epoll::new()?;
        poll.add(&commands.waker, WAKER)?;
        status.connected(true, false);
        Ok(Self {
            settings,
            clock,
            status,
            poll,
            commands,
            resolver,
            calling: BTreeMap::new(),
            sweep: Instant::ZERO,
            streams: BTreeMap::new(),
            busy: BTreeSet::new(),
            last_token: 0,
            draining: false,
            refusals: LineLimit::default(),
        })
    }

    /// Runs until a drain is requested and the last session has ended.
    pub(crate) fn run(mut self) {
        while !(self.draining && self.is_idle()) {
            if let Err(error) = self.turn() {
                warn!("direct connections to targets have stopped: {error}");
                return;
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.calling.is_empty() && self.streams.is_empty()
    }

    /// Waits for events, and handles them.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let until = if self.busy.is_empty() {
            now + SWEEP
        } else {
            now
        };
        wait(self.clock, &mut [Watch::read(self.poll.as_raw_fd())], until)?;
        self.poll_sockets()?;
        self.handle_commands();
        self.sweep();
        self.refusals.summarize(now);
        for token in std::mem::take(&mut self.busy) {
            self.pass(token);
        }
        self.status
            .sessions(self.calling.len() + self.streams.len());
        Ok(())
    }

    fn handle_commands(&mut self) {
        self.commands.waker.lower();
        while let Ok(call) = self.commands.queue.try_recv() {
            match call {
                Command::Open(new_session) => self.open_session(*new_session),
                Command::Resolved(id, found) => self.call(token(id), found),
                Command::Drain => self.draining = true,
                Command::End | Command::Revoke => {
                    self.draining = true;
                    self.calling.clear();
                    self.streams.clear();
                }
                // for links only
                Command::Detach(_) | Command::Attach(_) | Command::Follow(_) | Command::Refuse => {}
            }
        }
    }

    fn open_session(&mut self, new_session: NewSession) {
        let count = self.calling.len() + self.streams.len() + 1;
        if self.draining || !self.status.may_have(count, self.settings.sessions_max) {
            self.refuse(new_session, Refusal::Busy);
            return;
        }
        self.last_token += 2;
        let (token, target) = (self.last_token, new_session.target.clone());
        let share = new_session.share.as_ref().map_or_else(
            || QuestionShare::of_target(&target),
            |share| QuestionShare::Host(share.host()),
        );
        let until = self.clock.now() + CONNECT;
        let attempt = Attempt::new(
            (target.clone(), 0),
            until,
            (&self.settings.direct, self.settings.keepalive),
        );
        self.calling.insert(token, (new_session, attempt));
        if matches!(target.host, Host::Ip(_)) {
            let found = look_up(&self.settings.direct, &target);
            self.call(token, found);
            return;
        }
        let question = Question {
            session: id(token),
            target,
            until,
        };
        if !self.resolver.ask(share, question) {
            self.call(token, Err(NotResolved::Refused(Refusal::Busy)));
        }
    }

    /// Handles the resolved addresses of a program's target.
    fn call(&mut self, token: u64, found: ResolvedTarget) {
        let Some((_, attempt)) = self.calling.get_mut(&token) else {
            return;
        };
        let begun = found
            .map_err(Refusal::from)
            .and_then(|found| attempt.begin(found, &self.poll, token | TARGET));
        if let Err(why) = begun {
            self.give_up(token, why);
        }
    }

    fn poll_sockets(&mut self) -> io::Result<()> {
        for ready in self.poll.ready()? {
            let token = ready.token & !TARGET;
            self.poll_attempt(token);
            let Some(stream) = self.streams.get_mut(&token) else {
                continue;
            };
            let (socket, from, to) = if ready.token == token {
                (&stream.program, &mut stream.there, &mut stream.back)
            } else {
                (&stream.target, &mut stream.back, &mut stream.there)
            };
            from.can_read |= ready.readable;
            to.can_write |= ready.writable;
            if ready.broken && !matches!(socket.take_error(), Ok(None)) {
                self.end(token, &io::ErrorKind::ConnectionReset.into());
            } else {
                self.busy.insert(token);
            }
        }
        Ok(())
    }

    /// Checks an attempt to connect to a target.
    fn poll_attempt(&mut self, token: u64) {
        let Some((_, attempt)) = self.calling.get_mut(&token) else {
            return;
        };
        let (socket, from) = match attempt.poll(self.clock.now(), &self.poll, token | TARGET) {
            Ok(None) => return,
            Ok(Some(connected)) => connected,
            Err(why) => return self.give_up(token, why),
        };
        let Some((mut new_session, _)) = self.calling.remove(&token) else {
            return;
        };
        let answer = new_session
            .handshake
            .as_ref()
            .map(|shake| shake.answer(Ok(from)));
        let begun = new_session
            .socket
            .write_all(&answer.unwrap_or_default())
            .and_then(|()| self.begin(token, new_session, socket));
        if let Err(error) = begun {
            debug!("cannot start a session: {error}");
            self.status.broke(1);
        }
    }

    fn begin(&mut self, token: u64, new_session: NewSession, mut target: Socket) -> io::Result<()> {
        let NewSession {
            socket: program,
            rest,
            share,
            ..
        } = new_session;
        // if this process dies, both ends see a reset and not a regular end
        for socket in [&program, &target] {
            socket.set_linger(Some(Duration::ZERO))?;
            socket.set_tcp_nodelay(true)?;
            pace_where_far(socket);
        }
        target.write_all(&rest)?;
        self.status.read(rest.len() as u64);
        self.poll.add(&program, token)?;
        let (there, back) = (SplicePipe::new()?, SplicePipe::new()?);
        let stream = Stream {
            program,
            target,
            there,
            back,
            _place: share,
        };
        self.streams.insert(token, stream);
        self.busy.insert(token);
        Ok(())
    }

    /// Checks all attempts at intervals, since some targets never answer.
    fn sweep(&mut self) {
        let now = self.clock.now();
        if now < self.sweep {
            return;
        }
        self.sweep = now + SWEEP;
        let tokens: Vec<u64> = self.calling.keys().copied().collect();
        for token in tokens {
            self.poll_attempt(token);
        }
    }

    /// Passes bytes in both directions.
    fn pass(&mut self, token: u64) {
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        let there = stream.there.pass(&stream.program, &stream.target);
        let back = stream.back.pass(&stream.target, &stream.program);
        match there.and_then(|there| Ok((there, back?))) {
            Ok(((there, more), (back, more_back))) => {
                self.status.read(there);
                self.status.wrote(back);
                if stream.there.is_over() && stream.back.is_over() {
                    self.part(token);
                } else if more || more_back {
                    self.busy.insert(token);
                }
            }
            Err(error) => self.end(token, &error),
        }
    }

    /// Ends a session in an orderly way: the kernel still delivers its buffers.
    fn part(&mut self, token: u64) {
        if let Some(stream) = self.streams.remove(&token) {
            stream.program.set_linger(None).ok();
            stream.target.set_linger(None).ok();
            self.status.ended();
        }
    }

    /// Ends a session at once on both sides.
    fn end(&mut self, token: u64, why: &io::Error) {
        if self.streams.remove(&token).is_some() {
            debug!("a session ended: {why}");
            self.status.broke(1);
        }
    }

    fn give_up(&mut self, token: u64, why: Refusal) {
        if let Some((new_session, _)) = self.calling.remove(&token) {
            let line = || format!("cannot reach {}: {why}", new_session.target);
            self.refusals.log(self.clock.now(), line);
            self.refuse(new_session, why);
        }
    }

    fn refuse(&self, new_session: NewSession, why: Refusal) {
        self.status.refused();
        refuse_session(new_session, why);
    }
}

/// Encodes a token as an identifier for the resolver.
fn id(token: u64) -> SessionId {
    SessionId(u128::from(token).to_be_bytes())
}

fn token(id: SessionId) -> u64 {
    u128::from_be_bytes(id.0) as u64
}

/// Epoll token of the command queue.
const WAKER: u64 = u64::MAX;
/// Bit of a token that marks the socket of a session's target.
const TARGET: u64 = 1;
/// Interval of checks of unanswered attempts.
const SWEEP: Duration = Duration::from_secs(1);
