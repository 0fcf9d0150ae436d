//! An element of a cluster: a thread that talks to the others, and tells a link when the channel is its own.

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
use lighthaul_io::host::clock::{Clock, unix_nanos};
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Sign, Watch, pause, wait};
use lighthaul_io::net::udp::Udp;
use lighthaul_proto::slabs::token::{Config, Element, ElementMessage, Slot};
use ring::hmac;
use tracing::{info, warn};

use crate::address::membership::Membership;
use crate::address::script::ClusterView;
use crate::address::shared_address::SharedAddress;
use crate::kernel;
use crate::link_handle::LinkHandle;

/// Who is in a cluster, and what they share.
#[derive(Clone)]
pub struct Settings {
    /// Where each element listens, in the same order for all of them.
    pub members: Vec<SocketAddr>,
    /// Which of these addresses is ours.
    pub listen: SocketAddr,
    /// What only they know.
    pub secret: Vec<u8>,
    /// What the channel carries.
    pub rate: Rate,
    /// An address that programs find all of them at.
    pub address: Option<Ipv4Addr>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Settings({} of {:?})", self.listen, self.members)
    }
}

impl Settings {
    /// How the elements take turns, or why these settings make no cluster.
    pub fn config(&self) -> Result<Config, String> {
        let place = self.members.iter().position(|at| *at == self.listen);
        let Some(me) = place else {
            return Err(format!(
                "{} is not among the elements: list it where every element lists it",
                self.listen
            ));
        };
        let first_of = |at: &SocketAddr| self.members.iter().position(|other| other == at);
        let twice = (0..self.members.len()).find(|nth| first_of(&self.members[*nth]) != Some(*nth));
        if let Some(nth) = twice {
            return Err(format!("{} is listed twice", self.members[nth]));
        }
        if self.secret.len() < SECRET_MIN {
            return Err(format!("the secret has fewer than {SECRET_MIN} octets"));
        }
        let count = u8::try_from(self.members.len()).unwrap_or(u8::MAX);
        let config = Config::new(count, me as u8);
        config.check().map_err(|why| why.to_string())?;
        Ok(config)
    }
}

/// Takes part in a cluster for as long as it lives.
#[derive(Debug)]
pub struct Cluster {
    stop: Arc<AtomicBool>,
    phase: Arc<AtomicU8>,
    sign: Sign,
    thread: Option<JoinHandle<()>>,
    /// Gone only when nothing sends any more.
    shared: Option<Arc<SharedAddress>>,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It cannot listen for the others.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The address that all share cannot be had.
    #[error(transparent)]
    Address(#[from] kernel::error::Error),
}

impl Cluster {
    /// Joins the cluster; from now on `handle` sends when it has the token.
    pub fn join(
        settings: &Settings,
        config: Config,
        handle: LinkHandle,
    ) -> Result<Self, ClusterError> {
        let failed = |why: io::Error| ClusterError::Listen(settings.listen, why);
        let udp = Udp::bind(settings.listen).map_err(failed)?;
        udp.stop_coalescing();
        let sign = Sign::new().map_err(failed)?;
        let take = |address| SharedAddress::take(address, &settings.members, config.me);
        let shared = settings.address.map(take).transpose()?.map(Arc::new);
        let phase = Arc::<AtomicU8>::default();
        handle.status().watch_wants(sign.clone());
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
            sign: sign.clone(),
            stop: Arc::clone(&stop),
            told: None,
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
            sign,
            thread: Some(thread),
            shared,
        })
    }

    /// Has who begins go to others from now on, before doors are closed here; returns when nobody can be at one any more.
    pub fn close(&self) {
        if self.shared.is_some() {
            self.phase.store(CLOSING, Relaxed);
            pause(GRACE);
        }
    }

    /// Leaves the address to others, once all that sessions said has been brought, or after this time, or when somebody interrupts.
    pub fn leave(&self, patience: Duration) {
        if let Some(shared) = &self.shared {
            if !shared.wait_for_connections(patience, || !interrupt::is_requested()) {
                warn!("programs have not taken all that was said to them");
            }
            self.phase.store(LEAVING, Relaxed);
            pause(GRACE);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.sign.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The thread.
struct Worker {
    element: Element,
    membership: Membership,
    shared: Option<Arc<SharedAddress>>,
    phase: Arc<AtomicU8>,
    socket: ElementSocket,
    clock: Clock,
    handle: LinkHandle,
    rate: Rate,
    sign: Sign,
    stop: Arc<AtomicBool>,
    /// The slot that the handle knows of.
    told: Option<Slot>,
    /// How often in a row the handle had nothing to send.
    idle: u32,
}

impl Worker {
    fn run(mut self) {
        self.handle.follow(never(self.rate));
        while !self.stop.load(Relaxed) {
            if let Err(error) = self.turn() {
                warn!("the other elements cannot be heard: {error}");
                thread::park_timeout(BREATH);
            }
        }
        self.handle.follow(never(self.rate));
    }

    fn turn(&mut self) -> io::Result<()> {
        self.sign.lower();
        for _ in 0..HEARD_MAX {
            let Some(words) = self.socket.receive()? else {
                break;
            };
            self.element.handle_message(self.clock.now(), words);
        }
        let now = self.clock.now();
        // bytes come in pieces: one look that finds none says little
        let wants = self.handle.status().wants();
        self.idle = if wants { 0 } else { self.idle + 1 };
        let is_sure = wants || self.idle >= IDLE_LOOKS;
        if is_sure {
            self.element.handle_want(now, wants);
        }
        self.element.handle_timeout(now);
        self.update_link();
        self.update_shared_address(now);
        while let Some(words) = self.element.poll_message() {
            self.socket.send(&words)?;
        }
        let look = if self.told.is_some() {
            self.handle.wake();
            now + LOOK
        } else {
            Instant::NEVER
        };
        let until = self.element.poll_timeout().min(look);
        let mut watches = [
            Watch::read(self.socket.udp.as_raw_fd()),
            Watch::read(self.sign.as_raw_fd()),
        ];
        wait(self.clock, &mut watches, until)?;
        self.sign.drain();
        Ok(())
    }

    /// Tells the handle of a slot that began, grew, or ended before its time.
    fn update_link(&mut self) {
        let slot = self.element.slot();
        if slot == self.told {
            return;
        }
        let now = self.clock.now();
        let trc = slot.and_then(|slot| window(slot, self.rate));
        if let (Some(slot), Some(trc)) = (slot, trc) {
            self.count(slot);
            self.handle.follow(trc);
        } else if self.told.is_some_and(|told| now < told.till) {
            self.handle.follow(never(self.rate));
        }
        self.told = slot;
    }

    /// Tells who spreads connections who serves, and others whether we do.
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
        let from = self.told.map_or(slot.from, |told| told.till.min(slot.till));
        let had = slot.till.since(from.max(slot.from));
        self.handle.status().had_turn(self.element.counts(), had);
    }
}

/// Messages with proof that an element said them (HMAC-SHA-256).
struct ElementSocket {
    udp: Udp,
    members: Vec<SocketAddr>,
    key: hmac::Key,
    /// What the cluster is, so that no message of another one with the same secret is heard.
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

    /// The next message of another element that is there; what is not one is left out.
    fn receive(&mut self) -> io::Result<Option<ElementMessage>> {
        let mut buffer = [0; RECEIVED_MAX];
        for _ in 0..HEARD_MAX {
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

/// The vector of a slot.
fn window(slot: Slot, rate: Rate) -> Option<Trc> {
    let Slot { from, till } = slot;
    Trc::new(vec![Step { from, till, rate }]).ok()
}

/// A vector that is over.
fn never(rate: Rate) -> Trc {
    let (from, till) = (Instant::ZERO, Instant::from_nanos(1));
    Trc::new(vec![Step { from, till, rate }]).unwrap_or_else(|_| Trc::steady(rate))
}

/// ProxyListeners are open; they are about to be closed; and others are to have the address.
const OPEN: u8 = 0;
const CLOSING: u8 = 1;
const LEAVING: u8 = 2;
/// How long others and the kernel need to do what they were told, and connections that are being made to be there.
const GRACE: Duration = Duration::from_secs(1);
/// Octets of a secret, at least.
const SECRET_MIN: usize = 16;
/// Octets of SHA-256.
const PROOF_LEN: usize = 32;
/// No message has more octets.
const RECEIVED_MAX: usize = 256;
/// Messages that are heard before anything else is done.
const HEARD_MAX: usize = 256;
/// How often it is looked whether the handle still has something to send, in its slot.
const LOOK: Duration = Duration::from_millis(1);
/// Looks that must find nothing before the channel goes to others.
const IDLE_LOOKS: u32 = 2;
/// How long to wait after a failure, since the next may come at once.
const BREATH: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use lighthaul_proto::slabs::token::{Generation, MessageBody};

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

    const HERE: &str = "127.0.0.1:0";
    const SECRET: &str = "what only elements know";

    #[test]
    fn what_is_no_cluster_is_refused() {
        let config = |secret, members: &[&str]| settings(secret, members).config();
        assert_eq!(config(SECRET, &[HERE, "10.0.0.2:1"]), Ok(Config::new(2, 0)));
        assert!(config("short", &[HERE]).unwrap_err().contains("16"));
        let twice = config(SECRET, &[HERE, "10.0.0.2:1", "10.0.0.2:1"]);
        assert!(twice.unwrap_err().contains("twice"));
        let mut other = settings(SECRET, &[HERE]);
        other.listen = "10.0.0.3:1".parse().unwrap();
        assert!(other.config().unwrap_err().contains("not among"));
    }

    #[test]
    fn only_who_knows_the_secret_of_this_cluster_is_heard() {
        let socket = |secret, members: &[&str]| {
            let udp = Udp::bind(HERE.parse().unwrap()).unwrap();
            ElementSocket::new(&settings(secret, members), udp)
        };
        let words = ElementMessage {
            from: 1,
            to: 0,
            body: MessageBody::Propose {
                generation: Generation(256),
            },
        };
        let ours = socket(SECRET, &[HERE, "10.0.0.2:1"]);
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
            ours.open(&said(&socket("what others know", &[HERE, "10.0.0.2:1"]))),
            None
        );
        assert_eq!(
            ours.open(&said(&socket(SECRET, &[HERE, "10.0.0.3:1"]))),
            None
        );
        assert_eq!(ours.open(&[]), None);
    }
}
