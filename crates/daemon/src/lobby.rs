//! Callers whose key has not been judged yet: few at a time, and not for long.
//!
//! Nobody there has been let in, so whoever would take the room from others loses it: where it is full,
//! the caller that has waited longest goes. Sessions are not counted here and do not notice.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;

/// Callers of one address; hosts behind one translator share it.
const ADDRESS_MAX: usize = 16;
/// Callers of all addresses.
const CALLERS_MAX: usize = 128;
/// How long a caller may take to show its key, in all.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a caller is safe from others that want its place; a handshake over a long path fits.
const SAFE: Duration = Duration::from_secs(1);

/// Callers whose key has not been judged yet.
#[derive(Debug, Default)]
pub(crate) struct Lobby {
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    /// By their number, so the first is the one that came first.
    here: BTreeMap<u64, Caller>,
    next: u64,
}

#[derive(Debug)]
struct Caller {
    group: IpAddr,
    tcp: TcpStream,
    since: Instant,
}

/// A place in the lobby, given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lobby: Arc<Lobby>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lobby.lock().here.remove(&self.number);
    }
}

impl Lobby {
    /// Takes in a caller, if there is room or somebody who has waited long enough to lose theirs.
    pub(crate) fn enter(
        self: &Arc<Self>,
        tcp: &TcpStream,
        from: SocketAddr,
        now: Instant,
    ) -> Option<Place> {
        let tcp = tcp.try_clone().ok()?;
        let group = group(from.ip());
        let mut callers = self.lock();
        if let Some(oldest) = callers.in_the_way(group) {
            if now.since(callers.here.get(&oldest)?.since) < SAFE {
                return None;
            }
            let oldest = callers.here.remove(&oldest)?;
            oldest.tcp.shutdown(Shutdown::Both).ok();
        }
        let number = callers.next;
        callers.next += 1;
        let since = now;
        callers.here.insert(number, Caller { group, tcp, since });
        drop(callers);
        let lobby = Arc::clone(self);
        Some(Place { lobby, number })
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

    fn lock(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Callers {
    /// Whose place a caller of `group` would need: the oldest of its own group, or of all.
    fn in_the_way(&self, group: IpAddr) -> Option<u64> {
        let mut own = self.here.iter().filter(|(_, caller)| caller.group == group);
        let oldest = own.next().map(|(number, _)| *number);
        if oldest.is_some() && 1 + own.count() >= ADDRESS_MAX {
            return oldest;
        }
        let first = self.here.keys().next().copied();
        first.filter(|_| self.here.len() >= CALLERS_MAX)
    }
}

/// Addresses that one caller can have many of count as one: an IPv6 network of 64 bits.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Both ends of a connection.
    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 1))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn one_address_cannot_take_the_room_from_others() {
        let lobby = Arc::new(Lobby::default());
        let (_near, tcp) = pair();
        let enter = |last, now| lobby.enter(&tcp, address(last), at(now));
        let here: Vec<_> = (0..50).filter_map(|_| enter(1, 0)).collect();
        assert_eq!(here.len(), ADDRESS_MAX);
        assert!(enter(2, 0).is_some());
        drop(here);
        assert!(enter(1, 0).is_some(), "who left has left");
    }

    #[test]
    fn who_waited_longest_makes_room_and_notices() {
        let lobby = Arc::new(Lobby::default());
        let (mut near, tcp) = pair();
        let (_other, more) = pair();
        let _first = lobby.enter(&tcp, address(1), at(0)).unwrap();
        let _others: Vec<_> = (1..ADDRESS_MAX)
            .map(|_| lobby.enter(&more, address(1), at(10)).unwrap())
            .collect();
        assert!(lobby.enter(&more, address(1), at(999)).is_none());
        let _late = lobby.enter(&more, address(1), at(1000)).unwrap();
        assert_eq!(near.read(&mut [0]).unwrap(), 0, "the first was shown out");
        assert_eq!(lobby.lock().here.len(), ADDRESS_MAX);
    }

    #[test]
    fn all_addresses_together_have_a_bound() {
        let lobby = Arc::new(Lobby::default());
        let (_near, tcp) = pair();
        let here: Vec<_> = (0..=255)
            .filter_map(|last| lobby.enter(&tcp, address(last), at(0)))
            .collect();
        assert_eq!(here.len(), CALLERS_MAX);
        drop(here);
    }

    #[test]
    fn nobody_stays_for_ever() {
        let lobby = Arc::new(Lobby::default());
        let ((mut near, tcp), (_other, more)) = (pair(), pair());
        let _old = lobby.enter(&tcp, address(1), at(0)).unwrap();
        let _new = lobby.enter(&more, address(1), at(5000)).unwrap();
        lobby.sweep(at(10_000));
        assert_eq!(near.read(&mut [0]).unwrap(), 0);
        assert!(more.peer_addr().is_ok(), "who came later may stay");
    }

    #[test]
    fn addresses_of_one_network_are_one_caller() {
        let of = |text: &str| group(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
