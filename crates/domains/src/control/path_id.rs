//! IDs of paths as text.

use std::fmt;
use std::str::FromStr;

use lighthaul_stargate::CorrelationId;
use serde::{Deserialize, Serialize};

/// ID of a path, in the form of a UUID (RFC 9562).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathId(pub CorrelationId);

/// Text that is no ID of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ID of a path has 32 hexadecimal digits")]
pub struct NotAnId;

impl PathId {
    /// Returns the digits, without dashes.
    pub fn digits(self) -> String {
        format!("{:032x}", self.0.0)
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
        write!(f, "{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])
    }
}

impl FromStr for PathId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let digits: String = text.chars().filter(|one| *one != '-').take(33).collect();
        let is_whole = digits.len() == 32 && digits.bytes().all(|one| one.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).map_err(|_| NotAnId)?;
        let id = Self(CorrelationId(number));
        is_whole.then_some(id).ok_or(NotAnId)
    }
}

impl TryFrom<String> for PathId {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<Self, NotAnId> {
        text.parse()
    }
}

impl From<PathId> for String {
    fn from(id: PathId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips_through_text() {
        let id = PathId(CorrelationId(0x0123_4567_89ab_cdef_0011_2233_4455_6677));
        assert_eq!(id.to_string(), "01234567-89ab-cdef-0011-223344556677");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.digits().parse(), Ok(id));
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<PathId>(&json).unwrap(), id);
        for wrong in [
            "",
            "0123",
            "g123456789abcdef0011223344556677",
            "+1234567-89ab-cdef-0011-223344556677",
        ] {
            assert_eq!(wrong.parse::<PathId>(), Err(NotAnId), "{wrong}");
        }
        let long = "0".repeat(33);
        assert_eq!(long.parse::<PathId>(), Err(NotAnId));
    }
}
