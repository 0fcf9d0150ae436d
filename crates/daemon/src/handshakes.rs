//! Connections in the TLS handshake: one thread each, limited in number and time.
//!
//! They come from the accept queue, where they wait for a slot. A part of the slots is reserved for recent hosts, and a
//! part for new hosts. Each host has a share. If the slots that it may use are full, a connection that has had a second
//! is closed for a new one.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::host::wait::Waker;
use lighthaul_io::net::tcp::round_trip;

/// Maximum number of connections in the handshake.
pub(crate) const HANDSHAKES_MAX: u64 = 128;
/// Divisor of the slots: one part is reserved for recent hosts, and one for new hosts.
const RESERVED_PART: usize = 4;
/// Divisor of the slots: one part is the share of one host. Hosts behind one address translator share it.
const HOST_PART: usize = 8;
/// Time for the whole handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time after which a connection of a new host may be closed for another; a handshake over a long path fits.
const KEEP_MAX: Duration = Duration::from_secs(1);
/// Time on a short path after which a connection may be closed for another, in addition to some round trips.
const KEEP_MIN: Duration = Duration::from_millis(250);
/// Number of round trips that are added to [`KEEP_MIN`], up to [`KEEP_MAX`].
const KEEP_ROUND_TRIPS: u32 = 4;

/// Connections in the TLS handshake.
#[derive(Debug)]
pub(crate) struct Handshakes {
    handshakes: Mutex<Running>,
    /// Raised when a slot is free again.
    slot_freed: Waker,
}

#[derive(Debug)]
struct Running {
    most: usize,
    /// Handshakes by number; a lower number began earlier.
    waiting: BTreeMap<u64, Handshake>,
    next: u64,
}

#[derive(Debug)]
struct Handshake {
    places: [Prefix; 3],
    tcp: TcpStream,
    since: Instant,
    /// Time during which the handshake is not closed for a handshake of a new host.
    keep: Duration,
    is_recent: bool,
}

/// Slot of one handshake, which is freed on drop.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    handshakes: Arc<Handshakes>,
    number: u64,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.lock().waiting.remove(&self.number);
        self.handshakes.slot_freed.raise();
    }
}

impl Handshakes {
    /// Creates `most` free slots.
    pub(crate) fn start(most: u64) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            handshakes: Mutex::new(Running {
                most: usize::try_from(most).unwrap_or(usize::MAX),
                waiting: BTreeMap::new(),
                next: 0,
            }),
            slot_freed: Waker::new()?,
        }))
    }

    /// Takes a slot for a connection from `address`, if one is free or can be freed.
    pub(crate) fn begin(
        self: &Arc<Self>,
        tcp: &TcpStream,
        address: IpAddr,
        is_recent: bool,
        now: Instant,
    ) -> Option<HandshakeSlot> {
        let handshake = Handshake {
            places: Prefix::all(address),
            tcp: tcp.try_clone().ok()?,
            since: now,
            keep: keep(round_trip(tcp)),
            is_recent,
        };
        let mut handshakes = self.lock();
        if !handshakes.has_room(&handshake) {
            let oldest = handshakes.evicted_by(&handshake)?;
            let oldest = handshakes.waiting.remove(&oldest)?;
            oldest.tcp.shutdown(Shutdown::Both).ok();
        }
        let number = handshakes.next;
        handshakes.next += 1;
        handshakes.waiting.insert(number, handshake);
        drop(handshakes);
        let handshakes = Arc::clone(self);
        Some(HandshakeSlot { handshakes, number })
    }

    /// Closes connections that exceed [`HANDSHAKE_TIMEOUT`].
    pub(crate) fn sweep(&self, now: Instant) {
        for handshake in self.lock().waiting.values() {
            if now.since(handshake.since) < HANDSHAKE_TIMEOUT {
                break;
            }
            handshake.tcp.shutdown(Shutdown::Both).ok();
        }
    }

    /// Returns the number of handshakes of each site that has any.
    pub(crate) fn sites(&self) -> BTreeMap<Prefix, usize> {
        let mut sites = BTreeMap::new();
        for handshake in self.lock().waiting.values() {
            *sites.entry(handshake.places[2]).or_default() += 1;
        }
        sites
    }

    /// Returns the waker that is raised when a slot is free again.
    pub(crate) const fn slot_freed(&self) -> &Waker {
        &self.slot_freed
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.handshakes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn has_room(&self, new: &Handshake) -> bool {
        self.waiting.len() < self.most
            && self.of_host(new).count() < self.host_max()
            && self.of_class(new.is_recent).count() < self.class_max()
    }

    /// Returns the limit of the handshakes of one host.
    fn host_max(&self) -> usize {
        (self.most / HOST_PART).max(1)
    }

    /// Returns the limit of the handshakes of recent hosts, which is also that of new hosts.
    fn class_max(&self) -> usize {
        self.most - self.most / RESERVED_PART
    }

    fn of_host(&self, new: &Handshake) -> impl Iterator<Item = (u64, &Handshake)> {
        let host = new.places[0];
        self.numbered()
            .filter(move |(_, handshake)| handshake.places[0] == host)
    }

    fn of_class(&self, is_recent: bool) -> impl Iterator<Item = (u64, &Handshake)> {
        self.numbered()
            .filter(move |(_, handshake)| handshake.is_recent == is_recent)
    }

    fn numbered(&self) -> impl Iterator<Item = (u64, &Handshake)> {
        self.waiting
            .iter()
            .map(|(number, handshake)| (*number, handshake))
    }

    /// Returns the handshake to close for `new`. If the host of `new` has its whole share, it is the oldest of that
    /// host. If the recent hosts have theirs, it is one of recent hosts, else of new hosts: the oldest of the largest
    /// sites. A handshake within its time is closed only for a recent host, and only if it is of a new host.
    fn evicted_by(&self, new: &Handshake) -> Option<u64> {
        let may_be_closed = |handshake: &Handshake| {
            let is_old = new.since.since(handshake.since) >= handshake.keep;
            is_old || new.is_recent && !handshake.is_recent
        };
        if self.of_host(new).count() >= self.host_max() {
            let (number, oldest) = self.of_host(new).next()?;
            let is_old = new.since.since(oldest.since) >= oldest.keep;
            return is_old.then_some(number);
        }
        let is_recent = new.is_recent && self.of_class(true).count() >= self.class_max();
        let mut sites: BTreeMap<Prefix, usize> = BTreeMap::new();
        for (_, handshake) in self.of_class(is_recent) {
            *sites.entry(handshake.places[2]).or_default() += 1;
        }
        let largest = sites.values().max()?;
        let (number, oldest) = self
            .of_class(is_recent)
            .find(|(_, handshake)| sites.get(&handshake.places[2]) == Some(largest))?;
        may_be_closed(oldest).then_some(number)
    }
}

/// Returns the time limit of a handshake over a path with the round-trip time `rtt`.
fn keep(rtt: Option<Duration>) -> Duration {
    rtt.map_or(KEEP_MAX, |rtt| {
        (KEEP_MIN + rtt * KEEP_ROUND_TRIPS).min(KEEP_MAX)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    const MOST: usize = HANDSHAKES_MAX as usize;
    const HOST_MAX: usize = MOST / HOST_PART;

    /// Returns both ends of a connection.
    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Returns true if the other end has neither sent data nor closed the connection.
    fn is_open(near: &TcpStream) -> bool {
        near.set_nonblocking(true).unwrap();
        let seen = near.peek(&mut [0]).map_err(|error| error.kind());
        near.set_nonblocking(false).unwrap();
        seen == Err(io::ErrorKind::WouldBlock)
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn one_address_cannot_take_all_slots() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, now| handshakes.begin(&tcp, address(last), false, at(now));
        let slots: Vec<_> = (0..50).filter_map(|_| enter(1, 0)).collect();
        assert_eq!(slots.len(), HOST_MAX);
        assert!(enter(2, 0).is_some());
        handshakes.slot_freed.lower();
        drop(slots);
        assert!(
            handshakes.slot_freed.is_up() && enter(1, 0).is_some(),
            "freed slots are available"
        );
    }

    #[test]
    fn oldest_handshake_is_closed_for_a_new_handshake() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (mut near, tcp) = pair();
        let (_other, more) = pair();
        let _first = handshakes.begin(&tcp, address(1), false, at(0)).unwrap();
        let enter = |now| handshakes.begin(&more, address(1), false, at(now));
        let _others: Vec<_> = (1..HOST_MAX).map(|_| enter(10).unwrap()).collect();
        assert!(enter(KEEP_MIN.as_millis() as u64).is_none());
        let _late = enter(1000).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 0, "the first was closed");
        assert_eq!(handshakes.lock().waiting.len(), HOST_MAX);
    }

    #[test]
    fn new_and_recent_hosts_have_a_part_of_the_slots_that_the_others_cannot_use() {
        const RESERVED: usize = MOST / RESERVED_PART;
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, is_recent| handshakes.begin(&tcp, address(last), is_recent, at(0));
        let mut slots = Vec::new();
        slots.extend((0..=255).filter_map(|last| enter(last, false)));
        assert_eq!(slots.len(), MOST - RESERVED);
        // first the reserved slots, then those of new hosts
        for last in 0..MOST - RESERVED {
            slots.push(enter(last as u8, true).unwrap());
        }
        assert!(enter(200, true).is_none() && enter(201, false).is_none());
        let lock = handshakes.lock();
        let [recent, new] = [true, false].map(|is_recent| lock.of_class(is_recent).count());
        assert_eq!((recent, new), (MOST - RESERVED, RESERVED));
        drop(lock);
        let site = Prefix::all(address(1))[2];
        assert_eq!(handshakes.sites(), BTreeMap::from([(site, MOST)]));
    }

    #[test]
    fn recent_host_with_its_whole_share_replaces_its_own_oldest_handshake() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter =
            |last, is_recent, now| handshakes.begin(&tcp, address(last), is_recent, at(now));
        let new_hosts: Vec<_> = (10..20)
            .map(|last| enter(last, false, 0).unwrap())
            .collect();
        let own: Vec<_> = (0..MOST).filter_map(|_| enter(7, true, 0)).collect();
        assert_eq!(own.len(), HOST_MAX);
        // neither a new host nor another recent host waits for it
        let others = [enter(20, false, 0).unwrap(), enter(8, true, 0).unwrap()];
        let _late = enter(7, true, 1000).unwrap();
        let is_open = |slot: &HandshakeSlot| handshakes.lock().waiting.contains_key(&slot.number);
        assert!(!is_open(&own[0]) && own[1..].iter().all(is_open));
        assert!(new_hosts.iter().chain(&others).all(is_open));
    }

    #[test]
    fn recent_hosts_with_their_whole_part_replace_the_oldest_of_their_largest_site() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |site: u8, host: u8, now| {
            let address = [10, site, 0, host].into();
            handshakes.begin(&tcp, address, true, at(now))
        };
        let first = enter(0, 0, 0).unwrap();
        let mut slots = Vec::new();
        for host in 0..5 {
            slots.extend((0..16).filter_map(|_| enter(1, host, 0)));
        }
        slots.extend((0..15).filter_map(|_| enter(2, 0, 0)));
        assert_eq!(slots.len(), MOST - MOST / RESERVED_PART - 1);
        assert!(enter(3, 0, 0).is_none(), "all are within their time");
        let _late = enter(3, 0, 1000).unwrap();
        let is_open = |slot: &HandshakeSlot| handshakes.lock().waiting.contains_key(&slot.number);
        assert!(is_open(&first) && !is_open(&slots[0]) && slots[1..].iter().all(is_open));
    }

    #[test]
    fn handshake_over_a_long_path_is_kept_longer() {
        let millis = Duration::from_millis;
        assert_eq!(keep(Some(millis(50))), millis(450));
        assert_eq!(keep(Some(millis(600))), KEEP_MAX);
        assert_eq!(keep(None), KEEP_MAX);
    }

    #[test]
    fn handshakes_time_out() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let ((mut near, tcp), (mut other, more)) = (pair(), pair());
        let _old = handshakes.begin(&tcp, address(1), false, at(0)).unwrap();
        let _new = handshakes
            .begin(&more, address(1), false, at(5000))
            .unwrap();
        handshakes.sweep(at(10_000));
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert!(is_open(&other), "a later connection stays open");
        handshakes.sweep(at(15_000));
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn handshake_within_its_time_stays_open() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (near, tcp) = pair();
        let _place = handshakes.begin(&tcp, address(1), false, at(0)).unwrap();
        handshakes.sweep(at(9999));
        assert!(is_open(&near));
    }

    #[test]
    fn recent_hosts_take_the_reserved_slots_first() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, is_recent| {
            handshakes
                .begin(&tcp, address(last), is_recent, at(0))
                .unwrap()
        };
        let new_hosts: Vec<_> = (0..96).map(|last| enter(last, false)).collect();
        let known: Vec<_> = (0..32).map(|last| enter(200 + last / 16, true)).collect();
        let is_open = |slot: &HandshakeSlot| handshakes.lock().waiting.contains_key(&slot.number);
        assert!(new_hosts.iter().chain(&known).all(is_open));
        let _late = enter(99, true);
        assert!(!is_open(&new_hosts[0]) && new_hosts[1..].iter().all(is_open));
    }

    #[test]
    fn host_with_its_whole_share_replaces_one_of_its_handshakes() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, millis| handshakes.begin(&tcp, address(last), false, at(millis));
        // earlier handshakes, from a host of the same site and from one of a larger site
        let mut others: Vec<_> = (0..15).map(|_| enter(2, 0).unwrap()).collect();
        let far = |_| handshakes.begin(&tcp, [10, 9, 0, 1].into(), false, at(0));
        others.extend((0..16).filter_map(far));
        let own: Vec<_> = (0..16).map(|_| enter(1, 10).unwrap()).collect();
        assert!(enter(1, 259).is_none(), "the first has not had its time");
        let _late = enter(1, 1010).unwrap();
        let is_open = |slot: &HandshakeSlot| handshakes.lock().waiting.contains_key(&slot.number);
        assert!(!is_open(&own[0]) && own[1..].iter().chain(&others).all(is_open));
    }

    #[test]
    fn full_slots_are_freed_at_the_largest_site() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |third: u8, last: u8, is_recent, millis| {
            let address = [10, 0, third, last].into();
            handshakes.begin(&tcp, address, is_recent, at(millis))
        };
        // sites with 16, 48 and 32 new hosts, the largest neither first nor last, and recent hosts in the reserved
        // slots
        let mut slots = Vec::new();
        for (third, last) in [(1, 0), (3, 0), (2, 0), (2, 1), (2, 2), (3, 1)] {
            slots.extend((0..16).filter_map(|_| enter(third, last, false, 0)));
        }
        slots.extend((0..32).filter_map(|nth| enter(1, 100 + nth, true, 0)));
        assert_eq!(slots.len() as u64, HANDSHAKES_MAX);
        let is_gone = |slot: &&HandshakeSlot| !handshakes.lock().waiting.contains_key(&slot.number);
        let gone = || -> Vec<u64> { slots.iter().filter(is_gone).map(|p| p.number).collect() };
        let _known = enter(1, 99, true, 0).unwrap();
        assert_eq!(gone(), [32]);
        let _stranger = enter(4, 0, false, 1000).unwrap();
        assert_eq!(gone(), [32, 33]);
    }

    #[test]
    fn oldest_handshake_is_closed_among_sites_of_equal_size() {
        let handshakes = Handshakes::start(HANDSHAKES_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |site: u8, millis| {
            handshakes
                .begin(&tcp, [10, site, 0, 1].into(), false, at(millis))
                .unwrap()
        };
        // the highest address comes in the middle of as many sites as there are slots
        let first: Vec<_> = (0..48).map(|nth| enter(nth, 0)).collect();
        let high = enter(255, 1500);
        let rest: Vec<_> = (48..95).map(|nth| enter(nth, 1500)).collect();
        let is_open = |slot: &HandshakeSlot| handshakes.lock().waiting.contains_key(&slot.number);
        let _late: Vec<_> = (100..148).map(|nth| enter(nth, 2000)).collect();
        assert!(!first.iter().any(is_open) && is_open(&high) && rest.iter().all(is_open));
    }
}
