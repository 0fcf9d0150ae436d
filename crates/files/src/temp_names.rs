//! Names of temporary files: hidden, in the directory of the final file.
//!
//! A file that a later run can resume has a name that depends on its final name only, and a journal
//! beside it. All other names contain the process that writes the file, so that a later run can
//! remove files of ended processes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lighthaul_fs::version::Look;

/// Prefix of all temporary names.
pub const PREFIX: &[u8] = b".lighthaul-";

/// Returns the temporary name of a partial file for `path`, which a later run finds.
pub fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let hash = blake3::hash(name.as_bytes()).to_hex();
    path.with_file_name(format!(".lighthaul-{}", &hash[..16]))
}

/// Returns the temporary name of the file at `path` for a copy with a single writer, and the name of the writer's lock.
pub fn written(path: &Path) -> [PathBuf; 2] {
    let name = path.file_name().unwrap_or_default().as_bytes();
    // no name of a file has a slash
    [b"/new", b"/end"].map(|suffix| {
        let hash = blake3::hash(&[name, suffix].concat()).to_hex();
        path.with_file_name(format!(".lighthaul-{}", &hash[..16]))
    })
}

/// Returns the temporary name of the file at `path` in a striped copy. All parts of the copy write to it, so files of
/// other versions of the source have other names.
pub fn staged(path: &Path, look: Look) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    // no name of a file has a slash
    hasher.update(name.as_bytes()).update(b"/staged");
    hasher.update(&look.size.to_be_bytes());
    hasher.update(&look.seconds.to_be_bytes());
    hasher.update(&look.nanos.to_be_bytes());
    let hash = hasher.finalize().to_hex();
    path.with_file_name(format!(".lighthaul-{}", &hash[..16]))
}

/// Suffix of the names of stage logs.
pub const STAGE_LOG: &str = ".stage";

/// Returns the name of the stage log with this random number.
pub fn stage_log(number: u64) -> PathBuf {
    PathBuf::from(format!(".lighthaul-{number:016x}{STAGE_LOG}"))
}

/// Returns the name of the journal of `path`.
pub fn journal(path: &Path) -> PathBuf {
    let mut name = partial(path).into_os_string();
    name.push(".journal");
    name.into()
}

/// Returns true if `name` is a temporary name, or that of a journal, stage log or lock file.
pub fn is_hidden(name: &OsStr) -> bool {
    let is_hex =
        |part: &str, len| part.len() == len && part.bytes().all(|octet| octet.is_ascii_hexdigit());
    let Some(rest) = name
        .to_str()
        .and_then(|name| name.strip_prefix(".lighthaul-"))
    else {
        return false;
    };
    let bare = [".journal", STAGE_LOG]
        .iter()
        .find_map(|end| rest.strip_suffix(end));
    if is_hex(bare.unwrap_or(rest), 16) {
        return true;
    }
    let (writer, parts) = match rest.strip_suffix(".lock") {
        Some(writer) => (writer, 4),
        None => (rest, 5),
    };
    let numbers: Vec<&str> = writer.split('-').collect();
    let is_number = |part: &&str| u64::from_str_radix(part, 16).is_ok();
    numbers.len() == parts && is_hex(numbers[0], 8) && numbers[1..].iter().all(is_number)
}

/// Identity of this process in temporary names.
#[derive(Clone, Debug)]
pub struct Writer {
    host: String,
    process: u32,
    started: u64,
    /// Number of the transfer within the process.
    transfer: u64,
}

impl Writer {
    /// Creates the identity for `transfer`, a number that is unique in this process.
    pub fn new(transfer: u64) -> Self {
        let process = std::process::id();
        Self {
            host: host(),
            process,
            started: started(process).unwrap_or(0),
            transfer,
        }
    }

    /// Returns the temporary name of entry `number` at `path`.
    pub fn temporary(&self, path: &Path, number: u64) -> PathBuf {
        let Self {
            host,
            process,
            started,
            transfer,
        } = self;
        path.with_file_name(format!(
            ".lighthaul-{host}-{process}-{started}-{transfer:x}-{number}"
        ))
    }

    /// Returns the name of the file that stays locked while this writer exists.
    pub fn lock_file(&self) -> PathBuf {
        let name = self.temporary(Path::new(""), 0);
        lock_file_of(name.as_os_str()).unwrap_or(name)
    }

    /// Returns a number that no other process uses for this entry.
    pub fn number(&self, path: &Path, number: u64) -> u64 {
        let name = self.temporary(path, number);
        let hash = blake3::hash(name.as_os_str().as_bytes());
        let first = hash.as_bytes().first_chunk();
        first.map_or(number, |octets| u64::from_be_bytes(*octets))
    }

    /// Returns true if `name` belongs to an ended process of this host.
    pub fn is_orphan(&self, name: &OsStr) -> bool {
        let Some(rest) = name
            .to_str()
            .and_then(|name| name.strip_prefix(".lighthaul-"))
        else {
            return false;
        };
        let mut parts = rest.split('-');
        if parts.next() != Some(self.host.as_str()) {
            return false;
        }
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let (Some(process), Some(start)) = (number(), number()) else {
            return false;
        };
        u32::try_from(process).is_ok_and(|process| started(process) != Some(start))
    }
}

/// Returns the lock file of the writer of the temporary file `name`.
pub fn lock_file_of(name: &OsStr) -> Option<PathBuf> {
    let rest = name.to_str()?.strip_prefix(".lighthaul-")?;
    let (writer, _) = rest.rsplit_once('-')?;
    Some(PathBuf::from(format!(".lighthaul-{writer}.lock")))
}

/// Returns a number, never zero, that is unique to the present boot of the host.
pub fn boot_number() -> u64 {
    number_of(&boot_id())
}

fn number_of(boot_id: &[u8]) -> u64 {
    let hash = blake3::hash(boot_id);
    let number = hash
        .as_bytes()
        .first_chunk()
        .map_or(1, |octets| u64::from_be_bytes(*octets));
    number.max(1)
}

fn boot_id() -> Vec<u8> {
    fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Returns an identifier of the present boot of this host, and of the PID namespace. Other hosts may use the same file
/// system.
fn host() -> String {
    let boot = boot_id();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&boot).update(space.as_os_str().as_bytes());
    hasher.finalize().to_hex()[..8].to_owned()
}

/// Returns the start time of `process` in clock ticks, or none if there is no such process.
fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // the name in parentheses may contain blanks
    let (_, rest) = stat.rsplit_once(')')?;
    let state = rest.split_whitespace().next()?;
    let start = rest.split_whitespace().nth(19)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        size: 9,
        seconds: 1,
        nanos: 2,
    };

    #[test]
    fn versions_of_a_source_are_staged_in_different_files() {
        let staged = |name, look| staged(Path::new(name), look);
        let first = staged("a/b", LOOK);
        assert_eq!(first.parent(), Some(Path::new("a")));
        for other in [
            staged("a/c", LOOK),
            staged("a/b", Look { size: 8, ..LOOK }),
            staged("a/b", Look { seconds: 2, ..LOOK }),
            staged("a/b", Look { nanos: 1, ..LOOK }),
            partial(Path::new("a/b")),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn temporary_names_are_recognized() {
        let (writer, path) = (Writer::new(26), Path::new("a/b"));
        for ours in [
            partial(path),
            journal(path),
            writer.temporary(path, 9),
            writer.lock_file(),
            stage_log(7),
            staged(path, LOOK),
        ] {
            assert!(is_hidden(ours.file_name().unwrap()), "{}", ours.display());
        }
        for other in [
            ".lighthaul-",
            ".lighthaul-notes",
            ".lighthaul-01234567-x-y",
            "x",
        ] {
            assert!(!is_hidden(OsStr::new(other)), "{other}");
        }
    }

    /// Names that only resemble temporary names belong to the user.
    #[test]
    fn names_that_resemble_temporary_names_are_not_hidden() {
        for (name, is_ours) in [
            (".lighthaul-0123456789abcdef", true),
            (".lighthaul-0123456789abcdef.journal", true),
            (".lighthaul-0123456789abcde", false),
            (".lighthaul-0123456789abcdef0", false),
            (".lighthaul-0123456789abcdeg", false),
            (".lighthaul-0123456789abcdef.other", false),
            (".lighthaul-01234567-1-2-a-4", true),
            (".lighthaul-01234567-1-2-a", false),
            (".lighthaul-01234567-1-2-a-4-5", false),
            (".lighthaul-0123456-1-2-a-4", false),
            (".lighthaul-0123456x-1-2-a-4", false),
            (".lighthaul-01234567-1-2-x-4", false),
            (".lighthaul-01234567-1-2-a.lock", true),
            (".lighthaul-01234567-1-2-a-4.lock", false),
            (".lighthaul-01234567-1-2.lock", false),
            ("lighthaul-0123456789abcdef", false),
        ] {
            assert_eq!(is_hidden(OsStr::new(name)), is_ours, "{name}");
        }
    }

    #[test]
    fn temporary_names_differ_by_entry_transfer_and_process() {
        let (one, other) = (Writer::new(0x1a), Writer::new(0x1b));
        let path = Path::new("a/b");
        let name = one.temporary(path, 9);
        assert_eq!(name.parent(), path.parent());
        let (process, start) = (std::process::id(), one.started);
        let expected = format!("a/.lighthaul-{}-{process}-{start}-1a-9", one.host);
        assert_eq!(name, Path::new(&expected));
        let lock_file = format!(".lighthaul-{}-{process}-{start}-1a.lock", one.host);
        assert_eq!(one.lock_file(), Path::new(&lock_file));
        assert_eq!(
            lock_file_of(name.file_name().unwrap()),
            Some(one.lock_file())
        );
        assert_eq!(lock_file_of(OsStr::new("b")), None);
        let mut numbers = vec![
            one.number(path, 9),
            one.number(path, 8),
            one.number(Path::new("a/c"), 9),
            other.number(path, 9),
        ];
        numbers.dedup();
        // the name of the file does not count: a number is used once in a directory
        assert_eq!(numbers, [numbers[0], numbers[1], numbers[0], numbers[3]]);
        assert!(numbers.iter().all(|number| *number > 1));
    }

    #[test]
    fn partial_file_and_journal_are_named_after_the_file() {
        let (one, other) = (partial(Path::new("a/b")), partial(Path::new("a/c")));
        assert_ne!(one, other);
        assert_eq!(one.file_name(), partial(Path::new("b")).file_name());
        assert_eq!(one.parent(), Some(Path::new("a")));
        assert_eq!(
            journal(Path::new("a/b")),
            one.with_added_extension("journal")
        );
    }

    #[test]
    fn boot_number_is_derived_from_boot_id() {
        let boot_id = fs::read("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(boot_number(), number_of(&boot_id));
        assert_ne!(number_of(&boot_id), number_of(&boot_id[1..]));
        assert!(is_hidden(OsStr::new(&format!(
            ".lighthaul-{}-1-1-1-1",
            host()
        ))));
    }

    #[test]
    fn ended_process_has_no_start_time() {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        // field 22 of proc_pid_stat(5); tests have no blanks in their name
        let start = stat.split_whitespace().nth(21).unwrap().parse().ok();
        assert_eq!(started(std::process::id()), start);
        assert_eq!(started(u32::MAX), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        assert_eq!(
            started(child.id()),
            None,
            "its parent has not waited for it yet"
        );
        child.wait().unwrap();
    }

    #[test]
    fn only_files_of_ended_processes_are_orphans() {
        let writer = Writer::new(7);
        let name = |writer: &Writer| {
            writer
                .temporary(Path::new("a/b"), 3)
                .file_name()
                .unwrap()
                .to_owned()
        };
        assert!(!writer.is_orphan(&name(&writer)));
        let dead = Writer {
            started: writer.started + 1,
            ..writer.clone()
        };
        assert!(writer.is_orphan(&name(&dead)));
        let gone = Writer {
            process: u32::MAX,
            ..writer.clone()
        };
        assert!(writer.is_orphan(&name(&gone)));
        let elsewhere = Writer {
            host: "01234567".into(),
            ..gone
        };
        assert!(!writer.is_orphan(&name(&elsewhere)));
        for name in [
            partial(Path::new("a/b")),
            journal(Path::new("a/b")),
            "b".into(),
        ] {
            assert!(
                !writer.is_orphan(name.file_name().unwrap()),
                "{}",
                name.display()
            );
        }
    }
}
