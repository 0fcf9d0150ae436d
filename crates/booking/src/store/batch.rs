//! Changes that are written to a store together.

use std::fmt;

/// Changes that are written completely or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Sequence number, above the previous batch and above all numbers given so far.
    pub seq: u64,
    /// New or deleted documents.
    pub documents: Vec<Document>,
    /// New events.
    pub events: Vec<EventDocument>,
    /// Sequence numbers of events to delete. A new event may be among them.
    pub events_gone: Vec<u64>,
}

/// Event in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDocument {
    /// Sequence number.
    pub seq: u64,
    /// Owner of its reservation.
    pub owner: String,
    /// Event as JSON.
    pub doc: String,
}

/// Document in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Kind.
    pub kind: DocumentKind,
    /// Key among documents of its kind.
    pub id: String,
    /// Content as JSON; `None` deletes the document.
    pub doc: Option<String>,
}

/// Kind of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DocumentKind {
    /// Reservation and its grant.
    Reservation,
    /// Outage of a link.
    Outage,
    /// Answer to a request with an idempotency key.
    Answer,
    /// Number of the latest event of an owner that was deleted. The key is the owner as JSON.
    DroppedEvent,
}

impl Batch {
    /// Returns true if there is nothing to write.
    pub const fn is_empty(&self) -> bool {
        self.documents.is_empty() && self.events.is_empty() && self.events_gone.is_empty()
    }
}

impl DocumentKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::Reservation,
        Self::Outage,
        Self::Answer,
        Self::DroppedEvent,
    ];

    /// Returns the name in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reservation => "reservation",
            Self::Outage => "outage",
            Self::Answer => "answer",
            Self::DroppedEvent => "dropped_event",
        }
    }

    /// Returns the kind of the name `name`.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for DocumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Document {
    /// Returns a document; `None` for `doc` deletes it.
    pub const fn new(kind: DocumentKind, id: String, doc: Option<String>) -> Self {
        Self { kind, id, doc }
    }
}
