//! Connections of callers: each address and each identity has its share, and a newcomer displaces whoever is stuck.
//!
//! ```text
//! accept -> admit ----------------> unknown: paced, first to go -> identified: limited by its identity
//!             | full: the connection that has made no progress for longest ends
//! ```

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::clock::Clock;
use tokio::sync::Notify;

/// Limits of connections and of what is answered on them.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time.
    pub connections: usize,
    /// Connections of one address, or of one /48 of IPv6; and of one identity.
    pub connections_each: usize,
    /// Time for a head, for a body, and for the peer to take some of an answer.
    pub patience: Duration,
    /// Bytes of answers that are on their way.
    pub answers_bytes: usize,
}

impl Default for Limits {
    /// 1024 connections, of which an address or an identity has 64; 10 s; 64 MiB.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_each: 64,
            patience: Duration::from_secs(10),
            answers_bytes: 64 << 20,
        }
    }
}

/// All connections.
#[derive(Clone, Debug)]
pub(crate) struct Callers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    clock: Clock,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    all: BTreeMap<u64, Line>,
    /// Addresses of strangers that were stuck, and till when they displace nobody.
    stuck: Lately,
    /// Addresses from which somebody was identified, and till when that counts.
    known: Lately,
}

/// Addresses, and till when something holds of them.
#[derive(Debug, Default)]
struct Lately(BTreeMap<IpAddr, u64>);

impl Lately {
    fn note(&mut self, prefix: IpAddr, now: u64, lasting: Duration) {
        if self.0.len() >= LATELY_MAX {
            self.0.retain(|_, till| *till > now);
        }
        if self.0.len() < LATELY_MAX {
            self.0
                .insert(prefix, now.saturating_add(lasting.as_nanos() as u64));
        }
    }

    fn has(&self, prefix: IpAddr, now: u64) -> bool {
        self.0.get(&prefix).is_some_and(|till| *till > now)
    }
}

/// One connection in the table.
#[derive(Debug)]
struct Line {
    prefix: IpAddr,
    name: Option<String>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// When it last made progress.
    progress: AtomicU64,
    /// When the next request of a stranger is due.
    paced: AtomicU64,
    end: Notify,
}

/// A connection; its place is free when this goes.
#[derive(Debug)]
pub(crate) struct Connection {
    callers: Callers,
    id: u64,
    state: Arc<State>,
}

impl Callers {
    /// No connections.
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner {
            limits,
            clock: Clock::start(),
            table: Mutex::default(),
        }))
    }

    /// Takes a connection. Where its address has its share, or all are taken, another one ends for it; but not for an address
    /// whose connections were stuck just now, unless somebody was identified there.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<Connection> {
        let now = self.0.clock.now().as_nanos();
        let prefix = prefix(address);
        let state = Arc::new(State {
            progress: AtomicU64::new(now),
            paced: AtomicU64::new(now),
            end: Notify::new(),
        });
        let mut table = self.table();
        let Limits {
            connections,
            connections_each,
            ..
        } = self.0.limits;
        table.make_room(connections_each, |line| line.prefix == prefix);
        let may = table.known.has(prefix, now) || !table.stuck.has(prefix, now);
        if table.all.len() >= connections {
            let displaced = may.then(|| table.end_one(|_| true))?;
            if let Some(stuck) = displaced {
                table.stuck.note(stuck, now, STUCK);
            }
        }
        let id = table.next;
        table.next += 1;
        let line = Line {
            prefix,
            name: None,
            state: Arc::clone(&state),
        };
        table.all.insert(id, line);
        drop(table);
        Some(Connection {
            callers: self.clone(),
            id,
            state,
        })
    }

    /// Ends the connection that is stuck for longest.
    pub(crate) fn shed(&self) {
        self.table().end_one(|_| true);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Ends connections of a kind till there is room for one more.
    fn make_room(&mut self, most: usize, is_meant: impl Fn(&Line) -> bool) {
        let count = self.all.values().filter(|line| is_meant(line)).count();
        for _ in most.max(1)..=count {
            self.end_one(&is_meant);
        }
    }

    /// Ends a connection of a kind: one of a stranger before others, and the one without progress for longest. Returns the
    /// address of a stranger.
    fn end_one(&mut self, is_meant: impl Fn(&Line) -> bool) -> Option<IpAddr> {
        let meant = self.all.iter().filter(|(_, line)| is_meant(line));
        let worst = meant.min_by_key(|(id, line)| {
            let progress = line.state.progress.load(Ordering::Relaxed);
            (line.name.is_some(), progress, **id)
        });
        let id = worst.map(|(id, _)| *id)?;
        let line = self.all.remove(&id)?;
        line.state.end.notify_one();
        line.name.is_none().then_some(line.prefix)
    }
}

impl Connection {
    /// Notes that the peer has taken something.
    pub(crate) fn progress(&self) {
        let now = self.callers.0.clock.now().as_nanos();
        self.state.progress.store(now, Ordering::Relaxed);
    }

    /// Notes that its peer takes nothing.
    pub(crate) fn is_stuck(&self) {
        let now = self.callers.0.clock.now().as_nanos();
        let mut table = self.callers.table();
        if let Some(prefix) = table.all.get(&self.id).map(|line| line.prefix) {
            table.stuck.note(prefix, now, STUCK);
        }
    }

    /// Notes whose it is; an identity that has its share loses another connection.
    pub(crate) fn identify(&self, name: &str) {
        let mut table = self.callers.table();
        let is_known = |line: &Line| line.name.as_deref() == Some(name);
        if table.all.get(&self.id).is_none_or(is_known) {
            return;
        }
        let now = self.callers.0.clock.now().as_nanos();
        table.make_room(self.callers.0.limits.connections_each, is_known);
        if let Some(line) = table.all.get_mut(&self.id) {
            line.name = Some(name.to_owned());
            let prefix = line.prefix;
            table.known.note(prefix, now, KNOWN);
        }
    }

    /// How long a request has to wait: those of strangers have a pace, those of others the limit of their identity.
    pub(crate) fn pause(&self) -> Duration {
        let line = self.callers.table();
        if line
            .all
            .get(&self.id)
            .is_some_and(|line| line.name.is_some())
        {
            return Duration::ZERO;
        }
        drop(line);
        let now = self.callers.0.clock.now();
        let due = Instant::from_nanos(self.state.paced.load(Ordering::Relaxed)).max(now);
        let next = due + PACE;
        self.state.paced.store(next.as_nanos(), Ordering::Relaxed);
        due.since(now).saturating_sub(BURST)
    }

    /// Limits of all connections.
    pub(crate) fn limits(&self) -> &Limits {
        &self.callers.0.limits
    }

    /// Waits till it has to end.
    pub(crate) async fn ended(&self) {
        self.state.end.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.callers.table().all.remove(&self.id);
    }
}

/// The first address of those that one site has: an address of IPv4, a /48 of IPv6.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Requests of a stranger have this distance, but for the first ones.
const PACE: Duration = Duration::from_millis(200);
/// How far a stranger may be ahead of its pace.
const BURST: Duration = Duration::from_secs(1);
/// How long an address displaces nobody, and how long it does so all the same after somebody was identified there.
const STUCK: Duration = Duration::from_secs(10);
const KNOWN: Duration = Duration::from_hours(1);
const LATELY_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn callers(connections: usize, connections_each: usize) -> Callers {
        Callers::new(Limits {
            connections,
            connections_each,
            ..Limits::default()
        })
    }

    fn has_ended(connection: &Connection) -> bool {
        connection.ended().now_or_never().is_some()
    }

    fn stuck_since(connection: &Connection, nanos: u64) {
        connection.state.progress.store(nanos, Ordering::Relaxed);
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_that_has_its_share_displaces_its_own_connections() {
        let callers = callers(10, 2);
        let other = callers.admit(address("10.0.0.1")).unwrap();
        stuck_since(&other, 0);
        let mine: Vec<_> = (1..=3)
            .map(|nth| {
                let one = callers.admit(address("10.0.0.2")).unwrap();
                stuck_since(&one, nth);
                one
            })
            .collect();
        let ended: Vec<bool> = mine.iter().map(has_ended).collect();
        assert_eq!(ended, [true, false, false]);
        assert!(!has_ended(&other));
    }

    #[test]
    fn a_newcomer_displaces_a_stranger_that_is_stuck_before_anybody_known() {
        let callers = callers(3, 3);
        let known = callers.admit(address("10.0.0.1")).unwrap();
        known.identify("ada");
        let [fresh, stuck] =
            ["10.0.0.2", "10.0.0.3"].map(|text| callers.admit(address(text)).unwrap());
        stuck_since(&known, 0);
        stuck_since(&stuck, 1);
        fresh.progress();
        let newcomer = callers.admit(address("10.0.0.4")).unwrap();
        assert!(has_ended(&stuck));
        assert!(!has_ended(&known) && !has_ended(&fresh) && !has_ended(&newcomer));
        drop(newcomer);
        let _next = callers.admit(address("10.0.0.5"));
        assert!(!has_ended(&fresh), "who left has made room");
        // an address that was stuck displaces nobody for a while
        assert!(callers.admit(address("10.0.0.3")).is_none());
        assert!(callers.admit(address("10.0.0.1")).is_some());
    }

    #[test]
    fn an_identity_has_its_share_from_wherever_it_calls() {
        let callers = callers(10, 2);
        let mine: Vec<_> = (1..=3)
            .map(|nth| {
                let one = callers.admit(address(&format!("10.0.0.{nth}"))).unwrap();
                stuck_since(&one, nth);
                one.identify("ada");
                one.identify("ada");
                one
            })
            .collect();
        let ended: Vec<bool> = mine.iter().map(has_ended).collect();
        assert_eq!(ended, [true, false, false]);
    }

    #[test]
    fn a_site_has_one_share_of_all_its_addresses() {
        for (one, other, is_same) in [
            ("2001:db8:1::1", "2001:db8:1:ffff::2", true),
            ("2001:db8:1::1", "2001:db8:2::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let [one, other] = [one, other].map(|text| prefix(address(text)));
            assert_eq!(one == other, is_same, "{one} {other}");
        }
    }

    #[test]
    fn a_stranger_has_a_pace_and_whoever_is_known_has_none() {
        let callers = callers(1, 1);
        let stranger = callers.admit(address("10.0.0.1")).unwrap();
        let pauses: Vec<Duration> = (0..30).map(|_| stranger.pause()).collect();
        assert!(pauses[..5].iter().all(Duration::is_zero), "{pauses:?}");
        assert!(pauses[29] > Duration::from_secs(1), "{pauses:?}");
        stranger.identify("ada");
        assert!(stranger.pause().is_zero());
    }
}
