//! Known paths of this user, in a file below the cache directory.
//!
//! Each line has the peer's key, its address, and this host's. The rate follows in bits a second, the loss in parts per
//! million, and the time in seconds since 1970. Lines that are not understood are dropped: the file is a cache.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use lighthaul_base::Rate;
use lighthaul_session::known_path::{KnownPath, PathEnds, PathMemory, forget, unix_seconds};

use crate::cache_file::{read, replace};
use crate::paths;

/// File with known paths.
#[derive(Debug)]
pub struct KnownPaths(PathBuf);

impl KnownPaths {
    /// Returns the known paths of this user.
    pub fn of_user() -> Self {
        Self(paths::known_paths())
    }

    /// Returns the known paths in the file `path`.
    pub const fn in_file(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns all paths in the file, also old paths.
    pub fn all(&self) -> BTreeMap<PathEnds, KnownPath> {
        parse(read(&self.0).as_bytes())
    }
}

impl PathMemory for KnownPaths {
    fn recall(&self, far: PathEnds) -> Option<KnownPath> {
        let path = self.all().get(&far).copied();
        path.filter(|path| path.is_recent(unix_seconds()))
    }

    fn keep(&self, far: PathEnds, path: KnownPath) {
        let mut paths = self.all();
        paths.insert(far, path);
        forget(&mut paths);
        // without the file, the next copy measures again
        replace(&self.0, &print(&paths)).ok();
    }
}

/// Returns the paths in the lines of `octets`.
pub fn parse(octets: &[u8]) -> BTreeMap<PathEnds, KnownPath> {
    let text = String::from_utf8_lossy(octets);
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(PathEnds, KnownPath)> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    let far = PathEnds {
        key: next()?.parse().ok()?,
        address: next()?.parse().ok()?,
        local: next()?.parse().ok()?,
    };
    let path = KnownPath {
        rate: Rate::from_bps(next()?.parse().ok()?)?,
        lost_ppm: next()?.parse().ok()?,
        at: next()?.parse().ok()?,
    };
    next().is_none().then_some((far, path))
}

fn print(paths: &BTreeMap<PathEnds, KnownPath>) -> String {
    let mut text = String::new();
    for (ends, path) in paths {
        let PathEnds {
            key,
            address,
            local,
        } = ends;
        let (rate, lost) = (path.rate.as_bps(), path.lost_ppm);
        // writing to a text does not fail
        writeln!(text, "{key} {address} {local} {rate} {lost} {}", path.at).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::Ipv6Addr;

    use lighthaul_io::crypto::identity::Fingerprint;

    use super::*;

    #[test]
    fn valid_lines_round_trip_and_other_lines_are_dropped() {
        let far = PathEnds {
            key: Fingerprint::from_octets([9; 32]),
            address: Ipv6Addr::LOCALHOST.into(),
            local: Ipv6Addr::UNSPECIFIED.into(),
        };
        let path = KnownPath::now(Rate::from_mbps(100), 70);
        let text = print(&[(far, path)].into());
        let spoilt = format!("x\n{text} \n{} \u{fffd}\n", text.trim_end());
        assert_eq!(parse(text.as_bytes()), [(far, path)].into());
        assert_eq!(parse(spoilt.as_bytes()), [(far, path)].into());
        assert_eq!(parse(&text.as_bytes()[..text.len() - 14]), BTreeMap::new());
        let zero = text.replace(" 100000000 ", " 0 ");
        assert_eq!(parse(zero.as_bytes()), BTreeMap::new());
    }

    #[test]
    fn path_is_kept_in_a_file_and_recalled() {
        let folder = std::env::temp_dir().join(format!("known-paths-{}", std::process::id()));
        let known = KnownPaths(folder.join("new/paths"));
        let far = PathEnds {
            key: Fingerprint::from_octets([9; 32]),
            address: Ipv6Addr::LOCALHOST.into(),
            local: Ipv6Addr::UNSPECIFIED.into(),
        };
        assert_eq!(known.recall(far), None);
        let path = KnownPath::now(Rate::from_mbps(100), 70);
        known.keep(far, path);
        assert_eq!(known.recall(far), Some(path));
        let old = KnownPath { at: 1, ..path };
        known.keep(far, old);
        assert_eq!(known.recall(far), None);
        fs::remove_dir_all(folder).unwrap();
    }
}
