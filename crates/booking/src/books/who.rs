//! Who asks, and as what.

use crate::error::{Error, Result};
use crate::word::Moment;

/// Somebody whose identity has been proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// What the owner of a reservation is called, and what the journal says.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

/// What somebody may do; each may do what those before it may, but a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// What keeps circuits: it says what became of them.
    Device,
    /// See and change what is theirs.
    User,
    /// See and change everything, and plan outages.
    Operator,
    /// The same, and keep the service itself.
    Admin,
}

/// Who does something, when and why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act<'a> {
    pub(super) now: Moment,
    pub(super) who: &'a Who,
    pub(super) why: &'a str,
}

impl Who {
    /// Somebody of this name and role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
        }
    }

    /// Whether what is `owner`'s may be seen and changed.
    pub(crate) fn may(&self, owner: &str) -> bool {
        self.role >= Role::Operator || (self.role == Role::User && self.name == owner)
    }

    /// Refuses who is no operator.
    pub(crate) fn check_operator(&self, what: &'static str) -> Result<()> {
        self.check(self.role >= Role::Operator, what)
    }

    /// Refuses who neither is a device nor may speak for one.
    pub(crate) fn check_device(&self, what: &'static str) -> Result<()> {
        self.check(self.role != Role::User, what)
    }

    /// Refuses whom nothing could belong to.
    pub(crate) fn check_owner(&self) -> Result<()> {
        let has_name = !self.name.is_empty() && self.name.len() <= NAME_MAX;
        self.check(has_name && self.role != Role::Device, "book")
    }

    fn check(&self, may: bool, what: &'static str) -> Result<()> {
        may.then_some(()).ok_or_else(|| Error::Forbidden {
            who: self.name.clone(),
            what,
        })
    }
}

/// The longest name, which the journal keeps whole.
const NAME_MAX: usize = lighthaul_circuit::reservation::WHO_MAX;
