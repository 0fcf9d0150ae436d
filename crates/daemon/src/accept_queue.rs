//! Callers that have not finished their first message, all on one thread.
//!
//! ```text
//! accept -> silent -> ClientHello is whole -> the handshakes has a place -> a thread, and TLS
//! ```
//!
//! Until then a caller costs a descriptor and a few words of memory. Where the queue is full, the oldest silent caller
//! of the most crowded site leaves, and strangers leave before hosts that were let in lately.

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

/// Callers that wait at most.
pub(crate) const CALLERS_MAX: u64 = 2048;
/// Callers of one host, where hosts behind one translator count as one.
const HOST_MAX: usize = 256;
/// How long a caller may take for its first message.
const PATIENCE: Duration = Duration::from_secs(10);
/// Calls that are taken in a row.
const CALLS_MAX: usize = 256;
/// Callers that try for a place in a row.
const TURNS_MAX: usize = 64;
/// Tokens of the listener and of the handshakes's sign; callers have those above.
const LISTENER: u64 = 0;
const SLOT_FREED: u64 = 1;

/// Callers between `accept` and the handshakes.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    poller: Poller,
    handshakes: Arc<Handshakes>,
    recent_hosts: Arc<RecentHosts>,
    /// By their number, so that the first came first.
    here: BTreeMap<u64, Pending>,
    next: u64,
    most: usize,
    /// In the order in which they make room.
    sites: [SiteIndex; 4],
    hosts: SiteIndex,
    /// Those that have said their first message.
    ready: BTreeSet<u64>,
    /// Callers that left, since somebody asked.
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

/// How many callers left without a thread, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// For want of room.
    pub(crate) evicted: u64,
    /// For saying nothing in time, or something else than a `ClientHello`.
    pub(crate) invalid: u64,
}

/// A caller that has said its first message, and has a place in the handshakes.
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

    /// Which crowd it is in: silent strangers make room first, hosts that are known and have spoken last.
    const fn class(&self) -> usize {
        self.is_ready as usize + 2 * self.is_recent as usize
    }
}

impl AcceptQueue {
    /// Returns an empty queue of `listener`, with room for at most `most` callers.
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
            here: BTreeMap::new(),
            next: SLOT_FREED + 1,
            most: usize::try_from(most.max(1)).unwrap_or(usize::MAX),
            sites: Default::default(),
            hosts: SiteIndex::default(),
            ready: BTreeSet::new(),
            dropped: Dropped::default(),
        })
    }

    /// Waits at most `patience` for something to happen, and returns who may go on to shake hands.
    pub(crate) fn wait(
        &mut self,
        listener: &TcpListener,
        patience: Duration,
        now: impl Fn() -> Instant,
    ) -> io::Result<Vec<Incoming>> {
        let mut result = Ok(());
        for ready in self.poller.wait(patience)? {
            match ready.token {
                LISTENER => result = self.take_calls(listener, now()),
                SLOT_FREED => {
                    self.handshakes.slot_freed().lower();
                    self.handshakes.slot_freed().drain();
                }
                _ => self.look(ready),
            }
        }
        self.sweep(now());
        let incoming = self.start_handshakes(now());
        // what has arrived is served before anybody hears that no more can be taken
        if incoming.is_empty() {
            result?;
        }
        Ok(incoming)
    }

    /// Callers that left since the last time.
    pub(crate) fn dropped(&mut self) -> Dropped {
        std::mem::take(&mut self.gone)
    }

    fn take_calls(&mut self, listener: &TcpListener, now: Instant) -> io::Result<()> {
        for _ in 0..CALLS_MAX {
            match listener.accept() {
                Ok((tcp, from)) => self.enter(tcp, from, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // who called has dropped again
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
        if self.here.len() >= self.most {
            // a stranger takes no place from a host that is known
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
        let caller = Pending {
            tcp,
            from,
            since: now,
            is_recent,
            is_ready: false,
        };
        self.hosts.add(Prefix::host(from.ip()), number);
        self.sites[caller.class()].add(caller.site(), number);
        self.here.insert(number, caller);
    }

    fn evict(&mut self, number: u64) {
        self.dropped.evicted += u64::from(self.leave(number).is_some());
    }

    fn leave(&mut self, number: u64) -> Option<Pending> {
        let caller = self.here.remove(&number)?;
        self.ready.remove(&number);
        self.hosts.remove(Prefix::host(caller.from.ip()), number);
        self.sites[caller.class()].remove(caller.site(), number);
        Some(caller)
    }

    /// Looks at what a caller has sent so far.
    fn look(&mut self, ready: Ready) {
        let Some(caller) = self.here.get_mut(&ready.token) else {
            return;
        };
        let mut octets = [0; ClientHello::LEN_MAX];
        let sent = caller.tcp.peek(&mut octets).unwrap_or(0);
        let stays = match ClientHello::of(&octets[..sent]) {
            ClientHello::Foreign => false,
            ClientHello::Part(len) => {
                !ready.has_ended && tcp::await_octets(&caller.tcp, len).is_ok()
            }
            ClientHello::Whole => {
                let (class, site) = (caller.class(), caller.site());
                caller.is_ready = true;
                self.ready.insert(ready.token);
                self.sites[class].remove(site, ready.token);
                self.sites[caller.class()].add(site, ready.token);
                // nothing that it says from now on is looked at here
                self.poller.remove(&caller.tcp).is_ok()
            }
        };
        if !stays {
            self.dropped.invalid += 1;
            self.leave(ready.token);
        }
    }

    /// Sends away who took too long, whoever it waited for.
    fn sweep(&mut self, now: Instant) {
        while let Some((&number, caller)) = self.here.first_key_value() {
            if now.since(caller.since) < PATIENCE {
                break;
            }
            self.dropped.invalid += 1;
            self.leave(number);
        }
    }

    /// Has callers go on while the handshakes has room for any: hosts that are known first, then those whose sites have
    /// fewest in the handshakes.
    fn start_handshakes(&mut self, now: Instant) -> Vec<Incoming> {
        let turn = |number: &u64| {
            let caller = self.here.get(number)?;
            let inside = self.handshakes.count(caller.from.ip());
            Some((!caller.is_recent, inside, *number))
        };
        let mut turns: Vec<_> = self.ready.iter().filter_map(turn).collect();
        turns.sort_unstable();
        let mut incoming = Vec::new();
        for (_, _, number) in turns.into_iter().take(TURNS_MAX) {
            let Some(caller) = self.here.get(&number) else {
                continue;
            };
            let handshakes = &self.handshakes;
            let slot = handshakes.begin(&caller.tcp, caller.from.ip(), caller.is_recent, now);
            let Some(slot) = place else { continue };
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

    /// A queue with room for so many, its listener, and a clock.
    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn queue(most: u64) -> (AcceptQueue, TcpListener, Clock) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let handshakes = Handshakes::start(99).unwrap();
        let queue = AcceptQueue::new(&listener, handshakes, Arc::default(), most).unwrap();
        (queue, listener, Clock::start())
    }

    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn call(listener: &TcpListener) -> TcpStream {
        TcpStream::connect(listener.local_addr().unwrap()).unwrap()
    }

    fn hello() -> Vec<u8> {
        let mut hello = vec![22, 3, 1, 0, 200, 1];
        hello.resize(205, 0);
        hello
    }

    #[test]
    fn only_a_whole_first_message_gets_a_thread() {
        let (mut queue, listener, clock) = queue(99);
        let mut wait = || {
            let incoming = queue.wait(&listener, Duration::from_millis(300), || clock.now());
            (incoming.unwrap().len(), queue.here.len())
        };
        let (_silent, mut slow, mut foreign) = (call(&listener), call(&listener), call(&listener));
        assert_eq!(wait(), (0, 3));
        foreign.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        assert_eq!(wait(), (0, 2), "what is no TLS is sent away");
        let hello = hello();
        slow.write_all(&hello[..3]).unwrap();
        assert_eq!(wait(), (0, 2));
        slow.write_all(&hello[3..100]).unwrap();
        assert_eq!(wait(), (0, 2));
        slow.write_all(&hello[100..]).unwrap();
        assert_eq!(wait(), (1, 1));
    }

    #[test]
    fn a_full_porch_sends_strangers_away_before_hosts_that_are_known() {
        let (mut queue, listener, _clock) = queue(4);
        let now = Instant::ZERO;
        let from = |site: u8, host: u8| SocketAddr::from(([10, 0, site, host], 1));
        queue.recent_hosts.remember(from(9, 9).ip(), now);
        let mut calls = Vec::new();
        for (site, host) in [(9, 9), (1, 1), (1, 2), (2, 1), (3, 1), (4, 1)] {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from(site, host), now);
        }
        let here: Vec<_> = queue.here.values().map(|caller| caller.from).collect();
        // the crowded site lost its oldest, then one of those that are alone
        assert_eq!(here[0], from(9, 9));
        assert!(
            !here.contains(&from(1, 1)) && here.contains(&from(4, 1)),
            "{here:?}"
        );
        assert_eq!((here.len(), queue.dropped().evicted), (4, 2));
        // a known host finds room among strangers, and a stranger none among known hosts
        for _ in 0..4 {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from(9, 9), now);
        }
        calls.push(call(&listener));
        queue.enter(listener.accept().unwrap().0, from(5, 5), now);
        assert!(queue.here.values().all(|caller| caller.from == from(9, 9)));
    }

    #[test]
    fn honest_caller_gets_through_silent_ones_from_many_sites() {
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
        // its address is the highest of all, and its first message comes later
        enter(&mut queue, [250, 0, 0, 1]);
        for site in 64..120 {
            enter(&mut queue, [10, 0, site, 1]);
        }
        calls[64].write_all(&hello()).unwrap();
        let incoming = queue.wait(&listener, Duration::from_secs(9), || clock.now());
        let from: Vec<_> = incoming.unwrap().iter().map(|one| one.from.ip()).collect();
        assert_eq!(from, [IpAddr::from([250, 0, 0, 1])]);
        // those that came first have left
        let left = queue.here.values().map(|caller| caller.from.ip());
        let left: Vec<_> = left.collect();
        assert_eq!(left[0], IpAddr::from([10, 0, 57, 1]), "{left:?}");
        assert_eq!(left.len(), 63);
    }

    #[test]
    fn nobody_stays_for_ever_and_one_host_is_bounded() {
        let (mut queue, listener, _clock) = queue(CALLERS_MAX);
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut calls = Vec::new();
        for _ in 0..HOST_MAX + 3 {
            calls.push(call(&listener));
            queue.enter(listener.accept().unwrap().0, from, Instant::ZERO);
        }
        assert_eq!(queue.here.len(), HOST_MAX);
        queue.sweep(Instant::ZERO + PATIENCE);
        assert!(queue.here.is_empty() && queue.hosts.count(Prefix::host(from.ip())) == 0);
        assert!(
            queue
                .sites
                .iter()
                .all(|site| site.oldest_of_largest().is_none())
        );
    }
}
