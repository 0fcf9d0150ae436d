//! Provider and its connections.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;
use lighthaul_booking_client::json::Timestamp;
use lighthaul_io::crypto::identity::random_octets;
use rusqlite::ErrorCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::config::{Config, Requester};
use super::connection::Connection;
use super::outgoing::Outgoing;
use super::resources::Resources;
use super::store::{DocumentKind, Store};
use crate::message::{ErrorId, Notification, NotificationKind, ServiceException};

/// Provider of circuits (an ultimate provider agent).
///
/// Every answer is in the store before it is sent. After a restart the same connections have the
/// same states, and what was requested is done.
pub struct Provider {
    pub(super) config: Config,
    pub(super) resources: Box<dyn Resources>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    state: Mutex<State>,
    /// True once the connections were compared with the reservations of the network.
    pub(super) is_compared: AtomicBool,
    /// True if new work is waiting.
    news: Mutex<bool>,
    changed: Condvar,
}

/// Connections, answers and undelivered messages.
#[derive(Debug)]
pub(super) struct State {
    pub(super) store: Store,
    /// Shared, so that the work of each second copies no connection that does not change.
    pub(super) connections: BTreeMap<String, Arc<Connection>>,
    /// Answers by requester and correlation.
    pub(super) answers: BTreeMap<String, Answer>,
    pub(super) outbox: BTreeMap<u64, Outgoing>,
    /// Numbers of the messages that are being sent.
    pub(super) sending: BTreeSet<u64>,
    /// URLs of waiting messages whose last delivery failed.
    pub(super) failing: BTreeSet<String>,
    /// Numbers of delivered messages that the store still has, since it failed. The next change removes them.
    pub(super) delivered: BTreeSet<u64>,
    /// Time at which this is tried next.
    pub(super) note_at: Timestamp,
}

/// Answer to a request, kept in case the request is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) key: String,
    /// Number, in the order of the answers.
    #[serde(default)]
    pub(super) nth: u64,
    pub(super) requester: String,
    pub(super) correlation_id: String,
    /// Fingerprint of the request.
    pub(super) digest: String,
    pub(super) connection_id: String,
    pub(super) document: String,
    pub(super) at: Timestamp,
}

/// Changes that are written together.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) connection: Option<Connection>,
    /// Other connections, each with a note of a message that was dropped for a newer one.
    pub(super) noted: Vec<Connection>,
    pub(super) answer: Option<Answer>,
    pub(super) outgoing: Vec<Outgoing>,
    /// Numbers of messages that need no delivery any more.
    pub(super) delivered: Vec<u64>,
    /// Connections and answers to delete.
    pub(super) forgotten: Vec<String>,
    pub(super) outdated: Vec<String>,
}

/// Response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// True if the document is a SOAP fault.
    pub is_fault: bool,
    /// Envelope in XML.
    pub document: String,
}

/// Store of a provider that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// File that another process uses.
    #[error(
        "cannot use the store of NSI connections {}: another scheduler has it open; stop that one, or give --nsi to one \
         of them only",
        .0.display()
    )]
    Locked(PathBuf),
    /// File that cannot be read or written.
    #[error(
        "cannot use the store of NSI connections: {0}; check the file, or remove it, which ends all circuits of NSI"
    )]
    Failed(String),
}

impl Provider {
    /// Opens a provider with its store.
    pub fn open(
        config: Config,
        store: &Path,
        resources: Box<dyn Resources>,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let store = Store::open(store).map_err(|why| match why.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                OpenError::Locked(store.to_owned())
            }
            _ => OpenError::Failed(why.to_string()),
        })?;
        let connections: Vec<Connection> = read(&store, DocumentKind::Connection)?;
        let answers: Vec<Answer> = read(&store, DocumentKind::Answer)?;
        let outbox: Vec<Outgoing> = read(&store, DocumentKind::Outgoing)?;
        let state = State {
            store,
            connections: connections
                .into_iter()
                .map(|one| (one.id.clone(), Arc::new(one)))
                .collect(),
            answers: answers
                .into_iter()
                .map(|one| (one.key.clone(), one))
                .collect(),
            outbox: outbox.into_iter().map(|one| (one.nth, one)).collect(),
            sending: BTreeSet::new(),
            failing: BTreeSet::new(),
            delivered: BTreeSet::new(),
            note_at: Timestamp(0),
        };
        Ok(Self {
            config,
            resources,
            clock: Box::new(clock),
            state: Mutex::new(state),
            is_compared: AtomicBool::new(false),
            news: Mutex::new(true),
            changed: Condvar::new(),
        })
    }

    /// Returns the settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Wakes the threads that wait.
    pub fn wake(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for a change, up to `longest`.
    pub fn wait(&self, longest: Duration) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(news, longest, |news| !*news);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn requester(&self, nsa: &str) -> Option<&Requester> {
        self.config.requesters.iter().find(|one| one.nsa == nsa)
    }

    pub(super) fn exception(&self, id: ErrorId, text: impl Into<String>) -> ServiceException {
        ServiceException::new(&self.config.nsa, id, text)
    }

    /// Writes changes to the store, and then to memory.
    pub(super) fn apply(&self, state: &mut State, mut change: Change) -> rusqlite::Result<()> {
        change.delivered.extend(&state.delivered);
        self.make_room(state, &mut change);
        let documents = documents(&change);
        state.store.write(&documents)?;
        state.delivered.clear();
        for id in &change.forgotten {
            state.connections.remove(id);
        }
        for key in &change.outdated {
            state.answers.remove(key);
        }
        for nth in &change.delivered {
            state.outbox.remove(nth);
        }
        let new = change.connection.into_iter().chain(change.noted);
        state
            .connections
            .extend(new.map(|one| (one.id.clone(), Arc::new(one))));
        let new = change.answer.into_iter();
        state.answers.extend(new.map(|one| (one.key.clone(), one)));
        let new = change.outgoing.into_iter();
        state.outbox.extend(new.map(|one| (one.nth, one)));
        if !change.delivered.is_empty() && !state.failing.is_empty() {
            let urls: BTreeSet<&String> = state.outbox.values().map(|one| &one.url).collect();
            state.failing.retain(|url| urls.contains(url));
        }
        Ok(())
    }

    /// Drops a message of a requester for each new one above [`WAITING_MAX`]: the oldest one of the URL with the most, so
    /// that a silent URL costs no other URL its messages. Its connection keeps a note. A message that is being sent is
    /// kept, since the requester may receive it.
    fn make_room(&self, state: &State, change: &mut Change) {
        let new = change.outgoing.iter();
        let new = new.filter(|one| !state.outbox.contains_key(&one.nth));
        let new: Vec<String> = new.map(|one| one.requester.clone()).collect();
        for (nth, requester) in new.iter().enumerate() {
            let is_left = |one: &&Outgoing| {
                one.requester == *requester && !change.delivered.contains(&one.nth)
            };
            let waiting: Vec<&Outgoing> = state.outbox.values().filter(is_left).collect();
            let earlier = new[..nth].iter().filter(|other| *other == requester);
            if waiting.len() + earlier.count() < WAITING_MAX {
                continue;
            }
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            for one in &waiting {
                *counts.entry(&one.url).or_default() += 1;
            }
            let idle = waiting.iter();
            let idle = idle.filter(|one| !state.sending.contains(&one.nth));
            let count = |one: &Outgoing| counts.get(one.url.as_str()).copied();
            let Some(oldest) = idle.max_by_key(|one| (count(one), Reverse(one.nth))) else {
                continue;
            };
            warn!(
                connection = oldest.connection_id,
                "{WAITING_MAX} messages wait for {requester}, so the oldest one ({}) to {} is not delivered; check that this \
                 URL receives messages",
                oldest.name,
                oldest.url
            );
            change.delivered.push(oldest.nth);
            let here = change.connection.iter_mut().chain(&mut change.noted);
            let mut here = here.filter(|one| one.id == oldest.connection_id);
            if let Some(connection) = here.next() {
                note_undelivered(connection, oldest, self.now());
            } else if let Some((connection, _)) = undelivered(state, oldest, self.now()) {
                change.noted.push(connection);
            }
        }
    }
}

impl State {
    /// Returns the number of the next message.
    pub(super) fn next_outgoing(&self) -> u64 {
        self.outbox.last_key_value().map_or(0, |(last, _)| last + 1)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

fn read<T: DeserializeOwned>(store: &Store, kind: DocumentKind) -> Result<Vec<T>, OpenError> {
    let all = store.all(kind);
    let all = all.map_err(|why| OpenError::Failed(why.to_string()))?;
    let all = all.iter().map(|document| serde_json::from_str(document));
    let all: serde_json::Result<Vec<T>> = all.collect();
    all.map_err(|why| OpenError::Failed(why.to_string()))
}

/// Returns the documents of changes.
fn documents(change: &Change) -> Vec<(DocumentKind, String, Option<String>)> {
    let mut documents = Vec::new();
    for id in &change.forgotten {
        documents.push((DocumentKind::Connection, id.clone(), None));
    }
    for key in &change.outdated {
        documents.push((DocumentKind::Answer, key.clone(), None));
    }
    for nth in &change.delivered {
        documents.push((DocumentKind::Outgoing, format!("{nth:020}"), None));
    }
    for one in change.connection.iter().chain(&change.noted) {
        documents.push((DocumentKind::Connection, one.id.clone(), text(one)));
    }
    if let Some(one) = &change.answer {
        documents.push((DocumentKind::Answer, one.key.clone(), text(one)));
    }
    for one in &change.outgoing {
        documents.push((DocumentKind::Outgoing, one.key(), text(one)));
    }
    documents
}

/// Returns the JSON of a document. Our types always have one.
fn text(document: &impl Serialize) -> Option<String> {
    serde_json::to_string(document).ok()
}

/// Returns a connection without the message that is given up and with a note about it, and the note.
pub(super) fn undelivered(
    state: &State,
    outgoing: &Outgoing,
    now: Timestamp,
) -> Option<(Connection, Notification)> {
    let mut connection = Connection::clone(state.connections.get(&outgoing.connection_id)?);
    let note = note_undelivered(&mut connection, outgoing, now);
    Some((connection, note))
}

fn note_undelivered(
    connection: &mut Connection,
    outgoing: &Outgoing,
    now: Timestamp,
) -> Notification {
    let correlation_id = outgoing.correlation_id.clone();
    connection.changed = now;
    connection.notify(now, NotificationKind::DeliveryTimeout { correlation_id })
}

/// Returns a new random UUID (RFC 9562, version 4) as a URN.
pub(crate) fn uuid() -> String {
    let mut octets = random_octets::<16>();
    octets[6] = octets[6] & 0x0f | 0x40;
    octets[8] = octets[8] & 0x3f | 0x80;
    let hex = HEXLOWER.encode(&octets);
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    format!("urn:uuid:{}", parts.join("-"))
}

/// Maximum number of messages that wait for a requester.
const WAITING_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_and_of_version_4() {
        let all: BTreeSet<String> = (0..100).map(|_| uuid()).collect();
        assert_eq!(all.len(), 100);
        let place = |nth: usize| -> BTreeSet<u8> {
            all.iter()
                .map(|one| one.as_bytes()["urn:uuid:".len() + nth])
                .collect()
        };
        let form = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
        for (nth, letter) in form.bytes().enumerate() {
            let expected: &[u8] = match letter {
                // more digits than those with a bit that is set
                b'x' => {
                    assert!(place(nth).len() > 8, "{nth}");
                    b"0123456789abcdef"
                }
                b'y' => {
                    assert!(place(nth).len() > 2, "{nth}");
                    b"89ab"
                }
                b'4' => b"4",
                _ => b"-",
            };
            assert!(place(nth).iter().all(|one| expected.contains(one)), "{nth}");
        }
        assert!(
            all.iter()
                .all(|one| one.len() == "urn:uuid:".len() + form.len())
        );
    }
}
