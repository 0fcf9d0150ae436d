//! Links that other gateways started, by the key of the other gateway and the name of the link.
//!
//! A link is listed from its first connection on. It stays while a connection carries it or is being negotiated.
//! Between connections it stays while it has sessions, or octets for its peer. Only a key that exceeds its share loses
//! links to other keys. Links, their memory and the sessions of programs are shared by the rules of
//! [`lighthaul_base::seats`].

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::Size;
use lighthaul_base::seats::{Full, Limits, Seats, Within};
use lighthaul_gateway::link_handle::LinkHandle;
use lighthaul_gateway::link_thread;
use lighthaul_gateway::quota::Quota;
use lighthaul_gateway::settings::Settings;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_io::host::poller::raise_open_file_limit;
use lighthaul_session::error::Error;

use crate::client_identity::ClientIdentity;
use crate::error::Fault;

/// Key of the gateway that connects, and its name for the link.
pub(crate) type Name = (Fingerprint, [u8; 16]);
/// Identity whose share the link uses (a key, or the credential that vouches for the key), and its address.
pub(crate) type Caller = (ClientIdentity, IpAddr);

/// All links that other gateways started.
#[derive(Debug)]
pub(crate) struct LinkTable {
    entries: Mutex<BTreeMap<Name, Entry>>,
    shares: Shares,
    lease: u64,
}

type Shares = Arc<Mutex<Seats<Fingerprint, RESOURCES>>>;

#[derive(Debug)]
struct Entry {
    identity: ClientIdentity,
    /// Share of the limits.
    share: Arc<Share>,
    /// None until both gateways have agreed on the parameters.
    handle: Option<LinkHandle>,
    /// Connections that carry this link or are being negotiated.
    connections: usize,
    /// Number of the latest connection, which alone may carry the link.
    latest: u64,
}

/// Share of a link in the limits, which is returned on drop.
#[derive(Debug)]
struct Share {
    shares: Shares,
    /// Number of the seat; a later link has a higher one.
    number: u64,
    /// One for a link that another gateway started, zero for a link that this gateway started.
    links: u64,
    /// MiB of memory.
    memory: AtomicU64,
    /// Number of sessions with reserved places.
    sessions: AtomicU64,
    /// Number of places that are reserved in advance for sessions.
    lease: u64,
}

/// Guard of a connection, which keeps its link in the table while the link's key is within its share.
#[derive(Debug)]
pub(crate) struct LinkHold<'a> {
    table: &'a LinkTable,
    name: Name,
    share: Arc<Share>,
    /// Number of the connection within the link.
    connection: u64,
}

impl LinkTable {
    /// Creates an empty table.
    pub(crate) fn new(settings: &Settings) -> Self {
        let limits = limits(settings, raise_open_file_limit());
        // with a small limit, each place is reserved by itself
        let is_large = limits[SESSIONS].identity >= 64 * LEASE;
        Self {
            entries: Mutex::default(),
            shares: Arc::new(Mutex::new(Seats::new(limits))),
            lease: if is_large { LEASE } else { 0 },
        }
    }

    /// Finds or creates the link `name` for a connection of `caller`.
    pub(crate) fn hold(&self, name: Name, caller: Caller) -> Result<LinkHold<'_>, Error> {
        let mut entries = self.lock();
        let mut left = retain(&mut entries, |_, entry| !entry.is_unused());
        let held = self.enter(&mut entries, name, caller);
        drop(entries);
        let held = held.map(|(share, connection, more)| {
            left.extend(more);
            (share, connection)
        });
        end(&left);
        let (share, connection) = held.map_err(refuse)?;
        Ok(LinkHold {
            table: self,
            name,
            share,
            connection,
        })
    }

    /// Counts a connection of a link. Returns the share of the link, the connection's number, and the links that end
    /// for it.
    fn enter(
        &self,
        entries: &mut BTreeMap<Name, Entry>,
        name: Name,
        (identity, from): Caller,
    ) -> Result<(Arc<Share>, u64, Vec<LinkHandle>), Full> {
        if let Some(entry) = entries.get_mut(&name) {
            entry.connections += 1;
            entry.latest += 1;
            return Ok((Arc::clone(&entry.share), entry.latest, Vec::new()));
        }
        let mut left = Vec::new();
        let take = || lock(&self.shares).take_vouched(identity.vouched(), from, ONE);
        let allocated = match take() {
            // a key at its limit loses its oldest link without a connection
            Err(full) if full.within != Within::All => {
                let waiting = oldest_waiting(entries, identity).ok_or(full)?;
                left.extend(entries.remove(&waiting).and_then(Entry::leave));
                take()?
            }
            allocated => allocated?,
        };
        left.extend(retain(entries, |_, entry| {
            !allocated.revoked.contains(&entry.share.number)
        }));
        let share = Arc::new(Share {
            shares: Arc::clone(&self.shares),
            number: allocated.number,
            links: ONE[0],
            memory: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            lease: self.lease,
        });
        let entry = Entry {
            identity,
            share: Arc::clone(&share),
            handle: None,
            connections: 1,
            latest: 0,
        };
        entries.insert(name, entry);
        Ok((share, 0, left))
    }

    /// Returns the quota of sessions for a link that this gateway started.
    pub(crate) fn own_quota(&self) -> Arc<dyn Quota> {
        let allocated = lock(&self.shares).take(None, Ipv4Addr::LOCALHOST.into(), [0; RESOURCES]);
        Arc::new(Share {
            shares: Arc::clone(&self.shares),
            // a seat without resources is never refused
            number: allocated.map_or(u64::MAX, |allocated| allocated.number),
            links: 0,
            memory: AtomicU64::new(0),
            sessions: AtomicU64::new(0),
            lease: self.lease,
        })
    }

    /// Returns every link with the key of its peer.
    pub(crate) fn all(&self) -> Vec<(Fingerprint, LinkHandle)> {
        let entries = self.lock();
        let lines = entries.iter().map(|((peer, _), entry)| (*peer, entry));
        lines
            .filter_map(|(peer, entry)| Some((peer, entry.handle.clone()?)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Entry>> {
        lock(&self.entries)
    }
}

impl LinkHold<'_> {
    /// Returns the link, if it is running.
    pub(crate) fn handle(&self) -> Option<LinkHandle> {
        let entries = self.table.lock();
        let entry = entries.get(&self.name);
        let handle = entry.filter(|entry| self.is_of(entry))?.handle.clone()?;
        (!handle.is_over()).then_some(handle)
    }

    /// Returns true if no later connection of the link has arrived. An earlier one may still be negotiated by a slow
    /// host when its peer has long called again, and must not take the link back.
    pub(crate) fn is_latest(&self) -> bool {
        let entries = self.table.lock();
        let entry = entries.get(&self.name);
        entry.is_some_and(|entry| self.is_of(entry) && entry.latest == self.connection)
    }

    /// Returns the link, and starts it if it is not running.
    pub(crate) fn begin(&self, settings: &Arc<Settings>) -> Result<LinkHandle, Fault> {
        let mut entries = self.table.lock();
        let entry = entries
            .get_mut(&self.name)
            .filter(|entry| self.is_of(entry))
            .ok_or_else(|| {
                let why = "it was ended to make room for links of other gateways";
                Fault::LinkStart(io::Error::other(why))
            })?;
        if entry.latest != self.connection {
            return Err(Fault::LinkReplaced);
        }
        if let Some(handle) = entry.handle.clone().filter(|handle| !handle.is_over()) {
            return Ok(handle);
        }
        let settings = Arc::new(self.share.of(settings));
        let handle = link_thread::start(settings).map_err(Fault::LinkStart)?;
        handle.share_sessions(Arc::clone(&self.share) as Arc<dyn Quota>);
        entry.handle = Some(handle.clone());
        Ok(handle)
    }

    /// Returns false if another entry has replaced the held one.
    fn is_of(&self, entry: &Entry) -> bool {
        entry.share.number == self.share.number
    }
}

impl Drop for LinkHold<'_> {
    fn drop(&mut self) {
        let mut entries = self.table.lock();
        let entry = entries.get_mut(&self.name);
        if let Some(entry) = entry.filter(|entry| self.is_of(entry)) {
            entry.connections -= 1;
        }
        let left = retain(&mut entries, |name, entry| {
            *name != self.name || !entry.is_unused()
        });
        drop(entries);
        end(&left);
    }
}

impl Share {
    /// Returns `settings` with the memory of the link instead of the maximum.
    fn of(&self, settings: &Settings) -> Settings {
        Settings {
            memory: self.take_memory(settings.memory),
            ..Settings::clone(settings)
        }
    }

    /// Takes half of the memory that the key has left, in addition to the minimum. All links of the key have `most`.
    fn take_memory(&self, most: Size) -> Size {
        let mut shares = lock(&self.shares);
        let spare = shares.spare(self.number, MEMORY) + self.memory.load(Relaxed);
        let mib = spare.div_ceil(2);
        self.memory.store(mib, Relaxed);
        self.apply(&mut shares, self.sessions.load(Relaxed));
        Size(((MEMORY_MIN + mib) << 20).min(most.0))
    }

    /// Applies the share with a number of sessions. Returns false if the limits do not allow it.
    fn apply(&self, shares: &mut Seats<Fingerprint, RESOURCES>, sessions: u64) -> bool {
        // no link ends for a session of another link
        let more = sessions.saturating_sub(self.sessions.load(Relaxed));
        let may = shares.spare(self.number, SESSIONS) >= more;
        if may {
            self.sessions.store(sessions, Relaxed);
        }
        let (sessions, memory) = (self.sessions.load(Relaxed), self.memory.load(Relaxed));
        may && shares
            .reuse(self.number, [self.links, sessions, memory])
            .is_ok()
    }
}

impl Quota for Share {
    fn may_have(&self, sessions: usize) -> bool {
        let wanted = sessions as u64;
        let has = self.sessions.load(Relaxed);
        if wanted <= has && has <= wanted + 2 * self.lease {
            return true;
        }
        let mut shares = lock(&self.shares);
        self.apply(&mut shares, wanted + self.lease) || self.apply(&mut shares, wanted)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        lock(&self.shares).leave(self.number);
    }
}

impl Entry {
    /// Returns the share to the limits. Returns the link, whose thread may still hold the share.
    fn leave(self) -> Option<LinkHandle> {
        lock(&self.share.shares).leave(self.share.number);
        self.handle
    }

    fn is_unused(&self) -> bool {
        let stays = |handle: &LinkHandle| stays(handle.is_over(), handle.status().is_kept());
        self.connections == 0 && !self.handle.as_ref().is_some_and(stays)
    }
}

/// Returns true if a link stays between connections: the link runs, and the peer can resume it.
const fn stays(is_over: bool, is_kept: bool) -> bool {
    !is_over && is_kept
}

/// Returns the limits of each resource for `files` descriptors. A session uses one, and for moments two.
fn limits(settings: &Settings, files: u64) -> [Limits; RESOURCES] {
    let links = settings.links;
    // the rest is for connections between gateways, and for clients that are not admitted yet
    let sessions = files / 8 * 3;
    [
        Limits {
            identity: links.key as u64,
            authority: Limits::parts_of(links.all as u64)
                .authority
                .max(links.key as u64),
            host: links.address as u64,
            site: Limits::parts_of(links.all as u64)
                .site
                .max(links.address as u64),
            all: links.all as u64,
        },
        Limits {
            identity: (settings.sessions_max as u64).min(sessions / 2),
            ..Limits::parts_of(sessions)
        },
        Limits {
            identity: beyond_the_least(settings.memory, links.key),
            ..Limits::parts_of(beyond_the_least(links.memory, links.all))
        },
    ]
}

/// Returns the MiB of `memory` that `links` share in addition to their minimum. No link has to end for the memory of
/// another one.
fn beyond_the_least(memory: Size, links: usize) -> u64 {
    let mib = memory.0 >> 20;
    mib - (MEMORY_MIN * links as u64).min(mib / 2)
}

/// Removes the entries that `keep` rejects, and returns their links.
fn retain(
    entries: &mut BTreeMap<Name, Entry>,
    keep: impl Fn(&Name, &Entry) -> bool,
) -> Vec<LinkHandle> {
    let left = entries.extract_if(.., |name, entry| !keep(name, entry));
    left.filter_map(|(_, entry)| entry.leave()).collect()
}

/// Ends links that left the table. Must be called without its lock, since the thread of a link may be busy.
fn end(lines: &[LinkHandle]) {
    lines.iter().for_each(LinkHandle::end);
}

/// Returns the oldest link of `identity` that has no connection.
fn oldest_waiting(entries: &BTreeMap<Name, Entry>, identity: ClientIdentity) -> Option<Name> {
    let own = entries
        .iter()
        .filter(|(_, entry)| entry.identity.print == identity.print);
    let waiting = own.filter(|(_, entry)| entry.connections == 0);
    let oldest = waiting.min_by_key(|(_, entry)| entry.share.number);
    oldest.map(|(name, _)| *name)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the error for a gateway that gets no share of the resource in `full`.
fn refuse(full: Full) -> Error {
    let what = NAMES[full.resource];
    Fault::NoneFree { what, full }.into()
}

/// Resources of a link: one link, sessions of programs, MiB of memory.
const RESOURCES: usize = 3;
const NAMES: [&str; RESOURCES] = ["links", "sessions", "MiB of memory"];
const ONE: [u64; RESOURCES] = [1, 0, 0];
const SESSIONS: usize = 1;
const MEMORY: usize = 2;
/// Minimum MiB of a link; less memory does not hold a slab.
const MEMORY_MIN: u64 = 4;
/// Number of sessions with places that are reserved at a time, if many are allowed.
const LEASE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use lighthaul_base::Size;
    use lighthaul_gateway::settings::LinkLimits;
    use lighthaul_gateway::target_rules::TargetRules;
    use lighthaul_io::host::wait::pause;

    fn settings() -> Arc<Settings> {
        Arc::new(Settings {
            allowed: Arc::new(TargetRules::default()),
            direct: Arc::new(TargetRules::default()),
            rate: None,
            booked: false,
            memory: Size(1 << 20),
            slab: Size(1 << 16),
            age: Duration::from_millis(1),
            patience: Duration::from_secs(1),
            keepalive: Duration::from_secs(1),
            sessions_max: 1,
            links: LIMITS,
            onward: None,
        })
    }

    const LIMITS: LinkLimits = LinkLimits {
        all: 256,
        key: 256,
        address: 256,
        memory: Size(4 << 30),
    };

    fn table(all: usize, key: usize, address: usize) -> LinkTable {
        LinkTable::new(&Settings {
            links: LinkLimits {
                all,
                key,
                address,
                ..LIMITS
            },
            ..Settings::clone(&settings())
        })
    }

    /// Returns a host in a network of its own.
    fn address(nth: u8) -> IpAddr {
        IpAddr::from([10, 0, nth, 1])
    }

    fn name(nth: u8) -> Name {
        (Fingerprint::from_octets([nth; 32]), [nth; 16])
    }

    fn hold(table: &LinkTable, name: Name, from: u8) -> Result<LinkHold<'_>, Error> {
        table.hold(name, (ClientIdentity::listed(name.0), address(from)))
    }

    /// Asserts that the thread of a link ends soon.
    fn assert_ends(handle: &LinkHandle) {
        for _ in 0..1000 {
            if handle.is_over() {
                return;
            }
            pause(Duration::from_millis(5));
        }
        panic!("the link still runs");
    }

    #[test]
    fn links_in_negotiation_do_not_end_each_other() {
        let (table, settings) = (table(256, 256, 256), settings());
        let holds: Vec<_> = (0..64)
            .map(|nth| {
                let hold = hold(&table, name(nth), nth).unwrap();
                let handle = hold.begin(&settings).unwrap();
                (hold, handle)
            })
            .collect();
        for (nth, (hold, handle)) in holds.iter().enumerate() {
            // fails for a link that was ended
            handle.detach();
            assert!(!handle.is_over() && hold.handle().is_some(), "{nth}");
        }
        assert_eq!(table.all().len(), 64);
    }

    #[test]
    fn only_a_running_link_that_can_be_resumed_stays_between_connections() {
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        let stay = ways.map(|(is_over, is_kept)| stays(is_over, is_kept));
        assert_eq!(stay, [false, true, false, false]);
    }

    #[test]
    fn link_ends_with_its_last_connection() {
        let (table, settings) = (table(256, 256, 256), settings());
        let first = hold(&table, name(1), 1).unwrap();
        assert!(
            first.handle().is_none() && table.all().is_empty(),
            "a greeting starts no thread"
        );
        let handle = first.begin(&settings).unwrap();
        let again = hold(&table, name(1), 1).unwrap();
        assert!(again.begin(&settings).is_ok());
        assert_eq!(table.all().len(), 1, "two connections of one link");
        drop(first);
        assert!(
            again.handle().is_some(),
            "the other connection still holds it"
        );
        drop(again);
        assert!(table.all().is_empty());
        assert_ends(&handle);
    }

    #[test]
    fn slow_connection_does_not_take_a_link_back_from_a_later_connection() {
        let (table, settings) = (table(256, 256, 256), settings());
        let slow = hold(&table, name(1), 1).unwrap();
        assert!(slow.is_latest());
        let later = hold(&table, name(1), 1).unwrap();
        assert!(!slow.is_latest() && later.is_latest());
        let refused = slow.begin(&settings).unwrap_err();
        assert!(matches!(refused, Fault::LinkReplaced), "{refused}");
        assert!(later.begin(&settings).is_ok());
        assert!(slow.begin(&settings).is_err());
        drop(slow);
        assert!(later.handle().is_some());
    }

    #[test]
    fn ended_link_can_be_started_again() {
        let (table, settings) = (table(256, 256, 256), settings());
        let first = hold(&table, name(1), 1).unwrap();
        let handle = first.begin(&settings).unwrap();
        handle.end();
        assert_ends(&handle);
        assert!(first.handle().is_none());
        assert!(!first.begin(&settings).unwrap().is_over());
    }

    #[test]
    fn key_and_address_have_limits_and_lose_only_links_without_connection() {
        let table = table(20, 3, 5);
        let mut holds: Vec<_> = (0..3)
            .map(|nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap())
            .collect();
        let more = |key, nth, from| hold(&table, (name(key).0, [nth; 16]), from);
        let text = |error: Error| error.text();
        let refused = text(more(1, 3, 2).unwrap_err());
        assert!(refused.contains("your key already holds 3"), "{refused}");
        assert!(more(1, 1, 1).is_ok(), "the link is listed already");
        let _others = [2, 3, 4, 5, 6].map(|key| more(key, 0, 2).unwrap());
        let refused = text(more(7, 0, 2).unwrap_err());
        assert!(
            refused.contains("your address already holds 5"),
            "{refused}"
        );
        // also if the link of the closed connection still has a thread
        let _line = holds[0].begin(&settings()).unwrap();
        holds.remove(0);
        assert!(more(1, 3, 1).is_ok());
    }

    /// Enters links of these keys, of which those in `waiting` have lost their connection while octets for their
    /// peers wait.
    fn entered(table: &LinkTable, links: &[(u8, u8)], waiting: &[(u8, u8)]) {
        let mut entries = table.lock();
        for (key, nth) in links {
            let link = (name(*key).0, [*nth; 16]);
            let caller = (ClientIdentity::listed(link.0), address(*key));
            table.enter(&mut entries, link, caller).unwrap();
            let connections = usize::from(!waiting.contains(&(*key, *nth)));
            entries.get_mut(&link).unwrap().connections = connections;
        }
    }

    /// Enters one more link. Returns the refusal, and the links afterwards.
    fn enter(table: &LinkTable, key: u8, nth: u8) -> (Option<Within>, Vec<(u8, u8)>) {
        let mut entries = table.lock();
        let link = (name(key).0, [nth; 16]);
        let caller = (ClientIdentity::listed(link.0), address(key));
        let refused = table.enter(&mut entries, link, caller).err();
        let left = entries.keys().map(|(key, nth)| (key.octets()[0], nth[0]));
        (refused.map(|full| full.within), left.collect())
    }

    #[test]
    fn new_link_of_a_key_at_the_limit_replaces_the_oldest_waiting_link() {
        let table = table(20, 3, 20);
        entered(&table, &[(1, 1), (1, 2), (1, 3)], &[(1, 2), (1, 3)]);
        assert_eq!(enter(&table, 1, 4), (None, vec![(1, 1), (1, 3), (1, 4)]));
    }

    #[test]
    fn full_gateway_refuses_a_link_and_keeps_waiting_links() {
        let table = table(3, 3, 3);
        let links = [(1, 1), (2, 1), (3, 1)];
        entered(&table, &links, &[(1, 1)]);
        assert_eq!(enter(&table, 1, 2), (Some(Within::All), links.to_vec()));
    }

    #[test]
    fn connection_of_an_evicted_link_has_no_effect_on_its_successor() {
        let (table, settings) = (table(2, 2, 2), settings());
        let own = [1, 2].map(|nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap());
        // the newest link of the key ends for another key, and is held again later
        let other = hold(&table, name(2), 2).unwrap();
        drop(other);
        let again = hold(&table, (name(1).0, [2; 16]), 1).unwrap();
        let handle = again.begin(&settings).unwrap();
        let [_first, ended] = own;
        assert!(ended.handle().is_none() && ended.begin(&settings).is_err());
        drop(ended);
        assert!(again.handle().is_some() && !handle.is_over());
    }

    #[test]
    fn link_runs_with_its_share_of_the_memory() {
        let limits = Settings {
            memory: Size(256 << 20),
            ..Settings::clone(&settings())
        };
        let table = LinkTable::new(&limits);
        let hold = |nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap();
        let own = [hold(1), hold(2)];
        let gets = own.each_ref().map(|hold| hold.share.of(&limits).memory);
        assert_eq!(gets, [Size(68 << 20), Size(36 << 20)]);
    }

    #[test]
    fn places_of_sessions_are_reserved_in_advance_and_kept_for_small_changes() {
        let limits = Settings {
            sessions_max: 300,
            ..Settings::clone(&settings())
        };
        let mut table = LinkTable::new(&limits);
        table.lease = 64;
        let hold = hold(&table, name(1), 1).unwrap();
        let mut reserved = |sessions| {
            assert!(hold.share.may_have(sessions), "{sessions}");
            hold.share.sessions.load(Relaxed)
        };
        assert_eq!([1, 65, 0].map(&mut reserved), [65, 65, 65]);
        assert_eq!([200, 160, 10].map(&mut reserved), [264, 264, 74]);
        // all places of the key, without any in advance
        assert_eq!(reserved(300), 300);
    }

    #[test]
    fn ended_link_of_this_gateway_releases_its_session_places() {
        let table = table(256, 256, 256);
        let quota = table.own_quota();
        assert_eq!(lock(&table.shares).taken(), 1);
        drop(quota);
        assert_eq!(lock(&table.shares).taken(), 0);
    }

    #[test]
    fn sessions_use_at_most_three_eighths_of_the_open_files() {
        let settings = Settings {
            sessions_max: 1000,
            ..Settings::clone(&settings())
        };
        let sessions = limits(&settings, 800)[SESSIONS];
        assert_eq!((sessions.all, sessions.identity), (300, 150));
        let few = Settings {
            sessions_max: 100,
            ..settings
        };
        assert_eq!(limits(&few, 800)[SESSIONS].identity, 100);
    }

    #[test]
    fn links_of_one_key_share_memory_and_sessions_without_effect_on_other_keys() {
        let limits = Settings {
            memory: Size(256 << 20),
            sessions_max: 300,
            ..Settings::clone(&settings())
        };
        let table = LinkTable::new(&limits);
        let hold = |key, nth| hold(&table, (name(key).0, [nth; 16]), key).unwrap();
        let memory = |hold: &LinkHold<'_>| hold.share.take_memory(limits.memory).0 >> 20;
        let own: Vec<_> = (0..8).map(|nth| hold(1, nth)).collect();
        let gets: Vec<_> = own.iter().map(memory).collect();
        assert_eq!(gets, [68, 36, 20, 12, 8, 6, 5, 5]);
        assert!(gets.iter().sum::<u64>() <= 256);
        assert!(own[0].share.may_have(200) && own[1].share.may_have(60));
        assert!(!own[1].share.may_have(101) && own[1].share.may_have(100));
        let other = hold(2, 0);
        assert!(other.share.may_have(300) && memory(&other) == 68);
        // returned places are available to others
        assert!(own[0].share.may_have(0) && own[1].share.may_have(280));
    }

    #[test]
    fn key_above_its_share_loses_links_to_other_keys() {
        let (table, settings) = (table(8, 6, 8), settings());
        let greedy: Vec<_> = (0..6)
            .map(|nth| hold(&table, (name(1).0, [nth; 16]), 1).unwrap())
            .collect();
        let lines: Vec<_> = greedy
            .iter()
            .map(|hold| hold.begin(&settings).unwrap())
            .collect();
        let mut honest = Vec::new();
        for key in 2..7 {
            honest.push(hold(&table, name(key), key).unwrap());
        }
        assert_eq!(table.all().len(), 3, "the newest of six have ended");
        for handle in &lines[3..] {
            assert_ends(handle);
        }
        assert!(greedy[5].begin(&settings).is_err() && greedy[0].handle().is_some());
        let one_more = |key| hold(&table, name(key), key).map(drop);
        assert!(one_more(7).is_ok());
        assert!(
            honest.iter().all(|hold| hold.begin(&settings).is_ok()),
            "no other link ended"
        );
        let _seventh = hold(&table, name(7), 7).unwrap();
        let _eighth = hold(&table, name(8), 8).unwrap();
        let refused = one_more(9).unwrap_err().text();
        assert!(refused.contains("all 8 are in use"), "{refused}");
    }

    #[test]
    fn keys_of_one_identity_share_its_limit() {
        let table = table(20, 3, 5);
        let identity = ClientIdentity::listed(name(1).0);
        let more = |key| table.hold(name(key), (identity, address(key)));
        let _three = [1, 2, 3].map(|key| more(key).unwrap());
        let refused = more(4).unwrap_err().text();
        assert!(refused.contains("your key already holds 3"), "{refused}");
        assert!(hold(&table, name(4), 4).is_ok());
    }

    #[test]
    fn hosts_of_one_network_cannot_fill_the_table() {
        let table = table(16, 16, 8);
        let settled: Vec<_> = (0..20)
            .filter_map(|nth| {
                let from = IpAddr::from([10, 0, 0, nth]);
                let identity = ClientIdentity::listed(name(nth).0);
                table.hold(name(nth), (identity, from)).ok()
            })
            .collect();
        assert_eq!(settled.len(), 14);
        assert!(
            table
                .hold(
                    name(30),
                    (ClientIdentity::listed(name(30).0), [10, 9, 0, 1].into())
                )
                .is_ok()
        );
    }

    #[test]
    fn all_links_have_a_limit_of_memory_together() {
        let limits = Settings {
            memory: Size(64 << 20),
            links: LinkLimits {
                all: 16,
                key: 16,
                memory: Size(128 << 20),
                ..LIMITS
            },
            ..Settings::clone(&settings())
        };
        let table = LinkTable::new(&limits);
        let holds: Vec<_> = (0..16)
            .map(|nth| hold(&table, name(nth), nth).unwrap())
            .collect();
        let gets = holds
            .iter()
            .map(|hold| hold.share.take_memory(limits.memory));
        let gets: Vec<_> = gets.map(|size| size.0 >> 20).collect();
        assert_eq!(gets[..4], [20, 20, 20, 12]);
        assert!(gets.iter().all(|mib| *mib >= MEMORY_MIN), "{gets:?}");
        assert!(gets.iter().sum::<u64>() <= 128, "{gets:?}");
        assert_eq!(table.lock().len(), 16, "no link ended");
    }
}
