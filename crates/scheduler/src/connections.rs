//! Limits on connections: each address and each identity has a share, and a new connection
//! displaces the longest idle one.
//!
//! ```text
//! accept -> admit ----------------> unknown: paced, first to go -> identified: limited by its identity
//!             | full: the connection that has made no progress for longest ends
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_base::prefix::Prefix;
use lighthaul_base::seats::{self, Seats};
use lighthaul_io::host::clock::Clock;
use tokio::sync::Notify;

/// Limits on connections and responses.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections of one address (for IPv6, one /48) and of one identity.
    pub connections_each: usize,
    /// Timeout for the head and the body of a request, and for the client to read a part of a
    /// response.
    pub time_limit: Duration,
    /// Memory for responses in bytes.
    pub answers_bytes: usize,
}

impl Default for Limits {
    /// 1024 connections, 64 of them for an address or identity; 10 s; 64 MiB.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_each: 64,
            time_limit: Duration::from_secs(10),
            answers_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// Returns the limits in the form of [`Seats`].
    fn seats(&self) -> seats::Limits {
        let (all, each) = (
            self.connections.max(1) as u64,
            self.connections_each.max(1) as u64,
        );
        seats::Limits {
            all,
            identity: each,
            authority: all,
            // each site counts as one host
            host: each,
            site: all,
        }
    }
}

/// All connections.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    clock: Clock,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    /// Every connection is idle since its last progress.
    seats: Seats<String, 1>,
    open: BTreeMap<u64, Entry>,
    /// Addresses with stuck, unauthenticated connections, and the end of their penalty.
    stuck: RecentAddresses,
    /// Addresses of authenticated clients, and the end of that status.
    known: RecentAddresses,
}

/// Addresses with a time limit.
#[derive(Debug, Default)]
struct RecentAddresses(BTreeMap<Prefix, u64>);

impl RecentAddresses {
    fn note(&mut self, site: Prefix, now: u64, lasting: Duration) {
        if self.0.len() >= RECENT_MAX {
            self.0.retain(|_, till| *till > now);
        }
        if self.0.len() < RECENT_MAX {
            self.0
                .insert(site, now.saturating_add(lasting.as_nanos() as u64));
        }
    }

    fn has(&self, site: Prefix, now: u64) -> bool {
        self.0.get(&site).is_some_and(|till| *till > now)
    }
}

/// Connection in the table.
#[derive(Debug)]
struct Entry {
    site: Prefix,
    state: Arc<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    /// Time at which the next unauthenticated request is due.
    paced: AtomicU64,
    end: Notify,
}

/// Connection, whose place is freed on drop.
#[derive(Debug)]
pub(crate) struct Connection {
    connections: Connections,
    id: u64,
    state: Arc<ConnectionState>,
}

impl Connections {
    /// Returns limits without connections.
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner {
            limits,
            clock: Clock::start(),
            table: Mutex::new(Table {
                seats: Seats::new([limits.seats()]),
                open: BTreeMap::new(),
                stuck: RecentAddresses::default(),
                known: RecentAddresses::default(),
            }),
        }))
    }

    /// Admits a connection, which may end another connection if a limit is reached. Returns `None` if all
    /// places are taken and a connection of this address was recently stuck, unless a client was
    /// authenticated there.
    pub(crate) fn admit(&self, address: IpAddr) -> Option<Connection> {
        let now = self.0.clock.now().as_nanos();
        let site = site(address);
        let mut table = self.table();
        let may = table.known.has(site, now) || !table.stuck.has(site, now);
        if table.open.len() >= self.0.limits.connections && !may {
            return None;
        }
        let seated = table.seats.take(None, site.address(), [1]).ok()?;
        let idle = table.idle_since(site, now);
        table.seats.note_idle(seated.number, Some(idle));
        table.end(&seated.revoked, now);
        let state = Arc::new(ConnectionState {
            paced: AtomicU64::new(now),
            end: Notify::new(),
        });
        let entry = Entry {
            site,
            state: Arc::clone(&state),
        };
        table.open.insert(seated.number, entry);
        drop(table);
        Some(Connection {
            connections: self.clone(),
            id: seated.number,
            state,
        })
    }

    /// Ends the connection that has been idle for longest.
    pub(crate) fn end_idlest(&self) {
        let now = self.0.clock.now().as_nanos();
        let mut table = self.table();
        let stuck = table.seats.take_idle();
        table.end(stuck.as_slice(), now);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Returns the site of a connection that holds a place.
    fn site_of(&self, id: u64) -> Option<Prefix> {
        self.open.get(&id).map(|entry| entry.site)
    }

    /// Returns the time from which a connection counts as idle. Where a client was authenticated lately, it is later,
    /// so that unknown addresses take no place from a handshake over a long path.
    fn idle_since(&self, site: Prefix, now: u64) -> u64 {
        let advance = if self.known.has(site, now) {
            KNOWN_ADVANCE
        } else {
            Duration::ZERO
        };
        now.saturating_add(advance.as_nanos() as u64)
    }

    /// Ends connections that have lost their places. Unauthenticated ones count as stuck.
    fn end(&mut self, left: &[u64], now: u64) {
        for entry in left.iter().filter_map(|number| self.open.remove(number)) {
            entry.state.end.notify_one();
            if !self.known.has(entry.site, now) {
                self.stuck.note(entry.site, now, STUCK);
            }
        }
    }
}

impl Connection {
    /// Notes that the client has read a part of a response.
    pub(crate) fn progress(&self) {
        let now = self.connections.0.clock.now().as_nanos();
        let mut table = self.connections.table();
        if let Some(site) = table.site_of(self.id) {
            let idle = table.idle_since(site, now);
            table.seats.note_idle(self.id, Some(idle));
        }
    }

    /// Notes that the client does not read its response.
    pub(crate) fn note_stuck(&self) {
        let now = self.connections.0.clock.now().as_nanos();
        let mut table = self.connections.table();
        if let Some(site) = table.site_of(self.id) {
            table.stuck.note(site, now, STUCK);
        }
    }

    /// Notes the identity of the client. An identity above its limit loses another connection.
    pub(crate) fn identify(&self, name: &str) {
        let mut table = self.connections.table();
        let is_known = table
            .seats
            .identity(self.id)
            .is_some_and(|known| known == name);
        let Some(site) = table.site_of(self.id) else {
            return;
        };
        if is_known {
            return;
        }
        let now = self.connections.0.clock.now().as_nanos();
        // every connection is idle, so that one of them can be ended
        let left = table
            .seats
            .identify(self.id, name.to_owned())
            .unwrap_or_default();
        table.known.note(site, now, KNOWN);
        table.end(&left, now);
    }

    /// Returns the waiting time of a request: unauthenticated requests are paced, others have the rate limit of their
    /// identity.
    pub(crate) fn pause(&self) -> Duration {
        if self.connections.table().seats.identity(self.id).is_some() {
            return Duration::ZERO;
        }
        let now = self.connections.0.clock.now();
        let due = Instant::from_nanos(self.state.paced.load(Ordering::Relaxed)).max(now);
        let next = due + PACE;
        self.state.paced.store(next.as_nanos(), Ordering::Relaxed);
        due.since(now).saturating_sub(BURST)
    }

    /// Returns the identity of the connection's last request, if any.
    pub(crate) fn identity(&self) -> Option<String> {
        self.connections.table().seats.identity(self.id).cloned()
    }

    /// Ends the connection.
    pub(crate) fn end(&self) {
        self.state.end.notify_one();
    }

    /// Returns the limits of all connections.
    pub(crate) fn limits(&self) -> &Limits {
        &self.connections.0.limits
    }

    /// Waits until the connection must end.
    pub(crate) async fn ended(&self) {
        self.state.end.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.open.remove(&self.id);
        table.seats.leave(self.id);
    }
}

/// Returns the site of an address: the address itself for IPv4, its /48 for IPv6.
pub(crate) fn site(address: IpAddr) -> Prefix {
    let [host, _, site] = Prefix::all(address);
    if address.to_canonical().is_ipv4() {
        host
    } else {
        site
    }
}

/// Interval between unauthenticated requests of a connection, after a first burst.
const PACE: Duration = Duration::from_millis(200);
/// Length of that burst.
const BURST: Duration = Duration::from_secs(1);
/// Duration of the penalty of an address with stuck connections.
const STUCK: Duration = Duration::from_secs(10);
/// Duration of the status of an address with an authenticated client.
const KNOWN: Duration = Duration::from_hours(1);
/// Additional idle time of a connection whose address has had an authenticated client.
const KNOWN_ADVANCE: Duration = Duration::from_secs(10);
const RECENT_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn connections(connections: usize, connections_each: usize) -> Connections {
        Connections::new(Limits {
            connections,
            connections_each,
            ..Limits::default()
        })
    }

    fn has_ended(connection: &Connection) -> bool {
        connection.ended().now_or_never().is_some()
    }

    fn stuck_since(connection: &Connection, nanos: u64) {
        connection
            .connections
            .table()
            .seats
            .note_idle(connection.id, Some(nanos));
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn address_at_its_limit_displaces_its_own_connections() {
        let connections = connections(10, 2);
        let other = connections.admit(address("10.0.0.1")).unwrap();
        stuck_since(&other, 0);
        let mine: Vec<_> = (1..=3)
            .map(|nth| {
                let one = connections.admit(address("10.0.0.2")).unwrap();
                stuck_since(&one, nth);
                one
            })
            .collect();
        let ended: Vec<bool> = mine.iter().map(has_ended).collect();
        assert_eq!(ended, [true, false, false]);
        assert!(!has_ended(&other));
    }

    #[test]
    fn new_connection_displaces_a_stuck_unauthenticated_connection_first() {
        let connections = connections(3, 3);
        let known = connections.admit(address("10.0.0.1")).unwrap();
        known.identify("ada");
        let [fresh, stuck] =
            ["10.0.0.2", "10.0.0.3"].map(|text| connections.admit(address(text)).unwrap());
        stuck_since(&known, 0);
        stuck_since(&stuck, 1);
        fresh.progress();
        let newcomer = connections.admit(address("10.0.0.4")).unwrap();
        assert!(has_ended(&stuck));
        assert!(!has_ended(&known) && !has_ended(&fresh) && !has_ended(&newcomer));
        drop(newcomer);
        let _next = connections.admit(address("10.0.0.5"));
        assert!(
            !has_ended(&fresh),
            "a closed connection has freed its place"
        );
        // an address that was stuck cannot displace others for a while
        assert!(connections.admit(address("10.0.0.3")).is_none());
        assert!(connections.admit(address("10.0.0.1")).is_some());
    }

    #[test]
    fn flood_of_unknown_addresses_ends_no_handshake_of_a_known_address() {
        let connections = connections(4, 4);
        let known = || connections.admit(address("10.0.0.1")).unwrap();
        known().identify("ada");
        let handshake = known();
        let flood = |from: u8| -> Vec<_> {
            let hosts = from..from + 100;
            let all = hosts.filter_map(|nth| connections.admit(address(&format!("10.0.1.{nth}"))));
            all.collect()
        };
        let first = flood(0);
        assert!(has_ended(&first[0]) && !has_ended(&handshake));
        handshake.progress();
        let _second = flood(100);
        assert!(!has_ended(&handshake));
    }

    #[test]
    fn limit_of_an_identity_spans_its_addresses() {
        let connections = connections(10, 2);
        let mine: Vec<_> = (1..=3)
            .map(|nth| {
                let one = connections
                    .admit(address(&format!("10.0.0.{nth}")))
                    .unwrap();
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
    fn addresses_of_a_site_have_a_common_limit() {
        for (one, other, is_same) in [
            ("2001:db8:1::1", "2001:db8:1:ffff::2", true),
            ("2001:db8:1::1", "2001:db8:2::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let connections = connections(10, 1);
            let first = connections.admit(address(one)).unwrap();
            let _second = connections.admit(address(other)).unwrap();
            assert_eq!(has_ended(&first), is_same, "{one} {other}");
        }
    }

    #[test]
    fn only_unauthenticated_requests_are_paced() {
        let connections = connections(1, 1);
        let stranger = connections.admit(address("10.0.0.1")).unwrap();
        let pauses: Vec<Duration> = (0..30).map(|_| stranger.pause()).collect();
        assert!(pauses[..5].iter().all(Duration::is_zero), "{pauses:?}");
        assert!(pauses[29] > Duration::from_secs(1), "{pauses:?}");
        stranger.identify("ada");
        assert!(stranger.pause().is_zero());
    }

    #[test]
    fn record_of_addresses_is_bounded_and_forgets_expired_addresses() {
        let nth = |nth: usize| site(IpAddr::from((nth as u32).to_be_bytes()));
        let mut recent = RecentAddresses::default();
        for at in 0..RECENT_MAX {
            recent.note(nth(at), at as u64 % 2, Duration::from_nanos(10));
        }
        assert!(recent.has(nth(0), 9) && !recent.has(nth(0), 10));
        assert!(!recent.has(nth(RECENT_MAX), 0));
        // full, and none is old
        recent.note(nth(RECENT_MAX), 9, Duration::from_nanos(10));
        assert!(!recent.has(nth(RECENT_MAX), 9));
        assert_eq!(recent.0.len(), RECENT_MAX);
        // those of time 0 are old now, and those of time 1 are not
        recent.note(nth(RECENT_MAX), 10, Duration::from_nanos(10));
        assert!(recent.has(nth(RECENT_MAX), 10) && recent.has(nth(1), 10));
        assert_eq!(recent.0.len(), RECENT_MAX / 2 + 1);
    }

    #[test]
    fn idlest_connection_ends_and_progress_keeps_a_connection() {
        let connections = connections(10, 10);
        let [first, second] =
            ["10.0.0.1", "10.0.0.2"].map(|text| connections.admit(address(text)).unwrap());
        stuck_since(&second, 1);
        stuck_since(&first, 0);
        first.progress();
        connections.end_idlest();
        assert!(has_ended(&second) && !has_ended(&first));
        first.end();
        assert!(has_ended(&first));
    }

    #[test]
    fn address_that_does_not_read_cannot_displace_other_addresses() {
        let connections = connections(2, 2);
        let reader = connections.admit(address("10.0.0.1")).unwrap();
        let stuck = connections.admit(address("10.0.0.2")).unwrap();
        stuck.note_stuck();
        assert!(connections.admit(address("10.0.0.2")).is_none());
        assert!(!has_ended(&reader) && !has_ended(&stuck));
        assert!(connections.admit(address("10.0.0.3")).is_some());
    }

    #[test]
    fn connection_has_the_identity_of_its_last_request() {
        let connections = connections(7, 3);
        let connection = connections.admit(address("10.0.0.1")).unwrap();
        assert_eq!(connection.identity(), None);
        for name in ["ada", "ada", "bob"] {
            connection.identify(name);
            assert_eq!(connection.identity().as_deref(), Some(name));
        }
        let limits = connection.limits();
        assert_eq!((limits.connections, limits.connections_each), (7, 3));
    }
}
