//! Roles as people write them.

use std::fmt;
use std::str::FromStr;

use crate::books::Role;

/// The roles that somebody can be given.
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

/// What is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no role: there are user, operator and admin")]
pub struct NotARole(String);

impl FromStr for Role {
    type Err = NotARole;

    fn from_str(text: &str) -> Result<Self, NotARole> {
        let role = NAMES.iter().find(|(_, name)| *name == text);
        role.map(|(role, _)| *role)
            .ok_or_else(|| NotARole(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_survives_being_written_and_each_may_more() {
        for (role, name) in NAMES {
            assert_eq!(name.parse(), Ok(role));
            assert_eq!(role.to_string(), name);
        }
        assert!("root".parse::<Role>().is_err());
        // nobody is made a device by a token
        assert!(Role::Device.to_string().parse::<Role>().is_err());
        assert!(Role::User < Role::Operator && Role::Operator < Role::Admin);
    }
}
