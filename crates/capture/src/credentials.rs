//! Name and password that a gateway asks for.

use std::fmt;
use std::str::FromStr;

use subtle::ConstantTimeEq;

/// Name and password of programs.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    /// Creates credentials. Both parts have 1 to 255 octets, and the name no colon, as SOCKS5 and HTTP require.
    pub fn new(user: &str, password: &str) -> Result<Self, NoCredentials> {
        let fits = |text: &str| (1..=PART_MAX).contains(&text.len());
        if !fits(user) || !fits(password) || user.contains(':') {
            return Err(NoCredentials);
        }
        Ok(Self {
            user: user.to_owned(),
            password: password.to_owned(),
        })
    }

    /// Appends the SOCKS5 request with the credentials: section 2 of RFC 1929.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        for part in [&self.user, &self.password] {
            out.push(part.len() as u8);
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Returns true if the name and the password are equal. The comparison takes constant time.
    pub fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let same = padded(self.user.as_bytes()).ct_eq(&padded(user))
            & padded(self.password.as_bytes()).ct_eq(&padded(password));
        same.into()
    }
}

impl FromStr for Credentials {
    type Err = NoCredentials;

    fn from_str(text: &str) -> Result<Self, NoCredentials> {
        let (user, password) = text.split_once(':').ok_or(NoCredentials)?;
        Self::new(user, password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Fault of the text of credentials. The text is not shown, since it may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid credentials: write NAME:PASSWORD, each of 1 to 255 octets")]
pub struct NoCredentials;

/// Pads octets to a fixed length, so that the comparison reveals no length. Longer octets are never equal to valid
/// ones.
fn padded(octets: &[u8]) -> [u8; PART_MAX + 2] {
    let mut room = [0; PART_MAX + 2];
    let kept = octets.len().min(PART_MAX);
    room[..kept].copy_from_slice(&octets[..kept]);
    let len = octets.len().min(PART_MAX + 1) as u16;
    room[PART_MAX..].copy_from_slice(&len.to_be_bytes());
    room
}

/// RFC 1929, section 2.
const PART_MAX: usize = 255;
/// Version of the request: RFC 1929, section 2.
pub const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_matching_credentials_are_admitted() {
        let credentials: Credentials = "alice:se:cret".parse().unwrap();
        for (user, password, is_admitted) in [
            ("alice", "se:cret", true),
            ("alice", "se:cre", false),
            ("alice", "se:cret\0", false),
            ("alice", "", false),
            ("Alice", "se:cret", false),
            ("", "", false),
        ] {
            let admits = credentials.admits(user.as_bytes(), password.as_bytes());
            assert_eq!(admits, is_admitted, "{user} {password}");
        }
        let long = "a".repeat(255);
        let credentials = Credentials::new(&long, &long).unwrap();
        assert!(credentials.admits(long.as_bytes(), long.as_bytes()));
        assert!(!credentials.admits(format!("{long}a").as_bytes(), long.as_bytes()));
    }

    #[test]
    fn passwords_are_not_shown() {
        let credentials: Credentials = "alice:secret".parse().unwrap();
        assert!(!format!("{credentials:?}").contains("secret"));
        for text in [
            "",
            "alice",
            "alice:",
            ":secret",
            &format!("a:{}", "b".repeat(256)),
        ] {
            assert_eq!(text.parse::<Credentials>(), Err(NoCredentials));
        }
    }
}
