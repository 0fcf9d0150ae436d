//! Connections in the TLS handshake: limited in number, in number for each host, and in time.

use std::collections::BTreeMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;

/// Connections in the handshake.
#[derive(Debug, Default)]
pub(super) struct HandshakeSlots {
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    /// Handshakes by number; a lower number began earlier.
    handshakes: BTreeMap<u64, Handshake>,
    next: u64,
}

#[derive(Debug)]
struct Handshake {
    tcp: TcpStream,
    host: Prefix,
    since: Instant,
}

/// Slot of one handshake, which is freed on drop.
#[derive(Debug)]
pub(super) struct HandshakeSlot {
    slots: Arc<HandshakeSlots>,
    number: u64,
}

impl Drop for HandshakeSlot {
    fn drop(&mut self) {
        self.slots.running().handshakes.remove(&self.number);
    }
}

impl HandshakeSlots {
    /// Takes a slot, if one is free or if the oldest handshake has exceeded its time.
    pub(super) fn begin(
        self: &Arc<Self>,
        tcp: &TcpStream,
        address: IpAddr,
        now: Instant,
    ) -> Option<HandshakeSlot> {
        let tcp = tcp.try_clone().ok()?;
        let host = Prefix::host(address);
        let mut running = self.running();
        let of_host = running
            .handshakes
            .iter()
            .filter(|(_, one)| one.host == host);
        let victim = if of_host.clone().count() >= ADDRESS_MAX {
            Some(of_host.map(|(number, _)| *number).next())
        } else if running.handshakes.len() >= HANDSHAKES_MAX {
            Some(running.handshakes.keys().next().copied())
        } else {
            None
        };
        if let Some(victim) = victim {
            let victim = victim?;
            let oldest = running.handshakes.get(&victim)?;
            if now.since(oldest.since) < KEEP {
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
            since: now,
        };
        running.handshakes.insert(number, handshake);
        drop(running);
        let slots = Arc::clone(self);
        Some(HandshakeSlot { slots, number })
    }

    /// Closes connections whose handshake takes too long, or all of them.
    pub(super) fn sweep(&self, now: Instant, all: bool) {
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

/// Maximum number of connections in the handshake.
const HANDSHAKES_MAX: usize = 32;
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
        assert_eq!(of_one.len() + others.len(), HANDSHAKES_MAX);
        assert!(begin(200, 999).is_none());
        drop(of_one);
        assert!(begin(200, 999).is_some());
        drop(others);
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
        slots.sweep(at(10_001), false);
        assert_eq!(other.read(&mut [0]).unwrap(), 0, "the rest was closed");
    }
}
