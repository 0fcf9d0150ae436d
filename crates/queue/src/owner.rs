//! Names of owners, which say where an owner comes from.
//!
//! A user of this host and a client of a scheduler may have the same name, and both may use one queue. They are
//! different owners: the name of the client begins with `rest:`. A user of a host has no colon in its name.

/// Returns the owner for a user of this host.
pub fn of_user(name: &str) -> String {
    name.replace(':', "_")
}

/// Returns the owner for a client of a scheduler.
pub fn of_client(name: &str) -> String {
    format!("{CLIENT}{name}")
}

/// Returns the name of the client of a scheduler, or none if the owner is a user of a host.
pub fn client_of(owner: &str) -> Option<&str> {
    owner.strip_prefix(CLIENT)
}

/// Begin of the names of clients.
const CLIENT: &str = "rest:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_client_of_one_name_are_different_owners() {
        assert_eq!(client_of(&of_client("ada")), Some("ada"));
        assert_eq!(client_of(&of_user("ada")), None);
        assert_eq!(client_of(&of_user("rest:ada")), None);
    }
}
