//! End points of paths: ports of domains, and names for them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use lighthaul_stargate::{DomainId, PortId};

use super::problem::Problem;

/// Port of a domain at which a path starts or ends. Its text is `DOMAIN:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Number of the domain.
    pub domain: DomainId,
    /// Port.
    pub port: PortId,
}

/// Text that is no end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an end point has the form DOMAIN:PORT, as in 64500:100")]
pub struct NotAnEndpoint;

impl Endpoint {
    /// Returns the end point of a text, which is `DOMAIN:PORT` or a name in `names`.
    pub fn find(text: &str, names: &BTreeMap<String, Self>) -> Result<Self, Problem> {
        let named = names.get(text).copied().ok_or(NotAnEndpoint);
        named.or_else(|_| text.parse()).map_err(|_| {
            let shown: String = text.chars().take(NAME_MAX).collect();
            Problem::UnknownEndpoint(shown)
        })
    }
}

/// Returns true for a name that the command line cannot mistake for anything else.
pub fn is_name(text: &str) -> bool {
    let is_plain = |one: char| one.is_alphanumeric() || "-_.".contains(one);
    let is_word = text.starts_with(char::is_alphabetic) && text.chars().all(is_plain);
    is_word && text.chars().count() <= NAME_MAX && !ACTIONS.contains(&text)
}

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        let (domain, port) = text.split_once(':').ok_or(NotAnEndpoint)?;
        let number = |text: &str| {
            let is_plain = text.bytes().all(|one| one.is_ascii_digit());
            let number = text.parse().ok().filter(|_| is_plain);
            number.ok_or(NotAnEndpoint)
        };
        Ok(Self {
            domain: DomainId(number(domain)?),
            port: PortId(number(port)?),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.domain.0, self.port.0)
    }
}

/// Maximum number of characters of a name.
const NAME_MAX: usize = 64;
/// Actions of `lighthaul path`, which stand where the first end point does.
const ACTIONS: [&str; 4] = ["list", "show", "cancel", "help"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_points_are_numbers_or_known_names() {
        let chicago: Endpoint = "64500:100".parse().unwrap();
        assert_eq!(chicago.to_string(), "64500:100");
        let names = [("chicago".to_owned(), chicago)].into();
        assert_eq!(Endpoint::find("chicago", &names), Ok(chicago));
        assert_eq!(Endpoint::find("64500:100", &names), Ok(chicago));
        for wrong in [
            "",
            "berlin",
            "1",
            "1:",
            ":1",
            "+1:2",
            "1:2:3",
            "4294967296:1",
        ] {
            let unknown = Problem::UnknownEndpoint(wrong.to_owned());
            assert_eq!(Endpoint::find(wrong, &names), Err(unknown));
        }
    }

    #[test]
    fn endpoint_name_cannot_be_a_subcommand() {
        assert!(["chicago", "dtn-1.example"].into_iter().all(is_name));
        let long = "x".repeat(NAME_MAX + 1);
        assert!(
            !["", "list", "1:2", "1", "-x", "a b", &long]
                .into_iter()
                .any(is_name)
        );
    }
}
