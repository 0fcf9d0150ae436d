//! Sessions that the other gateway opens: resolving their targets and connecting to them.
//!
//! These functions of `Multiplexer` take a session from its request to the answer:
//!
//! ```text
//! open -> (resolver) -> call_target -> poll_attempt ... -> answer: reached
//!   |                       |                 |
//!   +-- busy, malformed ----+-- not allowed --+-- failed --> answer: refused
//! ```
//!
//! If this gateway does not allow the target, a further gateway may connect instead. The hop count
//! bounds such a chain. Bytes are moved in `traffic`.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_capture::refusal::Refusal;
use lighthaul_capture::target::Host;
use lighthaul_slabs::{Link, SessionId};
use tracing::{debug, warn};

use crate::attempt::{Attempt, CONNECT};
use crate::command::{NewSession, NotResolved, ResolvedTarget};
use crate::link_handle::LinkHandle;
use crate::messages::{self, Opening};
use crate::multiplexer::Multiplexer;
use crate::resolve::{Question, QuestionShare, look_up};
use crate::session::Session;
use crate::session_relay::{self, OnwardHandshake};
use crate::window::promise;

impl Multiplexer {
    /// Handles the opening of a session by the other gateway.
    pub(crate) fn open(&mut self, link: &mut Link, id: SessionId, words: &[u8]) {
        let Ok(Opening { hops, target }) = Opening::decode(words) else {
            link.answer(id, false, &messages::encode_refusal(Refusal::Broken));
            return;
        };
        // a session whose bytes the peer has delivered may still write them to its target
        let full = self.is_full() || self.sessions.token(id).is_some();
        let is_known = matches!(target.host, Host::Ip(_));
        let until = self.clock.now() + CONNECT;
        let ask = || {
            let share = QuestionShare::of_target(&target);
            let question = Question {
                session: id,
                target: target.clone(),
                until,
            };
            self.resolver.ask(share, question)
        };
        if full || !(is_known || ask()) {
            self.status.refused();
            link.answer(id, false, &messages::encode_refusal(Refusal::Busy));
            return;
        }
        debug!("session {id} to {target}");
        let token = self.enter(Session::new(id));
        let found = is_known.then(|| look_up(&self.settings.allowed, &target));
        let attempt = Attempt::new(
            (target, hops),
            until,
            (&self.settings.allowed, self.settings.keepalive),
        );
        self.starting.attempts.insert(token, attempt);
        if let Some(found) = found {
            self.call_target(link, id, found);
        }
    }

    /// Handles the resolved addresses of a session's target.
    pub(crate) fn call_target(&mut self, link: &mut Link, id: SessionId, found: ResolvedTarget) {
        let Some(token) = self.sessions.token(id) else {
            return;
        };
        let onward = self.settings.onward.clone();
        let begun = match (self.starting.attempts.get_mut(&token), found, onward) {
            (None, ..) => Ok(()),
            (Some(_), Err(NotResolved::Refused(Refusal::NotAllowed)), Some(handle)) => {
                self.forward(token, &handle)
            }
            (Some(_), Err(why), _) => Err(why.into()),
            (Some(attempt), Ok(addresses), _) => attempt.begin(addresses, &self.poll, token),
        };
        if let Err(why) = begun {
            self.refuse(link, token, why);
        }
    }

    /// Forwards a session to a further gateway, if this gateway does not allow its target.
    fn forward(&mut self, token: u64, handle: &LinkHandle) -> Result<(), Refusal> {
        let (Some(attempt), Some(session)) = (
            self.starting.attempts.get_mut(&token),
            self.sessions.entries.get_mut(&token),
        ) else {
            return Ok(());
        };
        let hops = attempt.hops().checked_sub(1).ok_or(Refusal::Unreachable)?;
        let [(came, ours), (goes, theirs)] =
            session_relay::relay_pair().map_err(|_| Refusal::Busy)?;
        session.relay = Some(ours);
        handle.open_session(NewSession {
            session: Some(session.id),
            socket: goes,
            target: attempt.target().clone(),
            handshake: Some(Box::new(OnwardHandshake)),
            rest: Vec::new(),
            hops,
            relay: Some(theirs),
            share: None,
        });
        attempt.forward(came, &self.poll, token)
    }

    /// Checks the attempt to connect to a session's target.
    pub(crate) fn poll_attempt(&mut self, link: &mut Link, token: u64, now: Instant) {
        let Some(attempt) = self.starting.attempts.get_mut(&token) else {
            return;
        };
        match attempt.poll(now, &self.poll, token) {
            Ok(None) => {}
            Ok(Some((socket, from))) => {
                self.starting.attempts.remove(&token);
                if let Some(session) = self.sessions.entries.get_mut(&token) {
                    link.answer(session.id, true, &messages::encode_reached(from));
                    promise(link, session.id);
                    if let Err(error) = session.connect(socket) {
                        warn!("session {} cannot be connected: {error}", session.id);
                        self.end(link, token, Refusal::Broken);
                    }
                }
                self.sessions.busy.insert(token);
            }
            Err(why) => self.refuse(link, token, why),
        }
    }

    /// Refuses a session of the other gateway.
    fn refuse(&mut self, link: &mut Link, token: u64, why: Refusal) {
        if let Some(attempt) = self.starting.attempts.remove(&token) {
            let line = || format!("cannot reach {}: {why}", attempt.target());
            self.starting.refusals.log(self.clock.now(), line);
        }
        if let Some(session) = self.remove(link, token) {
            self.status.refused();
            link.answer(session.id, false, &messages::encode_refusal(why));
        }
    }

    /// Checks all attempts at intervals, since some targets never answer, and programs that do not read. Frees memory
    /// that was not needed since the last check.
    pub(crate) fn sweep(&mut self, link: &mut Link, now: Instant) {
        if now < self.starting.check_at {
            return;
        }
        self.starting.check_at = now + SWEEP;
        self.pool.borrow_mut().shrink();
        self.relieve(link);
        let tokens: Vec<u64> = self.starting.attempts.keys().copied().collect();
        for token in tokens {
            self.poll_attempt(link, token, now);
        }
    }
}

/// Interval of checks of unanswered attempts.
const SWEEP: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::thread;

    use lighthaul_base::Endpoint;
    use lighthaul_io::drive::Owner;
    use lighthaul_io::host::clock::Clock;
    use lighthaul_slabs::Event;
    use lighthaul_slabs::config::Config;
    use lighthaul_slabs::wire::Control;

    use super::*;
    use crate::command::command_channel;
    use crate::link_thread;
    use crate::resolve::Resolver;
    use crate::settings::Settings;
    use crate::status::Status;
    use crate::target_rules::TargetRules;

    /// Egress side of a link.
    struct Egress {
        multiplexer: Multiplexer,
        link: Link,
        opened: u8,
    }

    impl Egress {
        /// Creates an egress with these rules for at most two sessions. Other targets are forwarded to `onward`.
        fn new(rules: &[String], onward: Option<LinkHandle>) -> Self {
            let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            let settings = Settings {
                allowed: Arc::new(TargetRules::new(rules)),
                sessions_max: 2,
                onward,
                ..Settings::example()
            };
            let config = Config {
                packet_len: 1000,
                overhead_len: 44,
                stream: 0,
                burst: None,
                settle: Duration::from_millis(2),
                ack_every: Duration::from_millis(10),
                patience: Duration::from_hours(1),
                slab_pages: 4,
                age: Duration::from_millis(1),
                pages_max: 16,
                window: 1 << 20,
            };
            let (settings, (sender, commands)) = (Arc::new(settings), command_channel().unwrap());
            let clock = Clock::start();
            let resolver = Resolver::new(Arc::clone(&settings.allowed), sender, clock);
            let clock = (clock, commands);
            Self {
                multiplexer: Multiplexer::new(settings, Arc::<Status>::default(), clock, resolver)
                    .unwrap(),
                link: Link::new(Instant::ZERO, config, None),
                opened: 0,
            }
        }

        /// Opens a session of the other gateway with these octets.
        fn begin(&mut self, words: Vec<u8>) {
            self.opened += 1;
            let (id, now) = (SessionId([self.opened; 16]), self.multiplexer.clock.now());
            let opened = Event::Opened(id, words);
            self.multiplexer.event(&mut self.link, opened, now).unwrap();
        }

        /// Opens a session for a target with this number of further gateways.
        fn open(&mut self, target: &str, hops: u8) {
            let target = target.parse().unwrap();
            self.begin(Opening { hops, target }.encode());
        }

        /// Returns the answers so far: the session, and the local address of its connection or the reason of its
        /// refusal.
        fn said(&mut self) -> Vec<(u8, Result<SocketAddr, Refusal>)> {
            let now = self.multiplexer.clock.now();
            let mut said = Vec::new();
            while let Some(transmit) = self.link.poll_transmit(now) {
                if let Ok(Control::Answer {
                    session,
                    accepted,
                    details,
                }) = Control::decode(&transmit.octets())
                {
                    let answer = if accepted {
                        Ok(messages::decode_reached(details).unwrap())
                    } else {
                        Err(messages::decode_refusal(details))
                    };
                    said.push((session.0[0], answer));
                }
            }
            said
        }

        /// Returns the first answer, for which the kernel or the resolver may need time.
        #[expect(clippy::unwrap_in_result, reason = "the test fails, not the call")]
        fn answer(&mut self) -> Result<SocketAddr, Refusal> {
            for _ in 0..10_000 {
                let now = self.multiplexer.clock.now();
                self.multiplexer.tick(&mut self.link, now).unwrap();
                if let Some((session, answer)) = self.said().pop() {
                    assert_eq!(session, self.opened);
                    return answer;
                }
                thread::park_timeout(Duration::from_millis(1));
            }
            panic!("the session was not answered");
        }
    }

    fn target() -> (TcpListener, SocketAddr) {
        let listener = lighthaul_io::net::tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    #[test]
    fn session_is_connected_to_its_target_by_address_and_by_name() {
        let (listener, address) = target();
        let mut egress = Egress::new(&[address.to_string()], None);
        for asked in [address.to_string(), format!("localhost:{}", address.port())] {
            egress.open(&asked, 0);
            let from = egress.answer().unwrap();
            assert_eq!(listener.accept().unwrap().1, from);
        }
        assert_eq!(
            (
                egress.multiplexer.sessions.entries.len(),
                egress.multiplexer.starting.attempts.len()
            ),
            (2, 0)
        );
        assert_eq!(egress.multiplexer.status.snapshot().sessions_refused, 0);
    }

    #[test]
    fn session_to_a_forbidden_or_closed_target_is_refused() {
        let (listener, address) = target();
        let mut egress = Egress::new(&[address.to_string()], None);
        drop(listener);
        for (asked, why) in [
            (address.to_string(), Refusal::Refused),
            (format!("127.0.0.2:{}", address.port()), Refusal::NotAllowed),
            ("absent.invalid:1".to_owned(), Refusal::NotAllowed),
        ] {
            egress.open(&asked, 8);
            assert_eq!(egress.answer(), Err(why), "{asked}");
        }
        egress.begin(vec![0]);
        assert_eq!(egress.said(), [(4, Err(Refusal::Broken))]);
        assert_eq!(
            (
                egress.multiplexer.sessions.entries.len(),
                egress.multiplexer.starting.attempts.len()
            ),
            (0, 0)
        );
        assert_eq!(egress.multiplexer.status.snapshot().sessions_refused, 3);
    }

    #[test]
    fn full_or_draining_gateway_refuses_further_sessions() {
        let (_listener, address) = target();
        let mut egress = Egress::new(&[address.to_string()], None);
        egress.open(&address.to_string(), 0);
        egress.open(&address.to_string(), 0);
        egress.said();
        egress.open(&address.to_string(), 0);
        assert_eq!(egress.said(), [(3, Err(Refusal::Busy))]);
        let mut draining = Egress::new(&[address.to_string()], None);
        draining.multiplexer.control.draining = true;
        draining.open(&address.to_string(), 0);
        assert_eq!(draining.said(), [(1, Err(Refusal::Busy))]);
        assert_eq!(draining.multiplexer.status.snapshot().sessions_refused, 1);
    }

    /// Returns the identifiers of the sessions that the link has opened.
    fn opened(link: &mut Link, now: Instant) -> Vec<SessionId> {
        let mut ids = Vec::new();
        while let Some(transmit) = link.poll_transmit(now) {
            if let Ok(Control::Open { session, .. }) = Control::decode(&transmit.octets()) {
                ids.push(session);
            }
        }
        ids
    }

    #[test]
    fn relayed_session_has_an_identifier_of_its_own_on_each_link() {
        let mut relay = Egress::new(&[], None);
        let inbound = SessionId([7; 16]);
        let mut held = Vec::new();
        for _ in 0..2 {
            let [_, (goes, theirs)] = {
                let pair = session_relay::relay_pair().unwrap();
                held.push(pair[0].0.try_clone().unwrap());
                pair
            };
            let new_session = NewSession {
                session: Some(inbound),
                socket: goes,
                target: "192.0.2.1:80".parse().unwrap(),
                handshake: Some(Box::new(OnwardHandshake)),
                rest: Vec::new(),
                hops: 1,
                relay: Some(theirs),
                share: None,
            };
            relay.multiplexer.open_session(&mut relay.link, new_session);
        }
        let now = relay.multiplexer.clock.now();
        let ids = opened(&mut relay.link, now);
        assert_eq!((ids.len(), relay.link.sessions()), (2, 2));
        assert!(ids[0] != ids[1] && !ids.contains(&inbound));
    }

    #[test]
    fn identifier_of_a_session_that_has_not_ended_is_refused() {
        let (_listener, address) = target();
        let mut egress = Egress::new(&[address.to_string()], None);
        egress.open(&address.to_string(), 0);
        egress.said();
        egress.opened = 0;
        egress.open(&address.to_string(), 0);
        assert_eq!(egress.said(), [(1, Err(Refusal::Busy))]);
        assert_eq!(egress.multiplexer.sessions.entries.len(), 1);
    }

    #[test]
    fn session_to_a_forbidden_target_is_forwarded_until_its_hops_are_used_up() {
        let settings = Egress::new(&[], None).multiplexer.settings;
        let onward = link_thread::start(settings).unwrap();
        let mut egress = Egress::new(&[], Some(onward));
        egress.open("127.0.0.1:1", 1);
        assert_eq!(
            (egress.said(), egress.multiplexer.starting.attempts.len()),
            (Vec::new(), 1)
        );
        egress.open("127.0.0.1:1", 0);
        assert_eq!(egress.said(), [(2, Err(Refusal::Unreachable))]);
        // another gateway may have a rule for the network of this host
        egress.open("localhost:1", 1);
        let own = Err(NotResolved::OwnHost);
        egress
            .multiplexer
            .call_target(&mut egress.link, SessionId([3; 16]), own);
        assert_eq!(egress.said(), [(3, Err(Refusal::NotAllowed))]);
    }

    #[test]
    fn unanswered_attempt_is_given_up_at_the_next_check() {
        let waiting = || {
            let mut egress = Egress::new(&["localhost:1".to_owned()], None);
            // the addresses of a name arrive with the next tick
            egress.open("localhost:1", 0);
            let late = egress.multiplexer.clock.now() + CONNECT;
            (egress, late)
        };
        let (mut egress, late) = waiting();
        egress.multiplexer.starting.check_at = late + Duration::from_nanos(1);
        egress.multiplexer.sweep(&mut egress.link, late);
        assert_eq!(egress.said(), []);
        for before in [Duration::ZERO, Duration::from_secs(9)] {
            let (mut egress, late) = waiting();
            egress.multiplexer.starting.check_at = late - before;
            egress.multiplexer.sweep(&mut egress.link, late);
            assert_eq!(egress.said(), [(1, Err(Refusal::TimedOut))]);
            assert_eq!(
                egress.multiplexer.starting.check_at,
                late + Duration::from_secs(1)
            );
        }
    }
}
