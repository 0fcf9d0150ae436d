//! Outcome of a check.

/// Outcome of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The driver passes the check.
    Passed,
    /// The check could not be done, for the given reason.
    NotApplicable(&'static str),
    /// The driver fails the check.
    Failed(String),
}
