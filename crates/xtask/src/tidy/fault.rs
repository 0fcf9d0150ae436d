//! What is found.

use std::fmt;

/// Something that breaks a rule of the house.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Where, as `path` or `path:line`.
    pub(crate) place: String,
    /// What, and what to do about it.
    pub(crate) text: String,
    /// Whether it may stay for now.
    pub(crate) may_stay: bool,
}

impl Fault {
    /// Something to be mended.
    pub(crate) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
            may_stay: false,
        }
    }

    /// Something to look at again.
    pub(crate) fn that_may_stay(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            may_stay: true,
            ..Self::new(place, text)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.may_stay { "look again" } else { "tidy" };
        write!(f, "{mark}: {}: {}", self.place, self.text)
    }
}
