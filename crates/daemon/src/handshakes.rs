//! Callers that shake hands: a thread each, few at a time, and not for long.
//!
//! They come from the porch, where they wait for a slot. Some places are for hosts that were let in lately, so that
//! strangers cannot keep them out; where the rest is full, a stranger that has taken a second makes room for another.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::host::wait::Sign;

/// Callers of all hosts.
pub(crate) const CALLERS_MAX: u64 = 128;
/// The part of places that only hosts get which are known.
const KEPT: usize = 4;
/// The part of places that one host gets that is not known; hosts behind one translator share it.
const HOST: usize = 8;
/// How long a caller may take to show its key, in all.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stranger is safe from another that wants its place; a handshake over a long path fits.
const SAFE: Duration = Duration::from_secs(1);

/// Callers that shake hands.
#[derive(Debug)]
pub(crate) struct Handshakes {
    callers: Mutex<Callers>,
    /// Raised when a place is free again.
    slot_freed: Sign,
}

#[derive(Debug)]
struct Callers {
    most: usize,
    /// By their number, so the first is the one that came first.
    here: BTreeMap<u64, Handshake>,
    next: u64,
}

#[derive(Debug)]
struct Handshake {
    places: [Prefix; 3],
    tcp: TcpStream,
    since: Instant,
    is_recent: bool,
}

/// A place in the handshakes, given up when this is dropped.
#[derive(Debug)]
pub(crate) struct HandshakeSlot {
    handshakes: Arc<Handshakes>,
    number: u64,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.handshakes.lock().here.remove(&self.number);
        self.handshakes.slot_freed.raise();
    }
}

impl Handshakes {
    /// Returns an empty handshakes with room for so many callers.
    pub(crate) fn start(most: u64) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            callers: Mutex::new(Callers {
                most: usize::try_from(most).unwrap_or(usize::MAX),
                here: BTreeMap::new(),
                next: 0,
            }),
            slot_freed: Sign::new()?,
        }))
    }

    /// Takes in a caller from `address`, if there is a slot, or a stranger that has had time enough.
    pub(crate) fn begin(
        self: &Arc<Self>,
        tcp: &TcpStream,
        address: IpAddr,
        is_recent: bool,
        now: Instant,
    ) -> Option<HandshakeSlot> {
        let caller = Handshake {
            places: Prefix::all(address),
            tcp: tcp.try_clone().ok()?,
            since: now,
            is_recent,
        };
        let mut callers = self.lock();
        if !callers.has_room(&caller) {
            let oldest = callers.evicted_by(&caller)?;
            let oldest = callers.here.remove(&oldest)?;
            oldest.tcp.shutdown(Shutdown::Both).ok();
        }
        let number = callers.next;
        callers.next += 1;
        callers.here.insert(number, caller);
        drop(callers);
        let handshakes = Arc::clone(self);
        Some(HandshakeSlot { handshakes, number })
    }

    /// Shows out whoever has been here for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        for caller in self.lock().here.values() {
            if now.since(caller.since) < PATIENCE {
                break;
            }
            caller.tcp.shutdown(Shutdown::Both).ok();
        }
    }

    /// Callers from the site of `address`.
    pub(crate) fn count(&self, address: IpAddr) -> usize {
        let [_, _, site] = Prefix::all(address);
        let callers = self.lock();
        let here = callers.here.values();
        here.filter(|caller| caller.places.contains(&site)).count()
    }

    /// Raised when a place is free again.
    pub(crate) const fn slot_freed(&self) -> &Sign {
        &self.slot_freed
    }

    fn lock(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Callers {
    fn has_room(&self, newcomer: &Handshake) -> bool {
        if newcomer.is_recent || self.here.len() >= self.most {
            return self.here.len() < self.most;
        }
        let strangers = || self.here.values().filter(|caller| !caller.is_recent);
        let host = newcomer.places[0];
        let of_host = strangers().filter(|caller| caller.places[0] == host);
        strangers().count() < self.most - self.most / KEPT && of_host.count() < self.host_max()
    }

    fn host_max(&self) -> usize {
        (self.most / HOST).max(1)
    }

    /// Whose place `newcomer` gets: the stranger that has been here longest and long enough, of its own host where
    /// that has as many as it may, else of the sites that have most.
    fn evicted_by(&self, newcomer: &Handshake) -> Option<u64> {
        let strangers = || self.here.iter().filter(|(_, caller)| !caller.is_recent);
        let is_of = |caller: &Handshake| caller.places[0] == newcomer.places[0];
        let of_host = || strangers().filter(|(_, caller)| is_of(caller));
        let oldest = if !newcomer.is_recent && of_host().count() >= self.host_max() {
            of_host().next()
        } else {
            let mut sites: BTreeMap<Prefix, usize> = BTreeMap::new();
            for (_, caller) in strangers() {
                *sites.entry(caller.places[2]).or_default() += 1;
            }
            let largest = sites.values().max()?;
            strangers().find(|(_, caller)| sites.get(&caller.places[2]) == Some(largest))
        };
        let (number, caller) = oldest?;
        let has_had_time = newcomer.since.since(caller.since) >= SAFE;
        (newcomer.is_recent || has_had_time).then_some(*number)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    const MOST: usize = CALLERS_MAX as usize;
    const HOST_MAX: usize = MOST / HOST;

    /// Both ends of a connection.
    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Returns whether the other end has neither said anything nor hung up.
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
    fn one_address_cannot_take_the_room_from_others() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, now| handshakes.begin(&tcp, address(last), false, at(now));
        let here: Vec<_> = (0..50).filter_map(|_| enter(1, 0)).collect();
        assert_eq!(here.len(), HOST_MAX);
        assert!(enter(2, 0).is_some());
        handshakes.slot_freed.lower();
        drop(here);
        assert!(
            handshakes.slot_freed.is_up() && enter(1, 0).is_some(),
            "who left has left"
        );
    }

    #[test]
    fn who_waited_longest_makes_room_and_notices() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (mut near, tcp) = pair();
        let (_other, more) = pair();
        let _first = handshakes.begin(&tcp, address(1), false, at(0)).unwrap();
        let enter = |now| handshakes.begin(&more, address(1), false, at(now));
        let _others: Vec<_> = (1..HOST_MAX).map(|_| enter(10).unwrap()).collect();
        assert!(enter(999).is_none());
        let _late = enter(1000).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 0, "the first was shown out");
        assert_eq!(handshakes.lock().here.len(), HOST_MAX);
    }

    #[test]
    fn strangers_have_a_bound_and_keep_no_known_host_out() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, is_recent| handshakes.begin(&tcp, address(last), is_recent, at(0));
        let mut here = Vec::new();
        here.extend((0..=255).filter_map(|last| enter(last, false)));
        assert_eq!(here.len(), MOST - MOST / KEPT);
        // first the places that are kept for them, then those of strangers
        for _ in 0..MOST {
            here.push(enter(7, true).unwrap());
        }
        assert_eq!(handshakes.lock().here.len(), MOST);
        assert!(enter(7, true).is_none() && enter(8, false).is_none());
        assert_eq!(handshakes.count(address(1)), MOST);
    }

    #[test]
    fn nobody_stays_for_ever() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let ((mut near, tcp), (mut other, more)) = (pair(), pair());
        let _old = handshakes.begin(&tcp, address(1), false, at(0)).unwrap();
        let _new = handshakes
            .begin(&more, address(1), false, at(5000))
            .unwrap();
        handshakes.sweep(at(10_000));
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert!(is_open(&other), "a caller that came later stays");
        handshakes.sweep(at(15_000));
        assert_eq!(other.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn caller_in_time_stays() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (near, tcp) = pair();
        let _place = handshakes.begin(&tcp, address(1), false, at(0)).unwrap();
        handshakes.sweep(at(9999));
        assert!(is_open(&near));
    }

    #[test]
    fn known_hosts_take_the_reserved_places_before_those_of_strangers() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, is_recent| {
            handshakes
                .begin(&tcp, address(last), is_recent, at(0))
                .unwrap()
        };
        let strangers: Vec<_> = (0..96).map(|last| enter(last, false)).collect();
        let known: Vec<_> = (0..32).map(|_| enter(7, true)).collect();
        let here = |slot: &HandshakeSlot| handshakes.lock().here.contains_key(&slot.number);
        assert!(strangers.iter().chain(&known).all(here));
        let _late = enter(7, true);
        assert!(!here(&strangers[0]) && strangers[1..].iter().all(here));
    }

    #[test]
    fn host_with_all_its_places_gets_one_of_its_own() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |last, millis| handshakes.begin(&tcp, address(last), false, at(millis));
        // others came before, from a host of the same site and from one of a larger site
        let mut others: Vec<_> = (0..15).map(|_| enter(2, 0).unwrap()).collect();
        let far = |_| handshakes.begin(&tcp, [10, 9, 0, 1].into(), false, at(0));
        others.extend((0..16).filter_map(far));
        let own: Vec<_> = (0..16).map(|_| enter(1, 10).unwrap()).collect();
        assert!(enter(1, 1009).is_none(), "its first has not had its second");
        let _late = enter(1, 1010).unwrap();
        let here = |slot: &HandshakeSlot| handshakes.lock().here.contains_key(&slot.number);
        assert!(!here(&own[0]) && own[1..].iter().chain(&others).all(here));
    }

    #[test]
    fn full_lobby_makes_room_at_the_largest_site() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |third: u8, last: u8, is_recent, millis| {
            let address = [10, 0, third, last].into();
            handshakes.begin(&tcp, address, is_recent, at(millis))
        };
        // sites of 16, 48 and 32 strangers, the largest neither first nor last, and known hosts in the reserved places
        let mut here = Vec::new();
        for (third, last) in [(1, 0), (3, 0), (2, 0), (2, 1), (2, 2), (3, 1)] {
            here.extend((0..16).filter_map(|_| enter(third, last, false, 0)));
        }
        here.extend((0..32).filter_map(|_| enter(1, 0, true, 0)));
        assert_eq!(here.len() as u64, CALLERS_MAX);
        let is_gone = |slot: &&HandshakeSlot| !handshakes.lock().here.contains_key(&slot.number);
        let gone = || -> Vec<u64> { here.iter().filter(is_gone).map(|p| p.number).collect() };
        let _known = enter(1, 0, true, 0).unwrap();
        assert_eq!(gone(), [32]);
        let _stranger = enter(4, 0, false, 1000).unwrap();
        assert_eq!(gone(), [32, 33]);
    }

    #[test]
    fn of_sites_of_one_size_the_stranger_that_came_first_makes_room() {
        let handshakes = Handshakes::start(CALLERS_MAX).unwrap();
        let (_near, tcp) = pair();
        let enter = |site: u8, millis| {
            handshakes
                .enter(&tcp, [10, site, 0, 1].into(), false, at(millis))
                .unwrap()
        };
        // the highest address comes in the middle of as many sites as there are places
        let first: Vec<_> = (0..48).map(|nth| enter(nth, 0)).collect();
        let high = enter(255, 1500);
        let rest: Vec<_> = (48..95).map(|nth| enter(nth, 1500)).collect();
        let here = |slot: &HandshakeSlot| handshakes.lock().here.contains_key(&slot.number);
        let _late: Vec<_> = (100..148).map(|nth| enter(nth, 2000)).collect();
        assert!(!first.iter().any(here) && here(&high) && rest.iter().all(here));
    }
}
