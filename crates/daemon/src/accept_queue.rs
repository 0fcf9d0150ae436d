//! Connections that have not sent a whole `ClientHello`, all on one thread.
//!
//! ```text
//! accept -> silent -> whole ClientHello -> free handshake slot -> thread and TLS
//! ```
//!
//! Until then a connection costs a descriptor and a few words of memory. If the queue is full, the oldest silent
//! connection of the largest site is closed. Recent hosts ([`RecentHosts`]) are evicted after all others, and sites
//! that failed lately ([`FailedSites`]) before all others. Handshake slots are given in the opposite order. A part of
//! the queue, and of the attempts to get a slot, is left to hosts that are not recent.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_io::host::poller::{Poller, Ready};
use lighthaul_io::net::tcp;

use crate::client_hello::ClientHello;
use crate::failed_sites::FailedSites;
use crate::handshakes::{HandshakeSlot, Handshakes};
use crate::recent_hosts::{RecentHosts, unix_seconds};
use crate::site_index::SiteIndex;

/// Maximum number of connections in the queue.
pub(crate) const CONNECTIONS_MAX: u64 = 2048;
/// Maximum number of connections of one host. Hosts behind one address translator count as one.
const HOST_MAX: usize = 256;
/// Time until a connection must have sent its `ClientHello`.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections that are accepted without a pause.
const ACCEPTS_MAX: usize = 256;
/// Divisor of the queue: one part is left to hosts that are not recent.
const RESERVED_PART: usize = 4;
/// Maximum number of connections of recent hosts that try to get a handshake slot in one turn, and of other hosts.
const STARTS_MAX: usize = 64;
/// Poller token of the listener. Tokens of connections are higher.
const LISTENER: u64 = 0;
/// Poller token of freed handshake slots. Tokens of connections are higher.
const SLOT_FREED: u64 = 1;

/// Queue between `accept` and the TLS handshake.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    poller: Poller,
    handshakes: Arc<Handshakes>,
    known: HostRecords,
    /// Connections by number; a lower number came earlier.
    waiting: BTreeMap<u64, Pending>,
    next: u64,
    most: usize,
    /// Connections by class ([`Pending::class`]); a lower class is evicted first.
    sites: [SiteIndex; 6],
    hosts: SiteIndex,
    /// Closed connections since the last call of [`AcceptQueue::dropped`].
    dropped: Dropped,
}

/// Records of recent hosts, which come first, and of sites that failed, which come last.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostRecords {
    pub(crate) recent_hosts: Arc<RecentHosts>,
    pub(crate) failed_sites: Arc<FailedSites>,
}

/// Priority of a connection. A connection with a lower standing is evicted earlier, and gets a handshake slot later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// A connection from the same site recently ended without admission.
    Failed,
    /// The record has no client of the host, and no failure of its site.
    New,
    /// The daemon recently admitted a client from the same host.
    Recent,
}

#[derive(Debug)]
struct Pending {
    tcp: TcpStream,
    from: SocketAddr,
    since: Instant,
    standing: Standing,
    is_ready: bool,
}

/// Numbers of connections that were closed before their handshake, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Closed to make room for other connections.
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

    /// Returns the eviction class: a lower class is evicted earlier. Within a standing, silent connections have a lower
    /// class than connections with a `ClientHello`.
    const fn class(&self) -> usize {
        self.is_ready as usize + self.standing.classes().start
    }
}

impl Standing {
    /// Returns the eviction classes of connections with this standing.
    const fn classes(self) -> Range<usize> {
        let first = 2 * self as usize;
        first..first + 2
    }
}

impl HostRecords {
    fn standing(&self, address: IpAddr, now: Instant) -> Standing {
        if self.recent_hosts.contains(address, unix_seconds()) {
            Standing::Recent
        } else if self.failed_sites.contains(address, now) {
            Standing::Failed
        } else {
            Standing::New
        }
    }
}

impl AcceptQueue {
    /// Creates an empty queue for `listener`, with room for at most `most` connections.
    pub(crate) fn new(
        listener: &TcpListener,
        handshakes: Arc<Handshakes>,
        known: HostRecords,
        most: u64,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(listener, LISTENER)?;
        poller.add(&handshakes.slot_freed().as_raw_fd(), SLOT_FREED)?;
        Ok(Self {
            poller,
            handshakes,
            known,
            waiting: BTreeMap::new(),
            next: SLOT_FREED + 1,
            most: usize::try_from(most.max(1)).unwrap_or(usize::MAX),
            sites: Default::default(),
            hosts: SiteIndex::default(),
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
                LISTENER => result = self.accept(|| listener.accept(), now()),
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

    /// Takes connections from `accept` until none is waiting.
    fn accept(
        &mut self,
        mut accept: impl FnMut() -> io::Result<(TcpStream, SocketAddr)>,
        now: Instant,
    ) -> io::Result<()> {
        for _ in 0..ACCEPTS_MAX {
            match accept() {
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
        let standing = self.known.standing(from.ip(), now);
        if let Some(oldest) = self.hosts.oldest_of(Prefix::host(from.ip()), HOST_MAX) {
            self.evict(oldest);
        }
        let recent = &self.sites[Standing::Recent.classes()];
        let recent_max = self.most - self.most / RESERVED_PART;
        let is_part_full = standing == Standing::Recent
            && recent.iter().map(SiteIndex::len).sum::<usize>() >= recent_max;
        if is_part_full || self.waiting.len() >= self.most {
            let classes = if is_part_full {
                standing.classes()
            } else {
                // none is preferred to one of a higher standing
                0..standing.classes().end
            };
            let mut sites = self.sites[classes].iter();
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
            standing,
            is_ready: false,
        };
        self.hosts.add(Prefix::host(from.ip()), number);
        self.sites[connection.class()].add(connection.site(), number);
        self.waiting.insert(number, connection);
        // most have sent their `ClientHello` by now, and need not compete with silent ones
        self.look(Ready {
            token: number,
            has_ended: false,
        });
    }

    fn evict(&mut self, number: u64) {
        self.dropped.evicted += u64::from(self.leave(number).is_some());
    }

    fn leave(&mut self, number: u64) -> Option<Pending> {
        let connection = self.waiting.remove(&number)?;
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

    /// Gives handshake slots to connections with a whole `ClientHello`: recent hosts first, sites that failed lately
    /// last. The work does not grow with the queue.
    fn start_handshakes(&mut self, now: Instant) -> Vec<Incoming> {
        let turns = self.turns();
        let (recent, others) = turns
            .into_iter()
            .partition(|Turn(standing, ..)| standing.0 == Standing::Recent);
        // recent hosts that get no slot take no turns of other hosts
        let mut incoming = self.start_in_turn(recent, now);
        incoming.extend(self.start_in_turn(others, now));
        incoming
    }

    fn start_in_turn(&mut self, mut turns: BTreeSet<Turn>, now: Instant) -> Vec<Incoming> {
        let mut incoming = Vec::new();
        for _ in 0..STARTS_MAX {
            let Some(turn) = turns.pop_first() else {
                break;
            };
            let Turn(standing, inside, number, site) = turn;
            let Some(connection) = self.waiting.get(&number) else {
                continue;
            };
            let is_recent = standing.0 == Standing::Recent;
            let (tcp, from) = (&connection.tcp, connection.from.ip());
            let Some(slot) = self.handshakes.begin(tcp, from, is_recent, now) else {
                continue;
            };
            let Some(Pending { tcp, from, .. }) = self.leave(number) else {
                continue;
            };
            // the next of this site waits behind sites with as many handshakes as it has now
            let next = self.sites[standing.0.classes().end - 1].oldest_of(site, 1);
            turns.extend(next.map(|next| Turn(standing, inside + 1, next, site)));
            let taken = tcp::await_octets(&tcp, 1).and_then(|()| tcp.set_nonblocking(false));
            if taken.is_ok() {
                incoming.push(Incoming { tcp, from, slot });
            }
        }
        incoming
    }

    /// Returns the turns of the next connections for each standing: one for each site with running handshakes, and up
    /// to [`STARTS_MAX`] for the oldest connections of other sites.
    fn turns(&self) -> BTreeSet<Turn> {
        if self
            .sites
            .iter()
            .skip(1)
            .step_by(2)
            .all(SiteIndex::is_empty)
        {
            return BTreeSet::new();
        }
        let running = self.handshakes.sites();
        let mut turns = BTreeSet::new();
        for standing in [Standing::Recent, Standing::New, Standing::Failed] {
            let ready = &self.sites[standing.classes().end - 1];
            let others = ready
                .by_age()
                .filter(|(_, site)| !running.contains_key(site));
            let others = others.take(STARTS_MAX);
            turns.extend(others.map(|(number, site)| Turn(Reverse(standing), 0, number, site)));
            turns.extend(running.iter().filter_map(|(site, inside)| {
                let number = ready.oldest_of(*site, 1)?;
                Some(Turn(Reverse(standing), *inside, number, *site))
            }));
        }
        turns
    }
}

/// Turn of a connection for a handshake slot: its standing, the running handshakes of its site, its number and its
/// site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(Reverse<Standing>, usize, u64, Prefix);

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lighthaul_io::host::clock::Clock;

    use super::*;

    /// Returns a queue for `most` connections, its listener, and a clock.
    #[expect(clippy::disallowed_methods, reason = "a test uses the real system")]
    fn queue(most: u64) -> (AcceptQueue, TcpListener, Clock) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let handshakes = Handshakes::start(99).unwrap();
        let queue = AcceptQueue::new(&listener, handshakes, HostRecords::default(), most).unwrap();
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
    fn connection_that_ends_before_its_client_hello_is_closed_at_once() {
        let (mut queue, listener, clock) = queue(99);
        let mut near = call(&listener);
        let from = near.local_addr().unwrap();
        queue.enter(listener.accept().unwrap().0, from, clock.now());
        near.write_all(&hello()[..3]).unwrap();
        drop(near);
        let incoming = queue.wait(&listener, Duration::from_secs(9), || clock.now());
        assert!(incoming.unwrap().is_empty() && queue.waiting.is_empty());
        assert_eq!(queue.dropped().invalid, 1);
    }

    #[test]
    fn freed_slot_wakes_the_queue_once() {
        let (mut queue, listener, clock) = queue(99);
        let near = call(&listener);
        let address = near.local_addr().unwrap().ip();
        let slot = queue.handshakes.begin(&near, address, false, clock.now());
        drop(slot.unwrap());
        let is_woken = |queue: &mut AcceptQueue| {
            let events = queue.poller.wait(Duration::ZERO).unwrap();
            events.into_iter().any(|event| event.token == SLOT_FREED)
        };
        assert!(is_woken(&mut queue));
        queue
            .wait(&listener, Duration::ZERO, || clock.now())
            .unwrap();
        assert!(!is_woken(&mut queue), "it would never sleep again");
    }

    #[test]
    fn aborted_connection_stops_no_other_connection_and_errors_are_reported() {
        let (mut queue, listener, clock) = queue(99);
        let _near = call(&listener);
        let mut accept = |results: Vec<io::ErrorKind>| {
            let mut results = results.into_iter();
            let result = queue.accept(
                || match results.next() {
                    Some(kind) => Err(kind.into()),
                    None => listener.accept(),
                },
                clock.now(),
            );
            (result.map_err(|error| error.kind()), queue.waiting.len())
        };
        // such as too many open files
        let error = io::ErrorKind::OutOfMemory;
        assert_eq!(accept(vec![error]), (Err(error), 0));
        assert_eq!(accept(vec![io::ErrorKind::WouldBlock]), (Ok(()), 0));
        assert_eq!(accept(vec![io::ErrorKind::ConnectionAborted]), (Ok(()), 1));
    }

    #[test]
    fn full_queue_evicts_new_hosts_before_recent_hosts() {
        let (mut queue, listener, _clock) = queue(4);
        let now = Instant::ZERO;
        let from = |site: u8, host: u8| SocketAddr::from(([10, 0, site, host], 1));
        queue
            .known
            .recent_hosts
            .remember(from(9, 9).ip(), unix_seconds());
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
        // a recent host evicts new hosts up to its part, and a new host evicts no recent one
        for _ in 0..4 {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from(9, 9), now);
        }
        calls.push(call(&listener));
        queue.enter(listener.accept().unwrap().0, from(5, 5), now);
        let waiting: Vec<_> = queue.waiting.values().map(|waits| waits.from).collect();
        assert_eq!(waiting, [from(9, 9), from(9, 9), from(9, 9), from(5, 5)]);
    }

    #[test]
    fn sites_that_failed_come_last_and_are_evicted_first() {
        let (mut queue, listener, clock) = queue(3);
        let from = |site: u8| SocketAddr::from(([10, 0, site, 1], 1));
        for site in 1..=3 {
            queue.known.failed_sites.add(from(site).ip(), clock.now());
        }
        let mut calls = Vec::new();
        let mut enter = |queue: &mut AcceptQueue, site| {
            let mut near = call(&listener);
            near.write_all(&hello()).unwrap();
            let tcp = listener.accept().unwrap().0;
            queue.enter(tcp, from(site), clock.now());
            calls.push(near);
        };
        for site in [1, 2, 3, 4] {
            enter(&mut queue, site);
        }
        // the last one replaced one that failed, and is first
        let start = |queue: &mut AcceptQueue| {
            let incoming = queue.start_handshakes(clock.now());
            incoming.iter().map(|one| one.from).collect::<Vec<_>>()
        };
        assert_eq!(start(&mut queue), [from(4), from(2), from(3)]);
        for site in [4, 5, 6, 1] {
            enter(&mut queue, site);
        }
        assert_eq!(start(&mut queue), [from(4), from(5), from(6)]);
        assert_eq!(queue.dropped().evicted, 2);
    }

    #[test]
    fn recent_hosts_get_slots_before_other_hosts() {
        let (mut queue, listener, clock) = queue(200);
        let address = |site: u8| SocketAddr::from(([10, 0, site, 1], 1));
        let recent = SocketAddr::from(([250, 0, 0, 1], 1));
        queue
            .known
            .recent_hosts
            .remember(recent.ip(), unix_seconds());
        queue.known.failed_sites.add(address(200).ip(), clock.now());
        let mut calls = Vec::new();
        let mut enter = |queue: &mut AcceptQueue, from| {
            let mut near = call(&listener);
            near.write_all(&hello()).unwrap();
            let tcp = listener.accept().unwrap().0;
            queue.enter(tcp, from, clock.now());
            calls.push(near);
        };
        // it comes last, after more new hosts than get slots in one turn, and from the highest address
        enter(&mut queue, address(200));
        for site in 0..=STARTS_MAX as u8 {
            enter(&mut queue, address(site));
        }
        enter(&mut queue, recent);
        let start = |queue: &mut AcceptQueue| {
            let incoming = queue.start_handshakes(clock.now());
            incoming.iter().map(|one| one.from).collect::<Vec<_>>()
        };
        let first = start(&mut queue);
        assert_eq!((first[0], first.len()), (recent, 1 + STARTS_MAX));
        assert!(
            first[1..]
                .iter()
                .copied()
                .eq((0..STARTS_MAX as u8).map(address))
        );
        assert_eq!(start(&mut queue), [address(STARTS_MAX as u8), address(200)]);
    }

    /// Enters connections from these addresses with a whole `ClientHello`, and returns those that get a slot.
    fn started(
        (queue, listener, clock): (&mut AcceptQueue, &TcpListener, &Clock),
        addresses: &[[u8; 4]],
    ) -> Vec<IpAddr> {
        let mut calls = Vec::new();
        for address in addresses {
            let mut near = call(listener);
            near.write_all(&hello()).unwrap();
            let tcp = listener.accept().unwrap().0;
            queue.enter(tcp, SocketAddr::from((*address, 1)), clock.now());
            calls.push(near);
        }
        let incoming = queue.start_handshakes(clock.now());
        incoming.iter().map(|one| one.from.ip()).collect()
    }

    #[test]
    fn sites_get_slots_in_turn() {
        let (mut queue, listener, clock) = queue(64);
        let (first, second) = ([10, 0, 1, 1], [10, 0, 2, 1]);
        let order = started(
            (&mut queue, &listener, &clock),
            &[first, first, first, second],
        );
        assert_eq!(order, [first, second, first, first].map(IpAddr::from));
    }

    #[test]
    fn slots_are_reserved_for_recent_hosts() {
        let (mut queue, listener, clock) = queue(64);
        queue.handshakes = Handshakes::start(8).unwrap();
        let recent = [250, 0, 0, 1];
        queue
            .known
            .recent_hosts
            .remember(recent.into(), unix_seconds());
        let mut addresses: Vec<_> = (0..8).map(|site| [10, 0, site, 1]).collect();
        addresses.push(recent);
        let order = started((&mut queue, &listener, &clock), &addresses);
        assert_eq!((order[0], order.len()), (IpAddr::from(recent), 1 + 6));
    }

    #[test]
    fn new_host_gets_a_slot_beside_recent_hosts_that_call_without_end() {
        let (mut queue, listener, clock) = queue(512);
        queue.handshakes = Handshakes::start(8).unwrap();
        // more sites than try in one turn, each with more connections than its share
        let recent: Vec<_> = (0..STARTS_MAX as u8 + 9)
            .map(|site| [10, 0, site, 1])
            .collect();
        for host in &recent {
            let hosts = &queue.known.recent_hosts;
            hosts.remember((*host).into(), unix_seconds());
        }
        let mut addresses = [recent.clone(), recent].concat();
        addresses.push([250, 0, 0, 1]);
        let order = started((&mut queue, &listener, &clock), &addresses);
        assert_eq!(order.len(), 7, "{order:?}");
        assert_eq!(order[6], IpAddr::from([250, 0, 0, 1]));
    }

    #[test]
    fn one_site_gets_many_slots_where_no_other_waits() {
        let (mut queue, listener, clock) = queue(64);
        let mut calls = Vec::new();
        for _ in 0..8 {
            let mut near = call(&listener);
            near.write_all(&hello()).unwrap();
            let tcp = listener.accept().unwrap().0;
            queue.enter(tcp, SocketAddr::from(([10, 0, 0, 1], 1)), clock.now());
            calls.push(near);
        }
        assert_eq!(queue.start_handshakes(clock.now()).len(), 8);
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
    fn connections_time_out_and_each_host_is_limited() {
        let (mut queue, listener, _clock) = queue(CONNECTIONS_MAX);
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut calls = Vec::new();
        for _ in 0..HOST_MAX + 3 {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from, Instant::ZERO);
        }
        assert_eq!(queue.waiting.len(), HOST_MAX);
        queue.dropped();
        queue.sweep(Instant::ZERO + HELLO_TIMEOUT);
        assert_eq!(queue.dropped().invalid, HOST_MAX as u64);
        assert!(queue.waiting.is_empty() && queue.hosts.count(Prefix::host(from.ip())) == 0);
        assert!(
            queue
                .sites
                .iter()
                .all(|site| site.oldest_of_largest().is_none())
        );
    }
}
