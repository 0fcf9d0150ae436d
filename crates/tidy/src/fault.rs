//! Faults that rules find.

use std::fmt;

/// Violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    /// Place, as `path` or `path:line`.
    pub(crate) place: String,
    /// Description, with the remedy.
    pub(crate) text: String,
    /// True for a mere warning.
    pub(crate) is_warning: bool,
}

impl Fault {
    /// Creates a fault that must be fixed.
    pub(crate) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
            is_warning: false,
        }
    }

    /// Creates a warning.
    pub(crate) fn warning(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            ..Self::new(place, text)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_warning { "warning" } else { "tidy" };
        write!(f, "{mark}: {}: {}", self.place, self.text)
    }
}
