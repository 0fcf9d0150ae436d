//! Connections that have not sent a whole `ClientHello`, all on one thread.
//!
//! ```text
//! accept -> silent -> whole ClientHello -> free handshake slot -> thread and TLS
//! ```
//!
//! Until then a connection costs a descriptor and a few words of memory. If the queue is full, the oldest silent
//! connection of the largest site is closed. Recent hosts ([`RecentHosts`]) are evicted after all others, and sites that
//! failed lately ([`FailedSites`]) before all others. Handshake slots are given in the opposite order.

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
    known: Known,
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

/// Hosts and sites that come first and last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) recent_hosts: Arc<RecentHosts>,
    pub(crate) failed_sites: Arc<FailedSites>,
}

/// Standing of a connection among others. A lower one is evicted first, and gets a slot last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// A connection from its site was not admitted lately.
    Failed,
    /// Nothing is known about it.
    New,
    /// A caller from its host was admitted lately.
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

    /// Eviction class: within a standing, silent connections leave before those with a `ClientHello`.
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

impl Known {
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
        known: Known,
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

    /// Takes connections from `accept` until none waits.
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
        if self.waiting.len() >= self.most {
            // none is preferred to one of a higher standing
            let mut sites = self.sites[..standing.classes().end].iter();
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

    /// Takes handshake slots for connections with a whole `ClientHello`: first recent hosts, last sites that failed
    /// lately, and among equals hosts of the sites with the fewest running handshakes. The work does not grow with the
    /// queue.
    fn start_handshakes(&mut self, now: Instant) -> Vec<Incoming> {
        let mut turns = self.turns();
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

    /// Returns the first turns: of each standing, one for each site with running handshakes, and for as many others as
    /// may get a slot.
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

/// Turn of a connection for a handshake slot: its standing, the running handshakes of its site, its number and its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(Reverse<Standing>, usize, u64, Prefix);

#[cfg(test)]
mod tests;
