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

/// Key of the gateway that connects, and the name that it gave to the link.
pub(crate) type Name = (Fingerprint, [u8; 16]);
/// Identity whose share of the gateway the link uses (a key, or the credential that vouches for it), and its address.
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
}

/// Share of a link in the limits, which is returned when this is dropped.
#[derive(Debug)]
struct Share {
    shares: Shares,
    /// Number of the seat; a later link has a higher one.
    number: u64,
    /// One for a link of another gateway, zero for one of this gateway.
    links: u64,
    /// MiB of memory, and sessions for which places are reserved.
    memory: AtomicU64,
    sessions: AtomicU64,
    /// Sessions for which places are reserved in advance.
    lease: u64,
}

/// Hold of a connection on its link, which keeps the link in the table unless its key exceeds its share.
#[derive(Debug)]
pub(crate) struct LinkHold<'a> {
    table: &'a LinkTable,
    name: Name,
    share: Arc<Share>,
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
        let held = held.map(|(share, more)| {
            left.extend(more);
            share
        });
        end(&left);
        let share = held.map_err(refuse)?;
        Ok(LinkHold {
            table: self,
            name,
            share,
        })
    }

    /// Counts a connection of a link. Returns the share of the link, and the links that end for it.
    fn enter(
        &self,
        entries: &mut BTreeMap<Name, Entry>,
        name: Name,
        (identity, from): Caller,
    ) -> Result<(Arc<Share>, Vec<LinkHandle>), Full> {
        if let Some(entry) = entries.get_mut(&name) {
            entry.connections += 1;
            return Ok((Arc::clone(&entry.share), Vec::new()));
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
        };
        entries.insert(name, entry);
        Ok((share, left))
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
    /// Returns the link, if it runs.
    pub(crate) fn handle(&self) -> Option<LinkHandle> {
        let entries = self.table.lock();
        let entry = entries.get(&self.name);
        let handle = entry.filter(|entry| self.is_of(entry))?.handle.clone()?;
        (!handle.is_over()).then_some(handle)
    }

    /// Returns the link, and starts it if it does not run.
    pub(crate) fn begin(&self, settings: &Arc<Settings>) -> io::Result<LinkHandle> {
        let mut entries = self.table.lock();
        let entry = entries
            .get_mut(&self.name)
            .filter(|entry| self.is_of(entry))
            .ok_or_else(|| {
                io::Error::other("it was ended to make room for links of other gateways")
            })?;
        if let Some(handle) = entry.handle.clone().filter(|handle| !handle.is_over()) {
            return Ok(handle);
        }
        let handle = link_thread::start(Arc::new(self.share.of(settings)))?;
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
    /// Returns `settings` with the memory of this link in place of the maximum.
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

    /// Applies the share with this number of sessions. Returns false if the limits do not allow it.
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

/// Returns true if a link stays between connections: it runs, and its peer can resume it.
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

/// Returns the error of a gateway that gets nothing of the resource that `full` names.
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
/// Minimum MiB of a link; less has no room for a slab.
const MEMORY_MIN: u64 = 4;
/// Sessions for which places are reserved at a time, if very many are allowed.
const LEASE: u64 = 64;

#[cfg(test)]
mod tests;
