//! Thread that takes connections of neighbors. Each handshake has a short-lived thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use lighthaul_capture::handshake_slots::HandshakeSlots;
use lighthaul_capture::target::Host;
use lighthaul_io::control::Control;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::crypto::tls::{self, Side};
use lighthaul_io::error::Error;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::{Waker, Watch, pause, wait};
use lighthaul_io::net::tcp;
use lighthaul_stargate::DomainId;
use tracing::{debug, warn};

use crate::endpoints::Identification;
use crate::link::Link;
use crate::link_fault::LinkFault;
use lighthaul_io::host::wall_clock::wall_now;

/// Listening socket and the links that it serves.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) clock: Clock,
    pub(crate) known: Arc<Identification>,
    pub(crate) links: Arc<BTreeMap<DomainId, Arc<Link>>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) stopped: Waker,
}

impl Listener {
    /// Takes connections until the transport stops.
    pub(crate) fn run(self) {
        let addresses = self.known.neighbors.values().filter_map(|neighbor| {
            match neighbor.address.as_ref()?.host {
                Host::Ip(ip) => Some(ip),
                Host::Name(_) => None,
            }
        });
        let slots = Arc::new(HandshakeSlots::new(addresses));
        let refused = Arc::new(RefusedKeys::default());
        while !self.stop.load(Ordering::Acquire) {
            let now = self.clock.now();
            slots.sweep(now, false);
            let mut watches = [
                Watch::read(self.socket.as_raw_fd()),
                Watch::read(self.stopped.as_raw_fd()),
            ];
            if let Err(error) = wait(self.clock, &mut watches, now + SWEEP) {
                warn!(%error, "cannot wait for connections of neighbors");
                pause(PAUSE);
            }
            if watches[0].readable {
                self.take(&slots, &refused);
            }
        }
        slots.sweep(self.clock.now(), true);
    }

    fn take(&self, slots: &Arc<HandshakeSlots>, refused: &Arc<RefusedKeys>) {
        let (tcp, address) = match self.socket.accept() {
            Ok(taken) => taken,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(error) => {
                warn!(%error, "cannot accept a connection of a neighbor; check the limit of open files");
                pause(PAUSE);
                return;
            }
        };
        let Some(slot) = slots.begin(&tcp, address.ip(), self.clock.now()) else {
            debug!(%address, "no slot is free for a handshake");
            return;
        };
        let (known, links) = (Arc::clone(&self.known), Arc::clone(&self.links));
        let refused = Arc::clone(refused);
        let started = thread::Builder::new()
            .name("handshake".into())
            .spawn(move || {
                if greet(tcp, address, &known, (&links, &refused)) {
                    slot.recognize();
                }
            });
        if let Err(error) = started {
            warn!(%error, "cannot start a thread for a handshake; check the limit of threads");
        }
    }
}

/// Authenticates a connection and takes it into use. A stranger gets nothing but the end of the connection. Returns true
/// for a neighbor.
fn greet(
    tcp: TcpStream,
    address: SocketAddr,
    known: &Identification,
    (links, refused): (&BTreeMap<DomainId, Arc<Link>>, &RefusedKeys),
) -> bool {
    let (control, domain) = match authenticate(tcp, address, known) {
        Ok(neighbor) => neighbor,
        Err(RejectReason::Handshake(why)) => {
            debug!(%address, %why, "the handshake of a connection failed");
            return false;
        }
        Err(RejectReason::Key(key, fault)) => {
            if refused.is_new(key) {
                warn!("{fault}");
            }
            if let LinkFault::Expired { domain } = *fault
                && let Some(link) = links.get(&DomainId(domain))
            {
                link.note(*fault);
            }
            return false;
        }
    };
    if links
        .get(&domain)
        .is_none_or(|link| !link.offer(&control, domain))
    {
        debug!(domain = domain.0, "another connection is kept");
    }
    true
}

/// Reason for which a connection belongs to no neighbor.
enum RejectReason {
    Handshake(Error),
    Key(Fingerprint, Box<LinkFault>),
}

fn authenticate(
    tcp: TcpStream,
    address: SocketAddr,
    known: &Identification,
) -> Result<(Control, DomainId), RejectReason> {
    let set_up = |why| RejectReason::Handshake(Error::world("cannot set up the connection", why));
    tcp.set_nonblocking(false).map_err(set_up)?;
    let mut tcp = tcp::with_handshake_timeouts(tcp).map_err(RejectReason::Handshake)?;
    let tls = tls::handshake(&mut tcp, Side::Server, &known.identity);
    let tls = tls.map_err(RejectReason::Handshake)?;
    let key = tls::peer(&tls).map_err(RejectReason::Handshake)?;
    let domain = known.neighbor_of(key, &address.to_string(), wall_now());
    let domain = domain.map_err(|fault| RejectReason::Key(key, Box::new(fault)))?;
    let control = Control::start(tcp, tls).map_err(RejectReason::Handshake)?;
    Ok((control, domain))
}

/// Keys that were refused. The log names each of them once, and no more than [`REFUSED_MAX`].
#[derive(Debug, Default)]
struct RefusedKeys(Mutex<BTreeSet<Fingerprint>>);

impl RefusedKeys {
    fn is_new(&self, key: Fingerprint) -> bool {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.len() < REFUSED_MAX && keys.insert(key)
    }
}

/// Time between two checks of slow handshakes.
const SWEEP: Duration = Duration::from_secs(1);
/// Time before the next attempt after a fault of this host.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of refused keys that the log names.
const REFUSED_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_names_each_refused_key_once_up_to_a_limit() {
        let refused = RefusedKeys::default();
        let key = |octet: u8| Fingerprint::from_octets([octet; 32]);
        for octet in 0..64 {
            assert!(refused.is_new(key(octet)), "{octet}");
            assert!(!refused.is_new(key(octet)), "{octet}");
        }
        assert!(!refused.is_new(key(64)));
    }
}
