//! Callers that have not finished their first message, all on one thread.
//!
//! ```text
//! accept -> silent -> ClientHello is whole -> the lobby has a place -> a thread, and TLS
//! ```
//!
//! Until then a caller costs a descriptor and a few words of memory. Where the porch is full, the oldest silent caller
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

use crate::acquaintances::Acquaintances;
use crate::client_hello::ClientHello;
use crate::crowd::Crowd;
use crate::lobby::{Lobby, Place};

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
/// Tokens of the listener and of the lobby's sign; callers have those above.
const LISTENER: u64 = 0;
const LOBBY: u64 = 1;

/// Callers between `accept` and the lobby.
#[derive(Debug)]
pub(crate) struct Porch {
    poller: Poller,
    lobby: Arc<Lobby>,
    known: Arc<Acquaintances>,
    /// By their number, so that the first came first.
    here: BTreeMap<u64, Caller>,
    next: u64,
    most: usize,
    /// In the order in which they make room.
    crowds: [Crowd; 4],
    hosts: Crowd,
    /// Those that have said their first message.
    ready: BTreeSet<u64>,
    /// Callers that left, since somebody asked.
    gone: Gone,
}

#[derive(Debug)]
struct Caller {
    tcp: TcpStream,
    from: SocketAddr,
    since: Instant,
    is_known: bool,
    is_ready: bool,
}

/// How many callers left without a thread, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gone {
    /// For want of room.
    pub(crate) crowded_out: u64,
    /// For saying nothing in time, or something else than a `ClientHello`.
    pub(crate) unclear: u64,
}

/// A caller that has said its first message, and has a place in the lobby.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) tcp: TcpStream,
    pub(crate) from: SocketAddr,
    pub(crate) place: Place,
}

impl Caller {
    fn site(&self) -> Prefix {
        Prefix::all(self.from.ip())[2]
    }

    /// Which crowd it is in: silent strangers make room first, hosts that are known and have spoken last.
    const fn crowd(&self) -> usize {
        self.is_ready as usize + 2 * self.is_known as usize
    }
}

impl Porch {
    /// Returns an empty porch of `listener`, with room for at most `most` callers.
    pub(crate) fn new(
        listener: &TcpListener,
        lobby: Arc<Lobby>,
        known: Arc<Acquaintances>,
        most: u64,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(listener, LISTENER)?;
        poller.add(&lobby.sign().as_raw_fd(), LOBBY)?;
        Ok(Self {
            poller,
            lobby,
            known,
            here: BTreeMap::new(),
            next: LOBBY + 1,
            most: usize::try_from(most.max(1)).unwrap_or(usize::MAX),
            crowds: Default::default(),
            hosts: Crowd::default(),
            ready: BTreeSet::new(),
            gone: Gone::default(),
        })
    }

    /// Waits at most `patience` for something to happen, and returns who may go on to shake hands.
    pub(crate) fn wait(
        &mut self,
        listener: &TcpListener,
        patience: Duration,
        now: impl Fn() -> Instant,
    ) -> io::Result<Vec<Arrival>> {
        let mut result = Ok(());
        for ready in self.poller.wait(patience)? {
            match ready.token {
                LISTENER => result = self.take_calls(listener, now()),
                LOBBY => {
                    self.lobby.sign().lower();
                    self.lobby.sign().drain();
                }
                _ => self.look(ready),
            }
        }
        self.sweep(now());
        let arrivals = self.let_in(now());
        // what has arrived is served before anybody hears that no more can be taken
        if arrivals.is_empty() {
            result?;
        }
        Ok(arrivals)
    }

    /// Callers that left since the last time.
    pub(crate) fn gone(&mut self) -> Gone {
        std::mem::take(&mut self.gone)
    }

    fn take_calls(&mut self, listener: &TcpListener, now: Instant) -> io::Result<()> {
        for _ in 0..CALLS_MAX {
            match listener.accept() {
                Ok((tcp, from)) => self.enter(tcp, from, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // who called has gone again
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn enter(&mut self, tcp: TcpStream, from: SocketAddr, now: Instant) {
        let is_known = self.known.know(from.ip(), now);
        if let Some(oldest) = self.hosts.oldest_of(Prefix::host(from.ip()), HOST_MAX) {
            self.turn_away(oldest);
        }
        if self.here.len() >= self.most {
            // a stranger takes no place from a host that is known
            let crowds = if is_known { 4 } else { 2 };
            let mut crowds = self.crowds[..crowds].iter();
            let Some(oldest) = crowds.find_map(Crowd::oldest_of_largest) else {
                self.gone.crowded_out += 1;
                return;
            };
            self.turn_away(oldest);
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
        let caller = Caller {
            tcp,
            from,
            since: now,
            is_known,
            is_ready: false,
        };
        self.hosts.add(Prefix::host(from.ip()), number);
        self.crowds[caller.crowd()].add(caller.site(), number);
        self.here.insert(number, caller);
    }

    fn turn_away(&mut self, number: u64) {
        self.gone.crowded_out += u64::from(self.leave(number).is_some());
    }

    fn leave(&mut self, number: u64) -> Option<Caller> {
        let caller = self.here.remove(&number)?;
        self.ready.remove(&number);
        self.hosts.remove(Prefix::host(caller.from.ip()), number);
        self.crowds[caller.crowd()].remove(caller.site(), number);
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
                let (crowd, site) = (caller.crowd(), caller.site());
                caller.is_ready = true;
                self.ready.insert(ready.token);
                self.crowds[crowd].remove(site, ready.token);
                self.crowds[caller.crowd()].add(site, ready.token);
                // nothing that it says from now on is looked at here
                self.poller.remove(&caller.tcp).is_ok()
            }
        };
        if !stays {
            self.gone.unclear += 1;
            self.leave(ready.token);
        }
    }

    /// Sends away who took too long, whoever it waited for.
    fn sweep(&mut self, now: Instant) {
        while let Some((&number, caller)) = self.here.first_key_value() {
            if now.since(caller.since) < PATIENCE {
                break;
            }
            self.gone.unclear += 1;
            self.leave(number);
        }
    }

    /// Has callers go on while the lobby has room for any: hosts that are known first, then those whose sites have
    /// fewest in the lobby.
    fn let_in(&mut self, now: Instant) -> Vec<Arrival> {
        let turn = |number: &u64| {
            let caller = self.here.get(number)?;
            let inside = self.lobby.count(caller.from.ip());
            Some((!caller.is_known, inside, *number))
        };
        let mut turns: Vec<_> = self.ready.iter().filter_map(turn).collect();
        turns.sort_unstable();
        let mut arrivals = Vec::new();
        for (_, _, number) in turns.into_iter().take(TURNS_MAX) {
            let Some(caller) = self.here.get(&number) else {
                continue;
            };
            let lobby = &self.lobby;
            let place = lobby.enter(&caller.tcp, caller.from.ip(), caller.is_known, now);
            let Some(place) = place else { continue };
            let Some(Caller { tcp, from, .. }) = self.leave(number) else {
                continue;
            };
            let taken = tcp::await_octets(&tcp, 1).and_then(|()| tcp.set_nonblocking(false));
            if taken.is_ok() {
                arrivals.push(Arrival { tcp, from, place });
            }
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::IpAddr;

    use lighthaul_io::host::clock::Clock;

    use super::*;

    /// A porch with room for so many, its listener, and a clock.
    #[expect(clippy::disallowed_methods, reason = "a test is a world of its own")]
    fn porch(most: u64) -> (Porch, TcpListener, Clock) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let lobby = Lobby::start(99).unwrap();
        let porch = Porch::new(&listener, lobby, Arc::default(), most).unwrap();
        (porch, listener, Clock::start())
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
        let (mut porch, listener, clock) = porch(99);
        let mut wait = || {
            let arrivals = porch.wait(&listener, Duration::from_millis(300), || clock.now());
            (arrivals.unwrap().len(), porch.here.len())
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
        let (mut porch, listener, _clock) = porch(4);
        let now = Instant::ZERO;
        let from = |site: u8, host: u8| SocketAddr::from(([10, 0, site, host], 1));
        porch.known.remember(from(9, 9).ip(), now);
        let mut calls = Vec::new();
        for (site, host) in [(9, 9), (1, 1), (1, 2), (2, 1), (3, 1), (4, 1)] {
            calls.push(call(&listener));
            porch.enter(listener.accept().unwrap().0, from(site, host), now);
        }
        let here: Vec<_> = porch.here.values().map(|caller| caller.from).collect();
        // the crowded site lost its oldest, then one of those that are alone
        assert_eq!(here[0], from(9, 9));
        assert!(
            !here.contains(&from(1, 1)) && here.contains(&from(4, 1)),
            "{here:?}"
        );
        assert_eq!((here.len(), porch.gone().crowded_out), (4, 2));
        // a known host finds room among strangers, and a stranger none among known hosts
        for _ in 0..4 {
            calls.push(call(&listener));
            porch.enter(listener.accept().unwrap().0, from(9, 9), now);
        }
        calls.push(call(&listener));
        porch.enter(listener.accept().unwrap().0, from(5, 5), now);
        assert!(porch.here.values().all(|caller| caller.from == from(9, 9)));
    }

    #[test]
    fn honest_caller_gets_through_silent_ones_from_many_sites() {
        let (mut porch, listener, clock) = porch(64);
        let mut calls = Vec::new();
        let mut enter = |porch: &mut Porch, address: [u8; 4]| {
            let near = call(&listener);
            let tcp = listener.accept().unwrap().0;
            porch.enter(tcp, SocketAddr::from((address, 1)), clock.now());
            calls.push(near);
        };
        for site in 0..64 {
            enter(&mut porch, [10, 0, site, 1]);
        }
        // its address is the highest of all, and its first message comes later
        enter(&mut porch, [250, 0, 0, 1]);
        for site in 64..120 {
            enter(&mut porch, [10, 0, site, 1]);
        }
        calls[64].write_all(&hello()).unwrap();
        let arrivals = porch.wait(&listener, Duration::from_secs(9), || clock.now());
        let from: Vec<_> = arrivals.unwrap().iter().map(|one| one.from.ip()).collect();
        assert_eq!(from, [IpAddr::from([250, 0, 0, 1])]);
        // those that came first have left
        let left = porch.here.values().map(|caller| caller.from.ip());
        let left: Vec<_> = left.collect();
        assert_eq!(left[0], IpAddr::from([10, 0, 57, 1]), "{left:?}");
        assert_eq!(left.len(), 63);
    }

    #[test]
    fn nobody_stays_for_ever_and_one_host_is_bounded() {
        let (mut porch, listener, _clock) = porch(CALLERS_MAX);
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut calls = Vec::new();
        for _ in 0..HOST_MAX + 3 {
            calls.push(call(&listener));
            porch.enter(listener.accept().unwrap().0, from, Instant::ZERO);
        }
        assert_eq!(porch.here.len(), HOST_MAX);
        porch.sweep(Instant::ZERO + PATIENCE);
        assert!(porch.here.is_empty() && porch.hosts.count(Prefix::host(from.ip())) == 0);
        assert!(
            porch
                .crowds
                .iter()
                .all(|crowd| crowd.oldest_of_largest().is_none())
        );
    }
}
