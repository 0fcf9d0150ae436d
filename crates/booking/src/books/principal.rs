//! Identities of clients, and their roles.

use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::role::Role;

use crate::error::{Error, Result};

/// Authenticated identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Name, as in the owner of a reservation and in journals.
    pub name: String,
    /// Role.
    pub role: Role,
    /// True for a requester of NSI, which acts for many users.
    pub is_requester: bool,
}

/// Time, identity and reason of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Action<'a> {
    pub(super) now: Timestamp,
    pub(super) principal: &'a Principal,
    pub(super) why: &'a str,
}

impl Principal {
    /// Returns an identity.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self {
            name: name.into(),
            role,
            is_requester: false,
        }
    }

    /// Returns a requester of NSI, which has the rights of a user.
    pub fn requester(name: impl Into<String>) -> Self {
        Self {
            is_requester: true,
            ..Self::new(name, Role::User)
        }
    }

    /// Returns true if the identity may see and change objects of `owner`.
    pub fn may(&self, owner: &str) -> bool {
        self.role >= Role::Operator || (self.role == Role::User && self.name == owner)
    }

    /// Refuses identities that are not operators.
    pub(crate) fn check_operator(&self, action: &'static str) -> Result<()> {
        self.check(self.role >= Role::Operator, action)
    }

    /// Refuses users, because only operators may speak for a device.
    pub(crate) fn check_device(&self, action: &'static str) -> Result<()> {
        self.check(self.role != Role::User, action)
    }

    /// Refuses identities that cannot own a reservation.
    pub(crate) fn check_owner(&self) -> Result<()> {
        let has_name = !self.name.is_empty() && self.name.len() <= NAME_MAX;
        self.check(has_name && self.role != Role::Device, "book")
    }

    fn check(&self, may: bool, action: &'static str) -> Result<()> {
        may.then_some(()).ok_or_else(|| Error::Forbidden {
            name: self.name.clone(),
            action,
        })
    }
}

/// Maximum length of a name, which the journal stores unabridged.
const NAME_MAX: usize = lighthaul_booking_client::reservation::WHO_MAX;
