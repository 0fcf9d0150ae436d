//! What is written to a store at once.

use std::fmt;

/// What has changed: all of it is kept, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The number that follows that of the batch before: the last number that was given to anything.
    pub seq: u64,
    /// What is so from now on.
    pub facts: Vec<Fact>,
    /// What happened, as JSON, by its number.
    pub events: Vec<(u64, String)>,
    /// Events of lower numbers are forgotten.
    pub events_from: Option<u64>,
}

/// Something that is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about.
    pub kind: Kind,
    /// Which of its kind.
    pub id: String,
    /// How it is, as JSON; nothing if it is forgotten.
    pub doc: Option<String>,
}

/// What a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A reservation and what it was granted.
    Reservation,
    /// A time in which a link is out.
    Outage,
    /// The answer to a request that may be asked again.
    Answer,
}

impl Batch {
    /// Whether there is nothing to be written.
    pub const fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.events.is_empty() && self.events_from.is_none()
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Reservation, Self::Outage, Self::Answer];

    /// What a store calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reservation => "reservation",
            Self::Outage => "outage",
            Self::Answer => "answer",
        }
    }

    /// The kind of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Fact {
    /// What is so of one thing of a kind.
    pub const fn new(kind: Kind, id: String, doc: Option<String>) -> Self {
        Self { kind, id, doc }
    }
}
