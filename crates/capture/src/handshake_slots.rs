//! Connections in the TLS handshake: limited in number, in number for each host, and in time. A part of the slots is
//! left to hosts of neighbors: those of the configuration, and those that have shown a pinned key lately.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;

/// Connections in the handshake.
#[derive(Debug, Default)]
pub struct HandshakeSlots {
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    /// Handshakes by number; a lower number began earlier.
    handshakes: BTreeMap<u64, Handshake>,
    next: u64,
    /// Hosts of neighbors in the configuration.
    configured: BTreeSet<Prefix>,
    /// Hosts that have shown a pinned key, with the times.
    recent: BTreeMap<Prefix, Instant>,
}

#[derive(Debug)]
struct Handshake {
    tcp: TcpStream,
    host: Prefix,
    is_neighbor: bool,
    since: Instant,
}

/// Slot of one handshake, which is freed on drop.
#[derive(Debug)]
pub struct HandshakeSlot {
    slots: Arc<HandshakeSlots>,
    number: u64,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.slots.running().handshakes.remove(&self.number);
    }
}

impl HandshakeSlot {
    /// Records that the host of the connection has shown a pinned key.
    pub fn recognize(&self) {
        let mut running = self.slots.running();
        let Some(handshake) = running.handshakes.get(&self.number) else {
            return;
        };
        let (host, since) = (handshake.host, handshake.since);
        running.recent.insert(host, since);
        if running.recent.len() > RECENT_MAX {
            let oldest = running.recent.iter().min_by_key(|(_, at)| **at);
            if let Some(oldest) = oldest.map(|(host, _)| *host) {
                running.recent.remove(&oldest);
            }
        }
    }
}

impl HandshakeSlots {
    /// Creates slots, of which a part is left to `neighbors`.
    pub fn new(neighbors: impl Iterator<Item = IpAddr>) -> Self {
        Self {
            running: Mutex::new(Running {
                configured: neighbors.map(Prefix::host).collect(),
                ..Running::default()
            }),
        }
    }

    /// Takes a slot, if one is free or if the oldest handshake has exceeded its time. A neighbor need not wait for
    /// strangers.
    pub fn begin(
        self: &Arc<Self>,
        tcp: &TcpStream,
        address: IpAddr,
        now: Instant,
    ) -> Option<HandshakeSlot> {
        let tcp = tcp.try_clone().ok()?;
        let host = Prefix::host(address);
        let mut running = self.running();
        let is_neighbor = running.knows(host, now);
        if !running.has_room(host, is_neighbor) {
            let victim = running.victim(host, is_neighbor)?;
            let oldest = running.handshakes.get(&victim)?;
            let yields = is_neighbor && !oldest.is_neighbor;
            if now.since(oldest.since) < KEEP && !yields {
                return None;
            }
            oldest.tcp.shutdown(Shutdown::Both).ok();
            running.handshakes.remove(&victim);
        }
        let number = running.next;
        running.next += 1;
        let handshake = Handshake {
            tcp,
            host,
            is_neighbor,
            since: now,
        };
        running.handshakes.insert(number, handshake);
        drop(running);
        let slots = Arc::clone(self);
        Some(HandshakeSlot { slots, number })
    }

    /// Closes connections whose handshake takes too long, or all of them.
    pub fn sweep(&self, now: Instant, all: bool) {
        for handshake in self.running().handshakes.values() {
            if all || now.since(handshake.since) >= TIMEOUT {
                handshake.tcp.shutdown(Shutdown::Both).ok();
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn knows(&self, host: Prefix, now: Instant) -> bool {
        let is_recent = |at: &Instant| now.since(*at) < RECENT;
        self.configured.contains(&host) || self.recent.get(&host).is_some_and(is_recent)
    }

    fn has_room(&self, host: Prefix, is_neighbor: bool) -> bool {
        let is_full = self.handshakes.len() >= HANDSHAKES_MAX;
        let strangers = self.handshakes.values().filter(|one| !one.is_neighbor);
        let is_part_full = !is_neighbor && strangers.count() >= HANDSHAKES_MAX - RESERVED;
        !is_full && !is_part_full && !self.has_share(host)
    }

    /// Returns the oldest handshake that may be closed for one of `host`: of the host itself if it has its whole share,
    /// else of strangers. Neighbors follow only for a neighbor.
    fn victim(&self, host: Prefix, is_neighbor: bool) -> Option<u64> {
        let oldest = |is_meant: &dyn Fn(&Handshake) -> bool| {
            let mut all = self.handshakes.iter();
            all.find(|(_, one)| is_meant(one))
                .map(|(number, _)| *number)
        };
        if self.has_share(host) {
            return oldest(&|one| one.host == host);
        }
        oldest(&|one| !one.is_neighbor).or_else(|| oldest(&|_| is_neighbor))
    }

    /// Reports whether `host` has as many handshakes as one host may have.
    fn has_share(&self, host: Prefix) -> bool {
        let of_host = self.handshakes.values().filter(|one| one.host == host);
        of_host.count() >= ADDRESS_MAX
    }
}

/// Maximum number of connections in the handshake.
const HANDSHAKES_MAX: usize = 32;
/// Slots that are left to neighbors.
const RESERVED: usize = 8;
/// Hosts that have shown a pinned key.
const RECENT_MAX: usize = 256;
/// Time for which such a host counts as that of a neighbor.
const RECENT: Duration = Duration::from_hours(24);
/// Maximum number of handshakes from one host: an IPv4 address, or an IPv6 /64.
const ADDRESS_MAX: usize = 8;
/// Time after which a handshake may be closed for a new handshake.
const KEEP: Duration = Duration::from_secs(1);
/// Time for the whole handshake.
const TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::io::Read;

    use lighthaul_io::net::tcp;

    use super::*;

    /// Returns both ends of a connection.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = tcp::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let near = tcp::connect("127.0.0.1", port).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn slots_are_limited_for_each_address_and_in_total() {
        let slots = Arc::new(HandshakeSlots::default());
        let (_near, tcp) = pair();
        let begin = |last: u8, now| slots.begin(&tcp, IpAddr::from([10, 0, 0, last]), at(now));
        let of_one: Vec<_> = (0..20).filter_map(|_| begin(1, 0)).collect();
        assert_eq!(of_one.len(), ADDRESS_MAX);
        let others: Vec<_> = (2..100).filter_map(|last| begin(last, 0)).collect();
        assert_eq!(of_one.len() + others.len(), HANDSHAKES_MAX - RESERVED);
        assert!(begin(200, 999).is_none());
        drop(of_one);
        assert!(begin(200, 999).is_some());
        drop(others);
    }

    #[test]
    fn strangers_take_no_slots_of_neighbors() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let slots = Arc::new(HandshakeSlots::new([address(250)].into_iter()));
        let (_near, tcp) = pair();
        let begin = |last: u8, now| slots.begin(&tcp, address(last), at(now));
        let is_open = |slot: &HandshakeSlot| slots.running().handshakes.contains_key(&slot.number);
        // one of them shows a pinned key, in its only handshake
        begin(251, 0).unwrap().recognize();
        let strangers: Vec<_> = (0..99).filter_map(|nth| begin(nth / 8, 0)).collect();
        assert_eq!(strangers.len(), HANDSHAKES_MAX - RESERVED);
        let neighbors: Vec<_> = [250, 251]
            .into_iter()
            .flat_map(|last| (0..RESERVED).map(move |_| last))
            .map(|last| begin(last, 0).unwrap())
            .collect();
        // the reserved slots, then those of the oldest strangers
        let open = strangers.iter().filter(|slot| is_open(slot)).count();
        assert_eq!(open, HANDSHAKES_MAX - 2 * RESERVED);
        assert!(neighbors.iter().all(is_open));
        assert!(begin(250, 0).is_none(), "its share is used up");
        assert!(begin(200, 999).is_none(), "strangers wait for strangers");
        let _late = begin(200, 1000).unwrap();
        assert!(neighbors.iter().all(is_open));
        let later = 24 * 3600 * 1000;
        assert!(
            slots
                .running()
                .knows(Prefix::host(address(251)), at(later - 1))
        );
        assert!(!slots.running().knows(Prefix::host(address(251)), at(later)));
    }

    #[test]
    fn ipv6_addresses_of_one_host_share_its_slots() {
        let slots = Arc::new(HandshakeSlots::default());
        let (_near, tcp) = pair();
        let address = |net: u16, host: u16| IpAddr::from([0x2001, 0xdb8, 0, net, 0, 0, 0, host]);
        let begin = |net, host| slots.begin(&tcp, address(net, host), at(0));
        let of_one: Vec<_> = (0..20).filter_map(|host| begin(1, host)).collect();
        assert_eq!(of_one.len(), ADDRESS_MAX);
        assert!(begin(2, 1).is_some());
        drop(of_one);
    }

    #[test]
    fn oldest_handshake_is_closed_for_a_new_handshake_and_slow_handshakes_end() {
        let slots = Arc::new(HandshakeSlots::default());
        let ((mut near, tcp), (mut other, more)) = (pair(), pair());
        let address = IpAddr::from([10, 0, 0, 1]);
        let _first = slots.begin(&tcp, address, at(0)).unwrap();
        let _rest: Vec<_> = (1..ADDRESS_MAX)
            .map(|_| slots.begin(&more, address, at(1)).unwrap())
            .collect();
        let _new = slots.begin(&more, address, at(1000)).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 0, "the first was closed");
        other.set_nonblocking(true).unwrap();
        slots.sweep(at(10_000), false);
        let early = other.read(&mut [0]).unwrap_err();
        assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
        other.set_nonblocking(false).unwrap();
        slots.sweep(at(10_001), false);
        assert_eq!(other.read(&mut [0]).unwrap(), 0, "the rest was closed");
    }

    #[test]
    fn all_handshakes_end_with_the_transport() {
        let slots = Arc::new(HandshakeSlots::default());
        let (mut near, tcp) = pair();
        let _slot = slots.begin(&tcp, IpAddr::from([10, 0, 0, 1]), at(0));
        slots.sweep(at(0), true);
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn hosts_with_a_pinned_key_are_limited_and_the_oldest_is_forgotten() {
        let slots = Arc::new(HandshakeSlots::default());
        let (_near, tcp) = pair();
        let address = |nth: u64| IpAddr::from([10, 0, (nth / 256) as u8, (nth % 256) as u8]);
        let recognize = |nth: u64, now| {
            let slot = slots.begin(&tcp, address(nth), at(now)).unwrap();
            slot.recognize();
        };
        let knows = |nth: u64| slots.running().knows(Prefix::host(address(nth)), at(9999));
        (0..256).for_each(|nth| recognize(nth, 1000 - nth));
        assert!((0..256).all(knows));
        recognize(256, 2000);
        assert!(!knows(255));
        assert!((0..255).chain([256]).all(knows));
        // a host that is known already takes no other place
        recognize(3, 3000);
        assert!((0..255).chain([256]).all(knows));
        assert!(slots.running().handshakes.is_empty());
    }
}
