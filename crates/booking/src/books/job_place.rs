//! Places of jobs: which servers and paths a job of a client may name.
//!
//! A worker runs jobs of several clients with its own rights. So a policy lists the places of each client. A text that
//! a copy may read in another way than this comparison is refused.

use std::fmt;
use std::str::FromStr;

/// Place on a daemon or in an object store, or a rule that permits such places.
///
/// A rule that ends in a slash permits all places below it. `{user}` in a rule is a whole part of the path, and stands
/// for the name of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlace {
    /// Scheme and server, as in `lh://far:4810`.
    server: String,
    /// Parts of the path.
    path: Vec<String>,
    /// True if the text ends in a slash.
    is_folder: bool,
}

/// Fault in the text of a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobPlaceError {
    /// Local path, path over ssh or unknown scheme.
    #[error(
        "a job cannot name {0}: local paths and paths over ssh are those of the worker; name a place as in lh://host/path or s3://bucket/key"
    )]
    Scheme(String),
    /// Characters that copies read in more than one way.
    #[error(
        "a job cannot name {0}: a place has no \"..\", no empty part, no pattern and no control character"
    )]
    Path(String),
}

impl FromStr for JobPlace {
    type Err = JobPlaceError;

    fn from_str(text: &str) -> Result<Self, JobPlaceError> {
        let shown = || text.chars().take(SHOWN_MAX).collect::<String>();
        let wrong = || JobPlaceError::Path(shown());
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        if !SCHEMES.contains(&scheme) {
            return Err(JobPlaceError::Scheme(shown()));
        }
        let (server, path) = rest.split_once('/').ok_or_else(wrong)?;
        let is_server = |letter: char| letter.is_ascii_alphanumeric() || "._-:[]$".contains(letter);
        if server.is_empty() || !server.chars().all(is_server) {
            return Err(wrong());
        }
        let (path, is_folder) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, path.is_empty()),
        };
        let parts = || path.split('/').filter(|_| !path.is_empty());
        let is_web = scheme == "https";
        let is_bad = |part: &str| {
            let pattern = part.contains(['*', '?', '[', ']', '\\']);
            let web = is_web && part.contains(['%', '#']);
            part.is_empty() || part == "." || part == ".." || pattern || web
        };
        if text.chars().any(char::is_control) || parts().any(is_bad) {
            return Err(wrong());
        }
        Ok(Self {
            server: format!("{scheme}://{server}"),
            path: parts().map(str::to_owned).collect(),
            is_folder,
        })
    }
}

impl JobPlace {
    /// Returns true for a place in an object store or at a web server, and false for one of a daemon.
    pub fn is_object(&self) -> bool {
        !self.server.starts_with("lh://")
    }

    /// Returns true for a place at a web server, which can only be a source.
    pub fn is_web(&self) -> bool {
        self.server.starts_with("https://")
    }

    /// Returns true if this rule permits `place` to the client `user`.
    pub fn permits(&self, place: &Self, user: &str) -> bool {
        // names with other letters could be parts of paths that are not theirs
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-@".contains(letter);
        let is_name = !user.starts_with('.') && !user.is_empty() && user.chars().all(is_plain);
        let fits = |(rule, part): (&String, &String)| match rule.as_str() {
            "{user}" => is_name && part == user,
            rule => part == rule,
        };
        let is_below = self.is_folder && place.path.len() >= self.path.len();
        let is_same = place.path.len() == self.path.len();
        self.server == place.server
            && (is_below || is_same)
            && self.path.iter().zip(&place.path).all(fits)
    }
}

impl fmt::Display for JobPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.is_folder && !self.path.is_empty() {
            "/"
        } else {
            ""
        };
        write!(f, "{}/{}{slash}", self.server, self.path.join("/"))
    }
}

/// Schemes of places that a worker reaches over the network, with rights that servers check.
const SCHEMES: [&str; 5] = ["lh", "s3", "gs", "az", "https"];
/// Most characters of a wrong place in a message.
const SHOWN_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> JobPlace {
        text.parse().unwrap()
    }

    #[test]
    fn places_on_the_worker_itself_are_refused() {
        for text in [
            "/etc/shadow",
            "results",
            "file:///etc/shadow",
            "host:path",
            "user@host:path",
            "-e",
            "--rsh=sh",
            "http://169.254.169.254/latest",
            "",
            "LH://far/a",
        ] {
            let why = text.parse::<JobPlace>().unwrap_err();
            assert!(matches!(why, JobPlaceError::Scheme(_)), "{text}: {why}");
        }
    }

    #[test]
    fn places_that_can_be_read_in_two_ways_are_refused() {
        for text in [
            "lh://far/a/../b",
            "lh://far/..",
            "lh://far/./a",
            "lh://far//a",
            "lh://far/a//",
            "lh://far",
            "lh:///a",
            "lh://me@far/a",
            "lh://far/a\nb",
            "lh://far/a\0",
            "lh://far/*",
            "lh://far/a\\b",
            "https://web/a%2e%2e/b",
            "https://web/a?b",
            "s3://b ucket/a",
        ] {
            let why = text.parse::<JobPlace>().unwrap_err();
            assert!(matches!(why, JobPlaceError::Path(_)), "{text}: {why}");
        }
        for text in ["lh://far/", "lh://far/a/", "lh://[::1]:4810/a", "s3://b/k"] {
            assert_eq!(place(text).to_string(), text);
        }
    }

    #[test]
    fn rule_permits_its_place_or_all_below_it() {
        let permits = |rule: &str, text: &str| place(rule).permits(&place(text), "ada");
        assert!(permits("lh://far/a/", "lh://far/a/b/c"));
        assert!(permits("lh://far/a/", "lh://far/a"));
        assert!(permits("lh://far/", "lh://far/a"));
        assert!(permits("lh://far/a", "lh://far/a/"));
        assert!(!permits("lh://far/a", "lh://far/a/b"));
        assert!(!permits("lh://far/a/", "lh://far/ab"));
        assert!(!permits("lh://far/a/", "lh://far/"));
        assert!(!permits("lh://far/a/", "lh://far.evil/a/b"));
        assert!(!permits("lh://far/a/", "lh://far:4811/a/b"));
        assert!(!permits("s3://far/a/", "lh://far/a/b"));
    }

    #[test]
    fn user_in_a_rule_is_the_name_of_the_client() {
        let rule = place("lh://far/home/{user}/");
        assert!(rule.permits(&place("lh://far/home/ada/x"), "ada"));
        assert!(!rule.permits(&place("lh://far/home/bob/x"), "ada"));
        assert!(!rule.permits(&place("lh://far/home/{user}/x"), "ada"));
        for name in ["", "..", "a/b", ".hidden", "a b"] {
            let home = JobPlace {
                server: "lh://far".to_owned(),
                path: vec!["home".to_owned(), name.to_owned()],
                is_folder: false,
            };
            assert!(!rule.permits(&home, name), "{name}");
        }
    }
}
