//! Connections that have not sent a whole `ClientHello`, all on one thread.
//!
//! ```text
//! accept -> silent -> whole ClientHello -> free handshake slot -> thread and TLS
//! ```
//!
//! Until then a connection costs a descriptor and a few words of memory. If the queue is full, the oldest silent
//! connection of the largest site is closed. Recent hosts ([`RecentHosts`]) are evicted after all others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::host::poller::{Poller, Ready};
use lighthaul_io::net::tcp;

use crate::client_hello::ClientHello;
use crate::handshakes::{HandshakeSlot, Handshakes};
use crate::recent_hosts::RecentHosts;
use crate::site_index::SiteIndex;

/// Maximum number of connections in the queue.
pub(crate) const CONNECTIONS_MAX: u64 = 2048;
/// Maximum number of connections of one host. Hosts behind one address translator count as one.
const HOST_MAX: usize = 256;
/// Time until a connection must have sent its `ClientHello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections that are accepted without a pause.
const ACCEPTS_MAX: usize = 256;
/// Maximum number of connections that try to get a handshake slot in one turn.
const STARTS_MAX: usize = 64;
/// Poller tokens of the listener and of the freed handshake slots; connections have higher tokens.
const LISTENER: u64 = 0;
const SLOT_FREED: u64 = 1;

/// Queue between `accept` and the TLS handshake.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    poller: Poller,
    handshakes: Arc<Handshakes>,
    recent_hosts: Arc<RecentHosts>,
    /// Connections by number; a lower number came earlier.
    waiting: BTreeMap<u64, Pending>,
    next: u64,
    most: usize,
    /// Connections by class ([`Pending::class`]); a lower class is evicted first.
    sites: [SiteIndex; 4],
    hosts: SiteIndex,
    /// Connections whose `ClientHello` is whole.
    ready: BTreeSet<u64>,
    /// Closed connections since the last call of [`AcceptQueue::dropped`].
    dropped: Dropped,
}

#[derive(Debug)]
struct Pending {
    tcp: TcpStream,
    from: SocketAddr,
    since: Instant,
    is_recent: bool,
    is_ready: bool,
}

/// Numbers of connections that were closed before their handshake, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Closed to make room for others.
    pub(crate) evicted: u64,
    /// Closed because no `ClientHello` came in time, or because other data came.
    pub(crate) invalid: u64,
}

/// Connection with a whole `ClientHello` and a handshake slot.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) tcp: TcpStream,
    pub(crate) from: SocketAddr,
    pub(crate) slot: HandshakeSlot,
}

impl Pending {
    fn site(&self) -> Prefix {
        Prefix::all(self.from.ip())[2]
    }

    /// Eviction class: silent connections leave first, recent hosts with a `ClientHello` last.
    const fn class(&self) -> usize {
        self.is_ready as usize + 2 * self.is_recent as usize
    }
}

impl AcceptQueue {
    /// Creates an empty queue for `listener`, with room for at most `most` connections.
    pub(crate) fn new(
        listener: &TcpListener,
        handshakes: Arc<Handshakes>,
        recent_hosts: Arc<RecentHosts>,
        most: u64,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(listener, LISTENER)?;
        poller.add(&handshakes.slot_freed().as_raw_fd(), SLOT_FREED)?;
        Ok(Self {
            poller,
            handshakes,
            recent_hosts,
            waiting: BTreeMap::new(),
            next: SLOT_FREED + 1,
            most: usize::try_from(most.max(1)).unwrap_or(usize::MAX),
            sites: Default::default(),
            hosts: SiteIndex::default(),
            ready: BTreeSet::new(),
            dropped: Dropped::default(),
        })
    }

    /// Waits at most `timeout` for an event, and returns the connections that may start the handshake.
    pub(crate) fn wait(
        &mut self,
        listener: &TcpListener,
        timeout: Duration,
        now: impl Fn() -> Instant,
    ) -> io::Result<Vec<Incoming>> {
        let mut result = Ok(());
        for ready in self.poller.wait(timeout)? {
            match ready.token {
                LISTENER => result = self.accept(listener, now()),
                SLOT_FREED => {
                    self.handshakes.slot_freed().lower();
                    self.handshakes.slot_freed().drain();
                }
                _ => self.look(ready),
            }
        }
        self.sweep(now());
        let incoming = self.start_handshakes(now());
        // connections are served before an error of `accept` is reported
        if incoming.is_empty() {
            result?;
        }
        Ok(incoming)
    }

    /// Returns the numbers of closed connections since the last call.
    pub(crate) fn dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.dropped)
    }

    fn accept(&mut self, listener: &TcpListener, now: Instant) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            match listener.accept() {
                Ok((tcp, from)) => self.enter(tcp, from, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // the client has closed the connection
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn enter(&mut self, tcp: TcpStream, from: SocketAddr, now: Instant) {
        let is_recent = self.recent_hosts.contains(from.ip(), now);
        if let Some(oldest) = self.hosts.oldest_of(Prefix::host(from.ip()), HOST_MAX) {
            self.evict(oldest);
        }
        if self.waiting.len() >= self.most {
            // a new host is never preferred to a recent one
            let sites = if is_recent { 4 } else { 2 };
            let mut sites = self.sites[..sites].iter();
            let Some(oldest) = sites.find_map(SiteIndex::oldest_of_largest) else {
                self.dropped.evicted += 1;
                return;
            };
            self.evict(oldest);
        }
        let number = self.next;
        self.next += 1;
        let watched = tcp
            .set_nonblocking(true)
            .and_then(|()| tcp::await_octets(&tcp, ClientHello::HEAD))
            .and_then(|()| self.poller.add(&tcp, number));
        if watched.is_err() {
            return;
        }
        let connection = Pending {
            tcp,
            from,
            since: now,
            is_recent,
            is_ready: false,
        };
        self.hosts.add(Prefix::host(from.ip()), number);
        self.sites[connection.class()].add(connection.site(), number);
        self.waiting.insert(number, connection);
    }

    fn evict(&mut self, number: u64) {
        self.dropped.evicted += u64::from(self.leave(number).is_some());
    }

    fn leave(&mut self, number: u64) -> Option<Pending> {
        let connection = self.waiting.remove(&number)?;
        self.ready.remove(&number);
        self.hosts
            .remove(Prefix::host(connection.from.ip()), number);
        self.sites[connection.class()].remove(connection.site(), number);
        Some(connection)
    }

    /// Checks the octets that a connection has sent so far.
    fn look(&mut self, ready: Ready) {
        let Some(connection) = self.waiting.get_mut(&ready.token) else {
            return;
        };
        let mut octets = [0; ClientHello::LEN_MAX];
        let sent = connection.tcp.peek(&mut octets).unwrap_or(0);
        let stays = match ClientHello::of(&octets[..sent]) {
            ClientHello::Foreign => false,
            ClientHello::Part(len) => {
                !ready.has_ended && tcp::await_octets(&connection.tcp, len).is_ok()
            }
            ClientHello::Whole => {
                let (class, site) = (connection.class(), connection.site());
                connection.is_ready = true;
                self.ready.insert(ready.token);
                self.sites[class].remove(site, ready.token);
                self.sites[connection.class()].add(site, ready.token);
                // further octets belong to the handshake
                self.poller.remove(&connection.tcp).is_ok()
            }
        };
        if !stays {
            self.dropped.invalid += 1;
            self.leave(ready.token);
        }
    }

    /// Closes connections that exceed [`HELLO_TIMEOUT`].
    fn sweep(&mut self, now: Instant) {
        while let Some((&number, connection)) = self.waiting.first_key_value() {
            if now.since(connection.since) < HELLO_TIMEOUT {
                break;
            }
            self.dropped.invalid += 1;
            self.leave(number);
        }
    }

    /// Takes handshake slots for connections with a whole `ClientHello`: first recent hosts, then hosts of the sites with
    /// the fewest running handshakes.
    fn start_handshakes(&mut self, now: Instant) -> Vec<Incoming> {
        let turn = |number: &u64| {
            let connection = self.waiting.get(number)?;
            let inside = self.handshakes.count(connection.from.ip());
            Some((!connection.is_recent, inside, *number))
        };
        let mut turns: Vec<_> = self.ready.iter().filter_map(turn).collect();
        turns.sort_unstable();
        let mut incoming = Vec::new();
        for (_, _, number) in turns.into_iter().take(STARTS_MAX) {
            let Some(connection) = self.waiting.get(&number) else {
                continue;
            };
            let handshakes = &self.handshakes;
            let slot = handshakes.begin(
                &connection.tcp,
                connection.from.ip(),
                connection.is_recent,
                now,
            );
            let Some(slot) = slot else { continue };
            let Some(Pending { tcp, from, .. }) = self.leave(number) else {
                continue;
            };
            let taken = tcp::await_octets(&tcp, 1).and_then(|()| tcp.set_nonblocking(false));
            if taken.is_ok() {
                incoming.push(Incoming { tcp, from, slot });
            }
        }
        incoming
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::IpAddr;

    use lighthaul_io::host::clock::Clock;

    use super::*;

    /// Returns a queue for `most` connections, its listener, and a clock.
    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn queue(most: u64) -> (AcceptQueue, TcpListener, Clock) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let handshakes = Handshakes::start(99).unwrap();
        let queue = AcceptQueue::new(&listener, handshakes, Arc::default(), most).unwrap();
        (queue, listener, Clock::start())
    }

    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn call(listener: &TcpListener) -> TcpStream {
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    fn hello() -> Vec<u8> {
        let mut hello = vec![22, 3, 1, 0, 200, 1];
        hello.resize(205, 0);
        hello
    }

    #[test]
    fn only_whole_client_hello_starts_handshake() {
        let (mut queue, listener, clock) = queue(99);
        let mut wait = || {
            let incoming = queue.wait(&listener, Duration::from_millis(300), || clock.now());
            (incoming.unwrap().len(), queue.waiting.len())
        };
        let (_silent, mut slow, mut foreign) = (call(&listener), call(&listener), call(&listener));
        assert_eq!(wait(), (0, 3));
        foreign.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert_eq!(wait(), (0, 2), "other protocols are closed");
        let hello = hello();
        slow.write_all(&hello[..3]).unwrap();
        assert_eq!(wait(), (0, 2));
        slow.write_all(&hello[3..100]).unwrap();
        assert_eq!(wait(), (0, 2));
        slow.write_all(&hello[100..]).unwrap();
        assert_eq!(wait(), (1, 1));
    }

    #[test]
    fn full_queue_evicts_new_hosts_before_recent_ones() {
        let (mut queue, listener, _clock) = queue(4);
        let now = Instant::ZERO;
        let from = |site: u8, host: u8| SocketAddr::from(([10, 0, site, host], 1));
        queue.recent_hosts.remember(from(9, 9).ip(), now);
        let mut calls = Vec::new();
        for (site, host) in [(9, 9), (1, 1), (1, 2), (2, 1), (3, 1), (4, 1)] {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from(site, host), now);
        }
        let waiting: Vec<_> = queue
            .waiting
            .values()
            .map(|connection| connection.from)
            .collect();
        // the largest site lost its oldest connection, then one of the single ones was closed
        assert_eq!(waiting[0], from(9, 9));
        assert!(
            !waiting.contains(&from(1, 1)) && waiting.contains(&from(4, 1)),
            "{waiting:?}"
        );
        assert_eq!((waiting.len(), queue.dropped().evicted), (4, 2));
        // a recent host evicts new hosts, and a new host evicts no recent one
        for _ in 0..4 {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from(9, 9), now);
        }
        calls.push(call(&listener));
        queue.enter(listener.accept().unwrap().0, from(5, 5), now);
        assert!(
            queue
                .waiting
                .values()
                .all(|connection| connection.from == from(9, 9))
        );
    }

    #[test]
    fn client_is_served_despite_silent_connections_from_many_sites() {
        let (mut queue, listener, clock) = queue(64);
        let mut calls = Vec::new();
        let mut enter = |queue: &mut AcceptQueue, address: [u8; 4]| {
            let near = call(&listener);
            let tcp = listener.accept().unwrap().0;
            queue.enter(tcp, SocketAddr::from((address, 1)), clock.now());
            calls.push(near);
        };
        for site in 0..64 {
            enter(&mut queue, [10, 0, site, 1]);
        }
        // its address is the highest of all, and its `ClientHello` comes later
        enter(&mut queue, [250, 0, 0, 1]);
        for site in 64..120 {
            enter(&mut queue, [10, 0, site, 1]);
        }
        calls[64].write_all(&hello()).unwrap();
        let incoming = queue.wait(&listener, Duration::from_secs(9), || clock.now());
        let from: Vec<_> = incoming.unwrap().iter().map(|one| one.from.ip()).collect();
        assert_eq!(from, [IpAddr::from([250, 0, 0, 1])]);
        // the oldest connections were closed
        let left = queue
            .waiting
            .values()
            .map(|connection| connection.from.ip());
        let left: Vec<_> = left.collect();
        assert_eq!(left[0], IpAddr::from([10, 0, 57, 1]), "{left:?}");
        assert_eq!(left.len(), 63);
    }

    #[test]
    fn connections_time_out_and_one_host_is_limited() {
        let (mut queue, listener, _clock) = queue(CONNECTIONS_MAX);
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut calls = Vec::new();
        for _ in 0..HOST_MAX + 3 {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from, Instant::ZERO);
        }
        assert_eq!(queue.waiting.len(), HOST_MAX);
        queue.sweep(Instant::ZERO + HELLO_TIMEOUT);
        assert!(queue.waiting.is_empty() && queue.hosts.count(Prefix::host(from.ip())) == 0);
        assert!(
            queue
                .sites
                .iter()
                .all(|site| site.oldest_of_largest().is_none())
        );
    }
}
