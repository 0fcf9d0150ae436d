//! Roles of identities at a scheduler, and their names.

use std::fmt;
use std::str::FromStr;

/// Rights of an identity. Each role includes those before it, except that of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reports the state of circuits.
    Device,
    /// May see and change its own reservations.
    User,
    /// Sees and changes all reservations, and plans outages.
    Operator,
    /// The rights of an operator, and administration of the service.
    Admin,
}

/// Roles that an operator can assign.
const NAMES: [(Role, &str); 3] = [
    (Role::User, "user"),
    (Role::Operator, "operator"),
    (Role::Admin, "admin"),
];

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(role, _)| role == self);
        f.write_str(name.map_or("device", |(_, name)| name))
    }
}

/// Unknown name of a role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role \"{0}\": use user, operator or admin")]
pub struct UnknownRole(String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let role = NAMES.iter().find(|(_, name)| *name == text);
        role.map(|(role, _)| *role)
            .ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_is_parsed_from_its_name_and_roles_are_ordered() {
        for (role, name) in NAMES {
            assert_eq!(name.parse(), Ok(role));
            assert_eq!(role.to_string(), name);
        }
        assert!("root".parse::<Role>().is_err());
        // the role of devices cannot be assigned
        assert!(Role::Device.to_string().parse::<Role>().is_err());
        assert!(Role::User < Role::Operator && Role::Operator < Role::Admin);
    }
}
