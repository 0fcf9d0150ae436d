//! Places on the command line: local paths, and paths on other hosts.
//!
//! [`Place::parse`] reads five notations, as scp and rsync do where they have them:
//!
//! ```text
//! results/a.h5              Here     a slash before the first colon, or no colon
//! user@host:path            Ssh      [::1]:path for IPv6; relative to the home directory
//! lh://host[:port]/path     Daemon   port 4810 by default; relative to the root of the client
//! s3://bucket/key           Object   also gs and az; http and https for files of web servers
//! file:///path              Here     with percent signs as in URLs
//! lh://h1,h2/path           Daemon   the same path on several hosts, for striped copies ([`Place::parse_hosts`])
//! ```
//!
//! [`Place::with_host`] writes them again for messages. Nothing here opens a file or resolves a
//! name.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use lighthaul_base::unsigned;
use lighthaul_session::error::Error;

use crate::error::Fault;

/// Default port of a daemon.
pub const PORT: u16 = 4810;
/// Maximum number of hosts in one place.
const HOSTS_MAX: usize = 64;

/// A place that files are copied from or to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path on this host.
    Here(PathBuf),
    /// A path on another host, reached over ssh.
    Ssh {
        /// Name of the host, with the user if one is given.
        host: String,
        /// Path on the host.
        path: Vec<u8>,
    },
    /// A path behind a daemon.
    Daemon {
        /// Name or address of the host.
        host: String,
        /// Port of the daemon.
        port: u16,
        /// Path below the daemon's root.
        path: Vec<u8>,
    },
    /// An object or a prefix of keys in an object store, or a file of a web server.
    Object {
        /// Scheme of the URL: s3, gs, az, http or https.
        scheme: String,
        /// Bucket, container or web server.
        bucket: String,
        /// Key in the bucket, or the path on the server as it is in the URL.
        path: Vec<u8>,
    },
}

impl Place {
    /// Reads `[user@]host:path`, `lh://host[:port]/path` or a local path, like scp and rsync: a slash before the first
    /// colon makes it local.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(rest) = text.strip_prefix("lh://") {
            return Self::daemon(rest).ok_or_else(|| Fault::DaemonUrl(text.to_owned()).into());
        }
        if let Some(rest) = text.strip_prefix("file://") {
            let path = rest.starts_with('/').then(|| percent_decoded(rest));
            let path = path.ok_or_else(|| Fault::FileUrl(text.to_owned()))?;
            return Ok(Self::Here(PathBuf::from(OsString::from_vec(path))));
        }
        if let Some((scheme, rest)) = text.split_once("://")
            && SCHEMES.contains(&scheme)
        {
            return Self::object(scheme, rest)
                .ok_or_else(|| Fault::ObjectUrl(text.to_owned()).into());
        }
        if let Some((scheme, _)) = text.split_once("://")
            && !scheme.is_empty()
            && scheme.bytes().all(|octet| octet.is_ascii_alphanumeric())
        {
            return Err(Fault::Scheme(text.to_owned()).into());
        }
        match far(text) {
            None => Ok(Self::Here(PathBuf::from(with_slash(text)))),
            Some((host, path)) => {
                let host = host.replace(['[', ']'], "");
                // ssh would take it for an option, and options can start programs
                if host.starts_with('-') {
                    return Err(Fault::HostOption(text.to_owned()).into());
                }
                let path = from_home(path).ok_or_else(|| Fault::OtherHome(text.to_owned()))?;
                Ok(Self::Ssh {
                    host,
                    path: with_slash(path).into_bytes(),
                })
            }
        }
    }

    /// Reads a place on one host, or on several hosts with commas between them, as in `lh://h1,h2:4811/path`. Returns
    /// the same path on each host.
    pub fn parse_hosts(text: &str) -> Result<Vec<Self>, Error> {
        let rest = text.strip_prefix("lh://");
        let parts = rest.and_then(|rest| rest.split_once('/'));
        let Some((hosts, path)) = parts.filter(|(hosts, _)| hosts.contains(',')) else {
            return Ok(vec![Self::parse(text)?]);
        };
        let place = |host: &str| Self::parse(&format!("lh://{host}/{path}"));
        let places: Vec<Self> = hosts.split(',').map(place).collect::<Result<_, _>>()?;
        let is_twice = |(at, place): (usize, &Self)| places[..at].contains(place);
        if places.len() > HOSTS_MAX || places.iter().enumerate().any(is_twice) {
            return Err(Fault::Hosts(text.to_owned()).into());
        }
        Ok(places)
    }

    /// Returns the same place with another path.
    #[must_use]
    pub fn with_path(&self, path: Vec<u8>) -> Self {
        match self.clone() {
            Self::Here(_) => Self::Here(PathBuf::from(OsString::from_vec(path))),
            Self::Ssh { host, .. } => Self::Ssh { host, path },
            Self::Daemon { host, port, .. } => Self::Daemon { host, port, path },
            Self::Object { scheme, bucket, .. } => Self::Object {
                scheme,
                bucket,
                path,
            },
        }
    }

    /// Returns the name of the host, for messages.
    pub fn host_name(&self) -> String {
        match self {
            Self::Here(_) => "this host".to_owned(),
            Self::Ssh { host, .. } => host.clone(),
            Self::Daemon { .. } => {
                let host = self.with_host("");
                host.trim_start_matches("lh://")
                    .trim_end_matches('/')
                    .to_owned()
            }
            Self::Object { bucket, .. } => bucket.clone(),
        }
    }

    fn daemon(rest: &str) -> Option<Self> {
        let (host, path) = rest.split_once('/')?;
        let path = with_slash(&format!("/{path}")).into_bytes();
        let (name, port) = match host.strip_prefix('[') {
            Some(v6) => {
                let (name, port) = v6.split_once(']')?;
                match port {
                    "" => (name, None),
                    port => (name, Some(port.strip_prefix(':')?)),
                }
            }
            None => match host.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (host, None),
            },
        };
        let port = port.map_or(Some(PORT), unsigned::number)?;
        (!name.is_empty() && port > 0).then(|| Self::Daemon {
            host: name.to_owned(),
            port,
            path,
        })
    }

    fn object(scheme: &str, rest: &str) -> Option<Self> {
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        let begins =
            bucket.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-:[]$".contains(letter);
        (begins && bucket.chars().all(is_name)).then(|| Self::Object {
            scheme: scheme.to_owned(),
            bucket: bucket.to_owned(),
            path: path.as_bytes().to_vec(),
        })
    }

    /// Returns the path.
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Here(path) => path.as_os_str().as_bytes(),
            Self::Ssh { path, .. } | Self::Daemon { path, .. } | Self::Object { path, .. } => path,
        }
    }

    /// Returns true if this is the URL of a web server with a query, which may be a signature that admits its bearer.
    pub fn has_query(&self) -> bool {
        match self {
            Self::Object { scheme, path, .. } => scheme.starts_with("http") && path.contains(&b'?'),
            Self::Here(_) | Self::Ssh { .. } | Self::Daemon { .. } => false,
        }
    }

    /// Returns `path` on the host of this place, in the notation of the command line.
    pub fn with_host(&self, path: &str) -> String {
        match self {
            Self::Here(_) => path.to_owned(),
            Self::Ssh { host, .. } => match host.rsplit_once('@') {
                Some((user, host)) if host.contains(':') => format!("{user}@[{host}]:{path}"),
                None if host.contains(':') => format!("[{host}]:{path}"),
                _ => format!("{host}:{path}"),
            },
            Self::Daemon { host, port, .. } => {
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.clone()
                };
                let port = match *port {
                    PORT => String::new(),
                    port => format!(":{port}"),
                };
                format!("lh://{host}{port}/{}", path.trim_start_matches('/'))
            }
            Self::Object { scheme, bucket, .. } => format!("{scheme}://{bucket}/{path}"),
        }
    }

    /// Returns the message `text` from this place's host, with the name of the host before the
    /// first of `paths` in it.
    pub fn name_host(&self, text: &str, paths: &[&[u8]]) -> String {
        let found = paths.iter().find_map(|path| {
            let path = String::from_utf8_lossy(path);
            let mut starts = text.match_indices(&*path).map(|(start, _)| start);
            let start = starts.find(|start| {
                let rest = &text[start + path.len()..];
                let ends = path.ends_with('/') || rest.starts_with([':', '/']);
                ends && text[..*start].ends_with(' ')
            });
            start.map(|start| (start, path))
        });
        match found {
            Some((start, path)) => {
                let rest = &text[start + path.len()..];
                format!("{}{}{rest}", &text[..start], self.with_host(&path))
            }
            // the path has octets that are escaped in messages
            None if matches!(self, Self::Here(_)) => text.to_owned(),
            None => {
                let host = self.with_host("");
                format!("{}: {text}", host.trim_end_matches([':', '/']))
            }
        }
    }

    /// Returns true if both places are on the same host and reached in the same way.
    pub fn is_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Here(_), Self::Here(_)) => true,
            (Self::Ssh { host: a, .. }, Self::Ssh { host: b, .. }) => a == b,
            (
                Self::Daemon {
                    host: a, port: p, ..
                },
                Self::Daemon {
                    host: b, port: q, ..
                },
            ) => a == b && p == q,
            (
                Self::Object {
                    scheme, bucket: a, ..
                },
                Self::Object {
                    scheme: other,
                    bucket: b,
                    ..
                },
            ) => a == b && scheme == other,
            _ => false,
        }
    }
}

/// Returns the octets of a part of a URL, in which percent signs begin two hexadecimal digits.
pub fn percent_decoded(text: &str) -> Vec<u8> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.first_chunk::<2>().filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        octets.push(value.unwrap_or(*first));
        rest = match value {
            Some(_) => &after[2..],
            None => after,
        };
    }
    octets
}

/// Schemes of object stores and web servers.
const SCHEMES: [&str; 5] = ["s3", "gs", "az", "http", "https"];

/// Returns the host and the path of `host:path`, or none for a local path (`colon` in `misc.c` of OpenSSH). A slash
/// before the colon makes the path local. Brackets at the start, or after the user, enclose an IPv6 address, whose
/// colons do not count.
fn far(text: &str) -> Option<(&str, &str)> {
    let mut is_bracketed = text.starts_with('[');
    let octets = text.as_bytes();
    for (at, octet) in octets.iter().enumerate() {
        let next = octets.get(at + 1);
        match octet {
            b'/' => return None,
            b'@' if next == Some(&b'[') => is_bracketed = true,
            b']' if is_bracketed && next == Some(&b':') => {
                return Some((&text[..=at], &text[at + 2..]));
            }
            b':' if !is_bracketed => return (at > 0).then(|| (&text[..at], &text[at + 1..])),
            _ => {}
        }
    }
    None
}

/// Returns the path relative to the home directory, where ssh starts. `~` is that directory, as for scp.
fn from_home(path: &str) -> Option<&str> {
    let path = match path.strip_prefix('~') {
        None => path,
        Some("") => "",
        Some(rest) => rest.strip_prefix('/')?.trim_start_matches('/'),
    };
    Some(if path.is_empty() { "./" } else { path })
}

/// Returns the path. `.` and `..` are always directories, so a slash is added to them.
fn with_slash(path: &str) -> String {
    let slash = match path.rsplit('/').next() {
        Some("." | "..") => "/",
        _ => "",
    };
    format!("{path}{slash}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lighthaul_session::error::Code;
    use proptest::prelude::*;

    #[test]
    fn places_parse_as_in_scp_and_rsync() {
        let ssh = |host: &str, path: &str| Place::Ssh {
            host: host.into(),
            path: path.into(),
        };
        let daemon = |host: &str, port, path: &str| Place::Daemon {
            host: host.into(),
            port,
            path: path.into(),
        };
        let object = |scheme: &str, bucket: &str, path: &str| Place::Object {
            scheme: scheme.into(),
            bucket: bucket.into(),
            path: path.into(),
        };
        for (text, place) in [
            ("a", Place::Here("a".into())),
            ("./a:b", Place::Here("./a:b".into())),
            ("/a:b", Place::Here("/a:b".into())),
            ("h:x", ssh("h", "x")),
            ("u@h:/x y", ssh("u@h", "/x y")),
            ("h:", ssh("h", "./")),
            ("h:~", ssh("h", "./")),
            ("h:~//x/", ssh("h", "x/")),
            ("h:a~", ssh("h", "a~")),
            (".", Place::Here("./".into())),
            ("a/..", Place::Here("a/../".into())),
            ("a/b.", Place::Here("a/b.".into())),
            ("h:.", ssh("h", "./")),
            ("lh://h/a/.", daemon("h", PORT, "/a/./")),
            ("./-o:x", Place::Here("./-o:x".into())),
            ("./x]:y", Place::Here("./x]:y".into())),
            ("[::1]/x]:y", Place::Here("[::1]/x]:y".into())),
            ("[::1", Place::Here("[::1".into())),
            (":x", Place::Here(":x".into())),
            ("h:x]:y", ssh("h", "x]:y")),
            ("[::1]:x]:y", ssh("::1", "x]:y")),
            ("u@[2001:db8::1]:/p", ssh("u@2001:db8::1", "/p")),
            ("lh://h/p", daemon("h", PORT, "/p")),
            ("lh://h:99/", daemon("h", 99, "/")),
            ("lh://[::1]:99/p", daemon("::1", 99, "/p")),
            ("lh://[::1]/p", daemon("::1", PORT, "/p")),
            ("s3://b", object("s3", "b", "")),
            ("s3://b/", object("s3", "b", "")),
            ("s3://b.c-d//a/../", object("s3", "b.c-d", "/a/../")),
            ("http://h:80/x?y=z", object("http", "h:80", "x?y=z")),
            ("https://[::1]:9/x", object("https", "[::1]:9", "x")),
            ("file:///a%20b%2", Place::Here("/a b%2".into())),
        ] {
            assert_eq!(Place::parse(text), Ok(place), "{text}");
        }
    }

    #[test]
    fn wrong_places_are_usage_faults() {
        for text in [
            "lh://",
            "lh://h",
            "lh:///p",
            "lh://h:x/p",
            "lh://h:/p",
            "lh://h:0/p",
            "lh://h:+99/p",
            "lh://[::1]4811/p",
            "lh://[::1]:/p",
            "lh://[::1/p",
            "-oProxyCommand=x:/y",
            "h:~other/x",
            "[-x]:y",
            "ftp://h/p",
            "s3://",
            "s3:///key",
            "s3://../key",
            "s3://b?c/key",
            "https://user:word@h/p",
            "file://host/p",
            "LH://h/p",
        ] {
            assert_eq!(
                Place::parse(text).unwrap_err().code(),
                Code::Usage,
                "{text}"
            );
        }
    }

    #[test]
    fn messages_of_other_hosts_name_the_host() {
        for (place, text, named) in [
            (
                "lh://far/nonex",
                "cannot list /nonex: no such file",
                "cannot list lh://far/nonex: no such file",
            ),
            (
                "lh://[::1]:99/a/",
                "cannot list /a/b: no",
                "cannot list lh://[::1]:99/a/b: no",
            ),
            (
                "far:nonex",
                "cannot list nonex/b: no such file",
                "cannot list far:nonex/b: no such file",
            ),
            (
                "u@far:list",
                "cannot list list: no",
                "cannot list u@far:list: no",
            ),
            ("far:", "cannot list ./b: no", "cannot list far:./b: no"),
            ("far:\u{9b}", "cannot list x: no", "far: cannot list x: no"),
            ("nonex", "cannot list nonex: no", "cannot list nonex: no"),
            (
                "u@[2001:db8::1]:x",
                "cannot list x: no",
                "cannot list u@[2001:db8::1]:x: no",
            ),
        ] {
            let place = Place::parse(place).unwrap();
            let paths = [&b"other"[..], place.path()];
            assert_eq!(place.name_host(text, &paths), named);
        }
    }

    #[test]
    fn hosts_with_commas_are_the_same_path_on_each() {
        let hosts = |text| Place::parse_hosts(text);
        let daemon = |host: &str, port, path: &str| Place::Daemon {
            host: host.to_owned(),
            port,
            path: path.into(),
        };
        let three = [
            daemon("a", PORT, "/x,y/"),
            daemon("::1", 99, "/x,y/"),
            daemon("c", 7, "/x,y/"),
        ];
        assert_eq!(hosts("lh://a,[::1]:99,c:7/x,y/").unwrap(), three);
        assert_eq!(hosts("lh://a/x,y").unwrap(), [daemon("a", PORT, "/x,y")]);
        for alone in ["a,b", "a,b:c", "s3://b/x,y"] {
            assert_eq!(hosts(alone).unwrap(), [Place::parse(alone).unwrap()]);
        }
        assert_eq!(three[1].host_name(), "[::1]:99");
        let elsewhere = three[2].with_path(b"/z".to_vec());
        assert_eq!(elsewhere, daemon("c", 7, "/z"));
        let many = vec!["h"; 65].join(",");
        let many = format!("lh://{many}/");
        for wrong in ["lh://a,/x", "lh://,a/x", "lh://a,a/x", "lh://a,b", &many] {
            assert_eq!(hosts(wrong).unwrap_err().code(), Code::Usage, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_a_place_or_a_usage_error(text in "(lh://)?[a@\\[\\]:/.0-9é ]{0,20}") {
            match Place::parse(&text) {
                // a local place equals its text, perhaps with a slash; a remote one has a path
                Ok(place @ Place::Here(_)) => {
                    let rest = place.path().strip_prefix(text.as_bytes());
                    prop_assert!(matches!(rest, Some(b"" | b"/")));
                }
                Ok(place) => prop_assert!(!place.path().is_empty()),
                Err(error) => prop_assert_eq!(error.code(), Code::Usage),
            }
        }
    }
}
