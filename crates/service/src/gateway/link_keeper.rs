//! Thread that keeps the link to the other gateway connected.
//!
//! It uses any path that works, and returns to the direct path when that works again. Attempts
//! follow with exponential backoff and jitter. A path that fails in the same way again is logged
//! once only.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_capture::target::Target;
use lighthaul_daemon::gateway_links::OutgoingLink;
use lighthaul_gateway::proxy_address::ProxyAddress;
use lighthaul_io::crypto::identity::random_octets;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_remote::daemon::Daemon;
use lighthaul_remote::dial::dial;
use lighthaul_remote::place::PORT;
use lighthaul_session::error::{Code, Error, caught};
use lighthaul_session::session::Session;
use tracing::{debug, info, warn};

use super::settings::Peer;

use crate::error::Fault;

/// Reconnects the link until the process stops.
pub(super) struct LinkKeeper {
    far: Daemon,
    outgoing: Arc<OutgoingLink>,
    /// True if a connection has carried the link since the last check.
    carried: AtomicBool,
}

/// Consecutive failures of one path to the other gateway.
#[derive(Debug, Default)]
struct PathFailures {
    /// Last failure, if any.
    text: String,
    is_refusal: bool,
    /// Failures since a connection carried the link.
    count: u32,
}

/// Path to the other gateway.
#[derive(Debug)]
struct PeerPath {
    host: String,
    port: u16,
    /// Through a neighbor gateway.
    via: Option<ProxyAddress>,
}

impl LinkKeeper {
    /// Keeps the link connected, in a thread of its own, until the process stops.
    pub(super) fn start(
        peer: Peer,
        outgoing: Arc<OutgoingLink>,
    ) -> Result<JoinHandle<Result<(), Error>>, Error> {
        let ways = ways(&peer.addresses, &peer.via)?;
        let far = peer.daemon;
        let carried = AtomicBool::new(false);
        let keeper = Self {
            far,
            outgoing,
            carried,
        };
        Ok(thread::spawn(move || {
            keeper.run(&ways);
            Ok(())
        }))
    }

    fn run(&self, ways: &[PeerPath]) {
        let mut failures: Vec<PathFailures> =
            ways.iter().map(|_| PathFailures::default()).collect();
        for at in (0..ways.len()).cycle() {
            if self.is_over() {
                return;
            }
            let way = &ways[at];
            let result = match &way.via {
                None => self.connect(way),
                Some(_) => self.detour(way, ways),
            };
            let carried = self.carried.swap(false, Relaxed);
            match &result {
                Ok(()) => failures[at] = PathFailures::default(),
                Err(error) if failures[at].is_news(error, carried) => {
                    warn!("{}: {error}", way.name());
                }
                Err(_) => {}
            }
            if failures.iter().all(PathFailures::is_refusal) {
                self.outgoing.handle.refuse();
            }
            pause(failures[at].pause());
        }
    }

    fn is_over(&self) -> bool {
        interrupt::is_requested() || interrupt::is_ending() && self.outgoing.handle.is_over()
    }

    /// Runs one connection to the other gateway until it ends.
    fn connect(&self, way: &PeerPath) -> Result<(), Error> {
        let session = self.dial(way)?;
        self.carry(&session, way)
    }

    /// Runs one connection through a neighbor gateway, until it ends or the direct path works again.
    fn detour(&self, way: &PeerPath, ways: &[PeerPath]) -> Result<(), Error> {
        let session = self.dial(way)?;
        thread::scope(|scope| {
            let carry = || caught("link", || self.carry(&session, way));
            let carried = scope.spawn(carry);
            let own = ways.iter().filter(|way| way.via.is_none()).cycle();
            for own in own {
                for _ in 0..LOOKS {
                    if carried.is_finished() || self.is_over() {
                        return carried.join().unwrap_or(Ok(()));
                    }
                    pause(AGAIN);
                }
                // the new connection takes the link over
                match self.connect(own) {
                    Err(error) if !carried.is_finished() => {
                        debug!("cannot reach {}: {error}", own.name());
                    }
                    result => return result,
                }
            }
            Ok(())
        })
    }

    fn dial(&self, way: &PeerPath) -> Result<Session, Error> {
        dial(&self.far, way.via.as_ref(), &way.host, way.port)
    }

    fn carry(&self, session: &Session, way: &PeerPath) -> Result<(), Error> {
        let result = self.outgoing.run(session, || {
            info!("connected to {}", way.name());
            self.carried.store(true, Relaxed);
        });
        if let Err(error) = &result {
            session.give_up(error);
        }
        result
    }
}

impl PathFailures {
    /// Records a failure. Returns true if it differs from the last one. `carried` is true if a connection came before
    /// it.
    fn is_news(&mut self, error: &Error, carried: bool) -> bool {
        let text = error.to_string();
        let is_news = text != self.text;
        self.text = text;
        let refuses = matches!(
            error.code(),
            Code::Permission | Code::Protocol | Code::Usage
        );
        self.is_refusal = refuses && !carried;
        self.count = if carried {
            0
        } else {
            self.count.saturating_add(1)
        };
        is_news
    }

    /// Returns true if the other gateway was reached and refuses the link.
    const fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// Returns the time until the next attempt: exponential backoff, with jitter.
    /// So gateways that lost their peer at the same moment do not reconnect at the same moment.
    fn pause(&self) -> Duration {
        let longest = if self.is_refusal {
            REFUSED_PAUSE
        } else {
            LOST_PAUSE
        };
        let pause = FIRST_PAUSE * (1 << self.count.min(10));
        let [chance] = random_octets::<1>();
        pause.min(longest) * (192 + u32::from(chance) / 4) / 256
    }
}

impl PeerPath {
    fn name(&self) -> String {
        let Self { host, port, via } = self;
        match via {
            None => format!("{host}:{port}"),
            Some(via) => format!("{host}:{port} through {via}"),
        }
    }
}

/// Returns all paths to the peer, direct paths first.
fn ways(peers: &[String], via: &[ProxyAddress]) -> Result<Vec<PeerPath>, Error> {
    let from_here = std::iter::once(None);
    let through = via.iter().cloned().map(Some);
    let mut ways = Vec::new();
    for via in from_here.chain(through) {
        for peer in peers {
            let (host, port) = address(peer)?;
            let via = via.clone();
            ways.push(PeerPath { host, port, via });
        }
    }
    Ok(ways)
}

/// Reads `HOST` or `HOST:PORT`.
fn address(text: &str) -> Result<(String, u16), Error> {
    if let Ok(target) = text.parse::<Target>() {
        let host = target.host.to_string();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        return Ok((bare.to_owned(), target.port));
    }
    if text.is_empty() {
        return Err(Fault::NoPeer.into());
    }
    Ok((text.to_owned(), PORT))
}

/// Time until the first attempt after a connection has ended.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest time between attempts to reach a gateway that does not answer.
const LOST_PAUSE: Duration = Duration::from_millis(800);
/// Longest time between attempts to reach a gateway that refuses the link.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);
/// Interval at which a detour checks for its end.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of these checks between two attempts on the direct path.
const LOOKS: u32 = 10;

#[cfg(test)]
mod tests {
    use lighthaul_session::fault::PeerFault;

    use super::*;

    fn failed(code: Code, text: &str) -> Error {
        PeerFault::reported(code as u8, text).into()
    }

    #[test]
    fn refusal_is_logged_once_and_retried_with_growing_pauses() {
        let mut failures = PathFailures::default();
        assert!(!failures.is_refusal());
        let refused = failed(Code::Permission, "not allowed");
        assert!(failures.is_news(&refused, true));
        assert!(failures.pause() <= FIRST_PAUSE && !failures.is_refusal());
        for _ in 0..10 {
            let before = failures.pause();
            assert!(!failures.is_news(&refused, false) && failures.is_refusal());
            assert!(failures.pause() > before.min(REFUSED_PAUSE) * 3 / 4);
        }
        assert!((REFUSED_PAUSE * 3 / 4..=REFUSED_PAUSE).contains(&failures.pause()));
        let lost = failed(Code::Network, "refused the connection");
        assert!(failures.is_news(&lost, false) && !failures.is_refusal());
        assert!((LOST_PAUSE * 3 / 4..=LOST_PAUSE).contains(&failures.pause()));
        assert!(failures.is_news(&refused, false), "it came back");
    }
}
