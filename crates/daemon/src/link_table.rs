//! Links that other gateways have begun, found again by their caller's key and their name.
//!
//! A link is in the table from its first connection on. As long as a connection of it is being made or carries it, the link stays;
//! between connections it stays while it keeps sessions or octets for its peer to come back to. Nothing else ends it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_gateway::line::Line;
use lighthaul_gateway::settings::Settings;
use lighthaul_io::identity::Fingerprint;

/// Key of the gateway that calls, and the name that it gave the link.
pub(crate) type Name = (Fingerprint, [u8; 16]);

/// All links that others have begun.
#[derive(Debug, Default)]
pub(crate) struct LinkTable {
    entries: Mutex<BTreeMap<Name, Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Nothing until both gateways have agreed on the link.
    line: Option<Line>,
    /// Connections of this link that are being made or carry it.
    connections: usize,
}

/// A connection's hold on its link; the link stays in the table at least as long.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    table: &'a LinkTable,
    name: Name,
}

impl LinkTable {
    /// Takes hold of the link `name`, which need not exist yet.
    pub(crate) fn hold(&self, name: Name) -> Result<Hold<'_>, TooManyLinks> {
        let mut entries = self.lock();
        let left = retain(&mut entries, |_, entry| !entry.is_unused());
        if !entries.contains_key(&name) && entries.len() >= LINKS_MAX {
            return Err(TooManyLinks);
        }
        entries.entry(name).or_default().connections += 1;
        drop(entries);
        end(&left);
        Ok(Hold { table: self, name })
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
        let line = entries.get(&self.name)?.line.clone()?;
        (!line.is_over()).then_some(line)
    }

    /// Returns the link, which begins now if it has not.
    pub(crate) fn begin(&self, settings: &Arc<Settings>) -> io::Result<Line> {
        let mut entries = self.table.lock();
        let entry = entries.entry(self.name).or_default();
        if let Some(line) = entry.line.clone().filter(|line| !line.is_over()) {
            return Ok(line);
        }
        let line = Line::start(Arc::clone(settings))?;
        entry.line = Some(line.clone());
        Ok(line)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut entries = self.table.lock();
        if let Some(entry) = entries.get_mut(&self.name) {
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

/// Why a link cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{LINKS_MAX} links are in use there; try again later")]
pub(crate) struct TooManyLinks;

/// Most links that others have begun.
const LINKS_MAX: usize = 256;

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
            onward: None,
        })
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
        let (table, settings) = (LinkTable::default(), settings());
        let holds: Vec<_> = (0..64)
            .map(|nth| {
                let hold = table.hold(name(nth)).unwrap();
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
        let (table, settings) = (LinkTable::default(), settings());
        let hold = table.hold(name(1)).unwrap();
        assert!(
            hold.line().is_none() && table.all().is_empty(),
            "no thread for a greeting"
        );
        let again = table.hold(name(1)).unwrap();
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
        let (table, settings) = (LinkTable::default(), settings());
        let hold = table.hold(name(1)).unwrap();
        let line = hold.begin(&settings).unwrap();
        line.end();
        assert_ends(&line);
        assert!(hold.line().is_none());
        assert!(!hold.begin(&settings).unwrap().is_over());
    }

    #[test]
    fn a_link_too_many_is_refused_until_one_is_gone() {
        let table = LinkTable::default();
        let mut holds: Vec<_> = (0..LINKS_MAX)
            .map(|nth| table.hold((name(1).0, [nth as u8; 16])).unwrap())
            .collect();
        let more = || table.hold(name(2)).map(drop);
        assert_eq!(more(), Err(TooManyLinks));
        assert!(
            table.hold((name(1).0, [0; 16])).is_ok(),
            "it is there already"
        );
        holds.pop();
        assert_eq!(more(), Ok(()));
    }
}
