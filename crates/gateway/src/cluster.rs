//! Element of a cluster: a thread that exchanges the token with the other elements, and controls a link accordingly.
//!
//! The machine in `lighthaul_slabs` decides who has the token; this thread gives it a socket and a
//! clock. The link may send only in a slot of its element. Messages without a valid HMAC of the
//! shared secret are dropped, and so are those of other clusters.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate, Trc};
use lighthaul_capture::kernel;
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Waker, Watch, pause, wait};
use lighthaul_io::net::udp::Udp;
use lighthaul_slabs::token::config::ConfigError;
use lighthaul_slabs::token::{Config, Element, ElementMessage, Slot};
use ring::hmac;
use tracing::{info, warn};

use crate::address::membership::Membership;
use crate::address::script::ClusterView;
use crate::address::shared_address::SharedAddress;
use crate::link_handle::LinkHandle;

/// Settings of a cluster.
#[derive(Clone)]
pub struct Settings {
    /// Addresses of all elements, in the same order on every element.
    pub members: Vec<SocketAddr>,
    /// Address of this element.
    pub listen: SocketAddr,
    /// Shared secret of the elements.
    pub secret: Vec<u8>,
    /// Rate of the channel.
    pub rate: Rate,
    /// Shared address of the elements for programs.
    pub address: Option<Ipv4Addr>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({} of {:?})", self.listen, self.members)
    }
}

impl Settings {
    /// Returns the configuration of the token, or the fault of the settings.
    pub fn config(&self) -> Result<Config, SettingsError> {
        let place = self.members.iter().position(|at| *at == self.listen);
        let Some(me) = place else {
            return Err(SettingsError::NotListed(self.listen));
        };
        let first_of = |at: &SocketAddr| self.members.iter().position(|other| other == at);
        let twice = (0..self.members.len()).find(|nth| first_of(&self.members[*nth]) != Some(*nth));
        if let Some(nth) = twice {
            return Err(SettingsError::ListedTwice(self.members[nth]));
        }
        if self.secret.len() < SECRET_MIN {
            return Err(SettingsError::ShortSecret);
        }
        let count = u8::try_from(self.members.len()).unwrap_or(u8::MAX);
        let config = Config::new(count, me as u8);
        config.check().map_err(SettingsError::Config)?;
        Ok(config)
    }
}

/// Fault of the settings of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The address of this element is not listed.
    #[error("{0} is not a member of the cluster: add it to --cluster of every gateway")]
    NotListed(SocketAddr),
    /// An element is listed twice.
    #[error("{0} is listed twice")]
    ListedTwice(SocketAddr),
    /// The secret is too short.
    #[error("the secret has fewer than {SECRET_MIN} octets")]
    ShortSecret,
    /// The number of elements is out of range.
    #[error("{0}")]
    Config(ConfigError),
}

/// Membership in a cluster, which ends on drop.
#[derive(Debug)]
pub struct Cluster {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicU8>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    /// Shared address, which is released after the thread has ended.
    shared: Option<Arc<SharedAddress>>,
}

/// Reason why the cluster cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No UDP socket can be opened.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The shared address cannot be set up.
    #[error(transparent)]
    Address(#[from] kernel::error::Error),
}

impl Cluster {
    /// Joins the cluster. From now on, the link sends only while this element has the token.
    pub fn join(
        settings: &Settings,
        config: Config,
        handle: LinkHandle,
    ) -> Result<Self, ClusterError> {
        let failed = |why: io::Error| ClusterError::Listen(settings.listen, why);
        let udp = Udp::bind(settings.listen).map_err(failed)?;
        udp.stop_coalescing();
        let waker = Waker::new().map_err(failed)?;
        let take = |address| SharedAddress::take(address, &settings.members, config.me);
        let shared = settings.address.map(take).transpose()?.map(Arc::new);
        let phase = Arc::<AtomicU8>::default();
        handle.status().watch_wants(waker.clone());
        let stop = Arc::<AtomicBool>::default();
        let clock = handle.clock();
        let worker = Worker {
            element: Element::new(clock.now(), config, unix_nanos()),
            membership: Membership::new(clock.now(), config.members),
            shared: shared.clone(),
            phase: Arc::clone(&phase),
            socket: ElementSocket::new(settings, udp),
            clock,
            handle,
            rate: settings.rate,
            waker: waker.clone(),
            stop: Arc::clone(&stop),
            applied: None,
            idle: 0,
        };
        let builder = thread::Builder::new().name("cluster".into());
        let thread = builder.spawn(move || worker.run()).map_err(failed)?;
        info!(
            "element {} of {} of a cluster",
            config.me + 1,
            config.members
        );
        Ok(Self {
            stop,
            phase,
            waker,
            thread: Some(thread),
            shared,
        })
    }

    /// Directs new connections to other elements, before this element closes its listeners. Returns when this is in
    /// force.
    pub fn close(&self) {
        if self.shared.is_some() {
            self.phase.store(CLOSING, Relaxed);
            pause(SETTLE_TIME);
        }
    }

    /// Releases the shared address when the kernel has delivered all data, after `timeout`, or at an interruption.
    pub fn leave(&self, timeout: Duration) {
        if let Some(shared) = &self.shared {
            if !shared.wait_for_connections(timeout, || !interrupt::is_requested()) {
                warn!("programs have not received all of their data");
            }
            self.phase.store(LEAVING, Relaxed);
            pause(SETTLE_TIME);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.waker.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Thread of an element.
struct Worker {
    element: Element,
    membership: Membership,
    shared: Option<Arc<SharedAddress>>,
    phase: Arc<AtomicU8>,
    socket: ElementSocket,
    clock: Clock,
    handle: LinkHandle,
    rate: Rate,
    waker: Waker,
    stop: Arc<AtomicBool>,
    /// Slot that the link follows.
    applied: Option<Slot>,
    /// Number of consecutive checks at which the link had nothing to send.
    idle: u32,
}

impl Worker {
    fn run(mut self) {
        self.handle.follow(never(self.rate));
        while !self.stop.load(Relaxed) {
            if let Err(error) = self.turn() {
                warn!("cannot exchange messages with the other elements: {error}");
                thread::park_timeout(ERROR_PAUSE);
            }
        }
        self.handle.follow(never(self.rate));
    }

    fn turn(&mut self) -> io::Result<()> {
        self.waker.lower();
        for _ in 0..MESSAGES_MAX {
            let Some(words) = self.socket.receive()? else {
                break;
            };
            self.element.handle_message(self.clock.now(), words);
        }
        let now = self.clock.now();
        // data come in pieces, so one check without data means little
        let wants = self.handle.status().wants();
        self.idle = if wants { 0 } else { self.idle + 1 };
        let is_sure = wants || self.idle >= IDLE_CHECKS;
        if is_sure {
            self.element.handle_want(now, wants);
        }
        self.element.handle_timeout(now);
        self.update_link();
        self.update_shared_address(now);
        while let Some(words) = self.element.poll_message() {
            self.socket.send(&words)?;
        }
        let next_check = if self.applied.is_some() {
            self.handle.wake();
            now + CHECK_INTERVAL
        } else {
            Instant::NEVER
        };
        let until = self.element.poll_timeout().min(next_check);
        let mut watches = [
            Watch::read(self.socket.udp.as_raw_fd()),
            Watch::read(self.waker.as_raw_fd()),
        ];
        wait(self.clock, &mut watches, until)?;
        self.waker.drain();
        Ok(())
    }

    /// Applies a slot that began, grew, or ended early to the link.
    fn update_link(&mut self) {
        let slot = self.element.slot();
        if slot == self.applied {
            return;
        }
        let now = self.clock.now();
        let trc = slot.and_then(|slot| window(slot, self.rate));
        if let (Some(slot), Some(trc)) = (slot, trc) {
            self.count(slot);
            self.handle.follow(trc);
        } else if self.applied.is_some_and(|applied| now < applied.till) {
            self.handle.follow(never(self.rate));
        }
        self.applied = slot;
    }

    /// Passes the serving elements to the shared address, and its readiness to the other elements.
    fn update_shared_address(&mut self, now: Instant) {
        let Some(shared) = &self.shared else {
            return;
        };
        let config = *self.element.config();
        for nth in 0..config.members {
            if let Some(serves) = self.element.hears_served(now, nth) {
                self.membership.hear(now, nth, serves);
            }
        }
        let phase = self.phase.load(Relaxed);
        let stays = phase != LEAVING;
        if let Some(others) = self.membership.serving(now) {
            let serving = if stays { others.and(config.me) } else { others };
            let is_closing = phase != OPEN;
            shared.set_view(ClusterView {
                serving,
                is_closing,
            });
        }
        let serves = stays && shared.is_ready();
        self.element.handle_service(now, serves);
    }

    fn count(&self, slot: Slot) {
        let from = self
            .applied
            .map_or(slot.from, |applied| applied.till.min(slot.till));
        let had = slot.till.since(from.max(slot.from));
        self.handle.status().had_turn(self.element.counts(), had);
    }
}

/// UDP socket for messages with authentication by HMAC-SHA-256.
struct ElementSocket {
    udp: Udp,
    members: Vec<SocketAddr>,
    key: hmac::Key,
    /// Name of the cluster, so that messages of other clusters with the same secret are refused.
    name: Vec<u8>,
    drops: u32,
}

impl ElementSocket {
    fn new(settings: &Settings, udp: Udp) -> Self {
        let names: Vec<String> = settings.members.iter().map(ToString::to_string).collect();
        Self {
            udp,
            members: settings.members.clone(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &settings.secret),
            name: names.join(",").into_bytes(),
            drops: 0,
        }
    }

    fn send(&self, words: &ElementMessage) -> io::Result<()> {
        let mut octets = words.encode();
        octets.extend(self.proof(&octets).as_ref());
        self.udp
            .send(&octets, self.members.get(usize::from(words.to)).copied())
    }

    /// Returns the next authentic message of another element.
    fn receive(&mut self) -> io::Result<Option<ElementMessage>> {
        let mut buffer = [0; RECEIVED_MAX];
        for _ in 0..MESSAGES_MAX {
            let Some(received) = self.udp.receive_into(&mut buffer, &mut self.drops)? else {
                return Ok(None);
            };
            if let Some(words) = self.open(&buffer[..received.len]) {
                return Ok(Some(words));
            }
        }
        Ok(None)
    }

    fn open(&self, octets: &[u8]) -> Option<ElementMessage> {
        let (words, proof) = octets.split_last_chunk::<PROOF_LEN>()?;
        let said = [&self.name, words].concat();
        hmac::verify(&self.key, &said, proof).ok()?;
        ElementMessage::decode(words).ok()
    }

    fn proof(&self, octets: &[u8]) -> hmac::Tag {
        hmac::sign(&self.key, &[&self.name, octets].concat())
    }
}

/// Returns the rate vector of a slot.
fn window(slot: Slot, rate: Rate) -> Option<Trc> {
    let Slot { from, till } = slot;
    Trc::new(vec![Step { from, till, rate }]).ok()
}

/// Returns a vector without a rate at any future time.
fn never(rate: Rate) -> Trc {
    let (from, till) = (Instant::ZERO, Instant::from_nanos(1));
    Trc::new(vec![Step { from, till, rate }]).unwrap_or_else(|_| Trc::steady(rate))
}

/// Phase in which the listeners are open.
const OPEN: u8 = 0;
/// Phase in which the listeners close soon.
const CLOSING: u8 = 1;
/// Phase in which the address is being released.
const LEAVING: u8 = 2;
/// Time for the other elements and the kernel to apply changes, and for connections in progress.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// Minimum length of a secret, in octets.
const SECRET_MIN: usize = 16;
/// Length of an HMAC-SHA-256, in octets.
const PROOF_LEN: usize = 32;
/// Maximum length of a message, in octets.
const RECEIVED_MAX: usize = 256;
/// Maximum number of messages that are handled in one turn.
const MESSAGES_MAX: usize = 256;
/// Interval of checks for data to send, during a slot.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Number of checks without data before the channel is passed on.
const IDLE_CHECKS: u32 = 2;
/// Pause after an error, which may occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use lighthaul_slabs::token::{Generation, MessageBody};

    use super::*;

    fn settings(secret: &str, members: &[&str]) -> Settings {
        let members: Vec<SocketAddr> = members.iter().map(|at| at.parse().unwrap()).collect();
        Settings {
            listen: *members.first().unwrap(),
            members,
            secret: secret.into(),
            rate: Rate::from_mbps(100),
            address: None,
        }
    }

    const LOCAL: &str = "127.0.0.1:0";
    const SECRET: &str = "secret of the elements";

    #[test]
    fn invalid_settings_are_refused() {
        let config = |secret, members: &[&str]| settings(secret, members).config();
        assert_eq!(
            config(SECRET, &[LOCAL, "10.0.0.2:1"]),
            Ok(Config::new(2, 0))
        );
        assert!(
            config("short", &[LOCAL])
                .unwrap_err()
                .to_string()
                .contains("16")
        );
        let twice = config(SECRET, &[LOCAL, "10.0.0.2:1", "10.0.0.2:1"]);
        assert!(twice.unwrap_err().to_string().contains("twice"));
        let mut other = settings(SECRET, &[LOCAL]);
        other.listen = "10.0.0.3:1".parse().unwrap();
        assert!(
            other
                .config()
                .unwrap_err()
                .to_string()
                .contains("not a member")
        );
    }

    #[test]
    fn messages_without_the_secret_of_this_cluster_are_refused() {
        let socket = |secret, members: &[&str]| {
            let udp = Udp::bind(LOCAL.parse().unwrap()).unwrap();
            ElementSocket::new(&settings(secret, members), udp)
        };
        let words = ElementMessage {
            from: 1,
            to: 0,
            body: MessageBody::Propose {
                generation: Generation(256),
            },
        };
        let ours = socket(SECRET, &[LOCAL, "10.0.0.2:1"]);
        let said = |socket: &ElementSocket| {
            let mut octets = words.encode();
            octets.extend(socket.proof(&octets).as_ref());
            octets
        };
        assert_eq!(ours.open(&said(&ours)), Some(words));
        let mut changed = said(&ours);
        changed[4] ^= 1;
        assert_eq!(ours.open(&changed), None);
        assert_eq!(
            ours.open(&said(&socket("secret of others", &[LOCAL, "10.0.0.2:1"]))),
            None
        );
        assert_eq!(
            ours.open(&said(&socket(SECRET, &[LOCAL, "10.0.0.3:1"]))),
            None
        );
        assert_eq!(ours.open(&[]), None);
    }
}
