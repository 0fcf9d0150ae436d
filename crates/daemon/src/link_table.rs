//! Links that other gateways have begun, found again by their caller's key and their name.
//!
//! A link is in the table from its first connection on. As long as a connection of it is being made or carries it, the link stays;
//! between connections it stays while it keeps sessions or octets for its peer to come back to. Only a key that
//! has more than its share loses links to others.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_gateway::line::Line;
use lighthaul_gateway::prefix::Prefix;
use lighthaul_gateway::settings::{LinkLimits, Settings};
use lighthaul_io::identity::Fingerprint;

/// Key of the gateway that calls, and the name that it gave the link.
pub(crate) type Name = (Fingerprint, [u8; 16]);

/// All links that others have begun.
#[derive(Debug)]
pub(crate) struct LinkTable {
    limits: LinkLimits,
    entries: Mutex<BTreeMap<Name, Entry>>,
    /// Number of the next link.
    next: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    /// Counts up from link to link.
    number: u64,
    /// Address that the link was begun from, or the network of 64 bits that it is in.
    from: Option<Prefix>,
    /// Nothing until both gateways have agreed on the link.
    line: Option<Line>,
    /// Connections of this link that are being made or carry it.
    connections: usize,
    /// Sessions of all links with this key.
    sessions: Arc<AtomicUsize>,
}

/// A connection's hold on its link; the link stays in the table at least as long, unless its key has more than its share.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    table: &'a LinkTable,
    name: Name,
    number: u64,
}

impl LinkTable {
    /// Returns a table without a link.
    pub(crate) fn new(limits: LinkLimits) -> Self {
        Self {
            limits,
            entries: Mutex::default(),
            next: AtomicU64::new(0),
        }
    }

    /// Takes hold of the link `name`, which need not exist yet, for a connection from an address.
    pub(crate) fn hold(&self, name: Name, from: IpAddr) -> Result<Hold<'_>, TooManyLinks> {
        let mut entries = self.lock();
        let mut left = retain(&mut entries, |_, entry| !entry.is_unused());
        let held = self.enter(&mut entries, name, host(from));
        drop(entries);
        let held = held.map(|(number, more)| {
            left.extend(more);
            number
        });
        end(&left);
        held.map(|number| Hold {
            table: self,
            name,
            number,
        })
    }

    /// Counts a connection of a link; answers the link's number, and the link that has to leave for it.
    fn enter(
        &self,
        entries: &mut BTreeMap<Name, Entry>,
        name: Name,
        from: Option<Prefix>,
    ) -> Result<(u64, Option<Line>), TooManyLinks> {
        if let Some(entry) = entries.get_mut(&name) {
            entry.connections += 1;
            return Ok((entry.number, None));
        }
        let left = self.make_room(entries, name.0, from)?;
        let number = self.next.fetch_add(1, Relaxed);
        insert(entries, name, (number, from));
        Ok((number, left))
    }

    /// Makes room for one more link of `key`; answers the link that has to leave for it.
    ///
    /// A key or address at its limit loses a link that is waiting for its connection to come back. Where all are in use, the key
    /// with the most links loses its newest one, if it has more than the newcomer will.
    fn make_room(
        &self,
        entries: &mut BTreeMap<Name, Entry>,
        key: Fingerprint,
        from: Option<Prefix>,
    ) -> Result<Option<Line>, TooManyLinks> {
        let of_key = |name: &Name, _: &Entry| name.0 == key;
        let of_host = |_: &Name, entry: &Entry| entry.from == from;
        let limits = self.limits;
        let count = |entries: &BTreeMap<Name, Entry>, is: &dyn Fn(&Name, &Entry) -> bool| {
            entries
                .iter()
                .filter(|(name, entry)| is(name, entry))
                .count()
        };
        let is_waiting = |entry: &Entry| entry.connections == 0;
        let victim = if count(entries, &of_key) >= limits.key {
            let own = entries.iter().filter(|(name, entry)| of_key(name, entry));
            let oldest = oldest(own.filter(|(_, entry)| is_waiting(entry)));
            oldest.ok_or(TooManyLinks::Key(limits.key))?
        } else if count(entries, &of_host) >= limits.address {
            let own = entries
                .iter()
                .filter(|(name, entry)| of_host(name, entry) && of_key(name, entry));
            let oldest = oldest(own.filter(|(_, entry)| is_waiting(entry)));
            oldest.ok_or(TooManyLinks::Address(limits.address))?
        } else if entries.len() >= limits.all {
            greediest(entries, key).ok_or(TooManyLinks::All(limits.all))?
        } else {
            return Ok(None);
        };
        Ok(entries.remove(&victim).and_then(|entry| entry.line))
    }

    /// Every link and its caller's key.
    pub(crate) fn all(&self) -> Vec<(Fingerprint, Line)> {
        let entries = self.lock();
        let lines = entries.iter().map(|((peer, _), entry)| (*peer, entry));
        lines
            .filter_map(|(peer, entry)| Some((peer, entry.line.clone()?)))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold<'_> {
    /// Returns the link, if it has begun and not ended.
    pub(crate) fn line(&self) -> Option<Line> {
        let entries = self.table.lock();
        let line = self.of(entries.get(&self.name))?.line.clone()?;
        (!line.is_over()).then_some(line)
    }

    /// Returns the link, which begins now if it has not.
    pub(crate) fn begin(&self, settings: &Arc<Settings>) -> io::Result<Line> {
        let mut entries = self.table.lock();
        let entry = entries
            .get_mut(&self.name)
            .filter(|entry| entry.number == self.number)
            .ok_or_else(|| io::Error::other("another gateway got its place"))?;
        if let Some(line) = entry.line.clone().filter(|line| !line.is_over()) {
            return Ok(line);
        }
        let line = Line::start(Arc::clone(settings))?;
        line.share_sessions(&entry.sessions);
        entry.line = Some(line.clone());
        Ok(line)
    }

    /// The entry that is held, unless it was replaced.
    fn of<'a>(&self, entry: Option<&'a Entry>) -> Option<&'a Entry> {
        entry.filter(|entry| entry.number == self.number)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut entries = self.table.lock();
        let entry = entries.get_mut(&self.name);
        if let Some(entry) = entry.filter(|entry| entry.number == self.number) {
            entry.connections -= 1;
        }
        let left = retain(&mut entries, |name, entry| {
            *name != self.name || !entry.is_unused()
        });
        drop(entries);
        end(&left);
    }
}

impl Entry {
    fn is_unused(&self) -> bool {
        let kept = |line: &Line| !line.is_over() && line.status().is_kept();
        self.connections == 0 && !self.line.as_ref().is_some_and(kept)
    }
}

/// Removes all entries but those to keep; answers the links of the others.
fn retain(entries: &mut BTreeMap<Name, Entry>, keep: impl Fn(&Name, &Entry) -> bool) -> Vec<Line> {
    let left = entries.extract_if(.., |name, entry| !keep(name, entry));
    left.filter_map(|(_, entry)| entry.line).collect()
}

/// Ends links that left the table. To be called without its lock, since a link's thread may be busy.
fn end(lines: &[Line]) {
    lines.iter().for_each(Line::end);
}

/// Adds a link that has one connection and no line yet.
fn insert(entries: &mut BTreeMap<Name, Entry>, name: Name, (number, from): (u64, Option<Prefix>)) {
    let mut own = entries.iter().filter(|(other, _)| other.0 == name.0);
    let sessions = own.next().map(|(_, entry)| Arc::clone(&entry.sessions));
    let entry = Entry {
        number,
        from,
        line: None,
        connections: 1,
        sessions: sessions.unwrap_or_default(),
    };
    entries.insert(name, entry);
}

fn oldest<'a>(entries: impl Iterator<Item = (&'a Name, &'a Entry)>) -> Option<Name> {
    let oldest = entries.min_by_key(|(_, entry)| entry.number);
    oldest.map(|(name, _)| *name)
}

/// Returns the newest link of the key that has the most, if those are more than `key` will have.
fn greediest(entries: &BTreeMap<Name, Entry>, key: Fingerprint) -> Option<Name> {
    let mut counts: BTreeMap<Fingerprint, usize> = BTreeMap::new();
    for (key, _) in entries.keys() {
        *counts.entry(*key).or_default() += 1;
    }
    let own = counts.get(&key).copied().unwrap_or(0);
    let (most, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let theirs = entries.iter().filter(|(name, _)| name.0 == most);
    let newest = theirs.max_by_key(|(_, entry)| entry.number);
    newest.filter(|_| count > own + 1).map(|(name, _)| *name)
}

/// Returns the addresses that one host can have for itself.
fn host(address: IpAddr) -> Option<Prefix> {
    let address = address.to_canonical();
    Prefix::new(address, if address.is_ipv4() { 32 } else { 64 })
}

/// Why a link cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyLinks {
    /// Its key has as many as one may.
    #[error("all {0} links that one key may have there are in use; try again later")]
    Key(usize),
    /// Its address has.
    #[error("all {0} links that one address may have there are in use; try again later")]
    Address(usize),
    /// There are too many, and no key has more than its share.
    #[error("all {0} links are in use there; try again later")]
    All(usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use lighthaul_base::Size;
    use lighthaul_gateway::allowed::Allowed;
    use lighthaul_io::wait::pause;

    fn settings() -> Arc<Settings> {
        Arc::new(Settings {
            allowed: Arc::new(Allowed::default()),
            direct: Arc::new(Allowed::default()),
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
    };

    fn table(all: usize, key: usize, address: usize) -> LinkTable {
        LinkTable::new(LinkLimits { all, key, address })
    }

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn name(nth: u8) -> Name {
        (Fingerprint::from_octets([nth; 32]), [nth; 16])
    }

    /// Insists that a line's thread ends soon.
    fn assert_ends(line: &Line) {
        for _ in 0..1000 {
            if line.is_over() {
                return;
            }
            pause(Duration::from_millis(5));
        }
        panic!("the link goes on");
    }

    #[test]
    fn links_that_are_being_made_do_not_end_each_other() {
        let (table, settings) = (table(256, 256, 256), settings());
        let holds: Vec<_> = (0..64)
            .map(|nth| {
                let hold = table.hold(name(nth), address(nth)).unwrap();
                let line = hold.begin(&settings).unwrap();
                (hold, line)
            })
            .collect();
        for (nth, (hold, line)) in holds.iter().enumerate() {
            // a link that was ended has no answer to this any more
            line.pause();
            assert!(!line.is_over() && hold.line().is_some(), "{nth}");
        }
        assert_eq!(table.all().len(), 64);
    }

    #[test]
    fn a_link_that_nothing_holds_any_more_ends() {
        let (table, settings) = (table(256, 256, 256), settings());
        let hold = table.hold(name(1), address(1)).unwrap();
        assert!(
            hold.line().is_none() && table.all().is_empty(),
            "no thread for a greeting"
        );
        let again = table.hold(name(1), address(1)).unwrap();
        let line = hold.begin(&settings).unwrap();
        assert!(again.begin(&settings).is_ok());
        assert_eq!(table.all().len(), 1, "two connections of one link");
        drop(hold);
        assert!(
            again.line().is_some(),
            "the other connection still holds it"
        );
        drop(again);
        assert!(table.all().is_empty());
        assert_ends(&line);
    }

    #[test]
    fn a_link_that_has_ended_begins_anew() {
        let (table, settings) = (table(256, 256, 256), settings());
        let hold = table.hold(name(1), address(1)).unwrap();
        let line = hold.begin(&settings).unwrap();
        line.end();
        assert_ends(&line);
        assert!(hold.line().is_none());
        assert!(!hold.begin(&settings).unwrap().is_over());
    }

    #[test]
    fn a_key_and_an_address_have_limits_and_lose_only_links_without_connection() {
        let table = table(9, 3, 4);
        let mut holds: Vec<_> = (0..3)
            .map(|nth| table.hold((name(1).0, [nth; 16]), address(1)).unwrap())
            .collect();
        let more = |key, nth, from| table.hold((name(key).0, [nth; 16]), address(from));
        assert_eq!(more(1, 3, 2).unwrap_err(), TooManyLinks::Key(3));
        assert!(more(1, 0, 1).is_ok(), "it is there already");
        let _other = more(2, 0, 1).unwrap();
        assert_eq!(more(3, 0, 1).unwrap_err(), TooManyLinks::Address(4));
        let _elsewhere = more(3, 0, 2).unwrap();
        holds.pop();
        assert!(more(1, 3, 1).is_ok());
    }

    #[test]
    fn a_key_with_more_than_its_share_makes_room_for_others() {
        let (table, settings) = (table(8, 6, 8), settings());
        let greedy: Vec<_> = (0..6)
            .map(|nth| table.hold((name(1).0, [nth; 16]), address(1)).unwrap())
            .collect();
        let lines: Vec<_> = greedy
            .iter()
            .map(|hold| hold.begin(&settings).unwrap())
            .collect();
        let mut honest = Vec::new();
        for key in 2..7 {
            honest.push(table.hold(name(key), address(key)).unwrap());
        }
        assert_eq!(table.all().len(), 3, "the newest of six have left");
        for line in &lines[3..] {
            assert_ends(line);
        }
        assert!(greedy[5].begin(&settings).is_err() && greedy[0].line().is_some());
        let one_more = |key| table.hold(name(key), address(key)).map(drop);
        assert_eq!(one_more(7), Ok(()));
        assert!(
            honest.iter().all(|hold| hold.begin(&settings).is_ok()),
            "nobody else left"
        );
        let _seventh = table.hold(name(7), address(7)).unwrap();
        let _eighth = table.hold(name(8), address(8)).unwrap();
        assert_eq!(one_more(9), Err(TooManyLinks::All(8)));
    }
}
