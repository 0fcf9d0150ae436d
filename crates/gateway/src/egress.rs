//! Sessions that the other side begins: who their targets are, and the calling of them.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_proto::slabs::{Link, SessionId};
use tracing::{debug, info, warn};

use crate::attempt::Attempt;
use crate::bond::{self, Onward};
use crate::call::Newcomer;
use crate::capture::refusal::Refusal;
use crate::hub::{CONNECT, Hub};
use crate::line::Line;
use crate::resolve::{Found, look_up};
use crate::session::Session;
use crate::target::Host;
use crate::traffic::promise;
use crate::word::{self, Opening};

impl Hub {
    /// The other side begins a session.
    pub(crate) fn open(&mut self, link: &mut Link, id: SessionId, words: &[u8]) {
        let Ok(Opening { hops, target }) = Opening::decode(words) else {
            link.answer(id, false, &word::encode_refusal(Refusal::Broken));
            return;
        };
        let full = self.status.shared_sessions() >= self.settings.sessions_max || self.draining;
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
        let attempt = Attempt::new(
            (target, hops),
            until,
            (&self.settings.allowed, self.settings.keepalive),
        );
        self.attempts.insert(token, attempt);
        if let Some(found) = found {
            self.call_target(link, id, found);
        }
    }

    /// The addresses of a session's target are known.
    pub(crate) fn call_target(&mut self, link: &mut Link, id: SessionId, found: Found) {
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

    /// Looks how calling a session's target goes, if it is being called.
    pub(crate) fn look_at_attempt(&mut self, link: &mut Link, token: u64, now: Instant) {
        let Some(attempt) = self.attempts.get_mut(&token) else {
            return;
        };
        match attempt.look(now, &self.poll, token) {
            Ok(None) => {}
            Ok(Some((socket, from))) => {
                self.attempts.remove(&token);
                if let Some(session) = self.sessions.get_mut(&token) {
                    link.answer(session.id, true, &word::encode_reached(from));
                    promise(link, session.id);
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

    /// Looks at all targets that are being called, now and then: some never answer. Gives up memory that has been of no use since.
    pub(crate) fn sweep(&mut self, link: &mut Link, now: Instant) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + SWEEP;
        self.depot.borrow_mut().shrink();
        let tokens: Vec<u64> = self.attempts.keys().copied().collect();
        for token in tokens {
            self.look_at_attempt(link, token, now);
        }
    }
}

/// How often targets are looked at that do not answer.
const SWEEP: Duration = Duration::from_secs(1);
