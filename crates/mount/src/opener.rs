//! Processes that open files, and that close their descriptors.
//!
//! A child closes the files that it inherits. That does not complete them while another process has them open. A process
//! that a signal ends closes its files, too, although they are not complete. `/proc` shows both.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use fuser::{INodeNo, Request};
use rustix::fs::OFlags;

/// Most processes of which the descriptors are looked at, so that a close is never slow.
const PROCESSES_MAX: usize = 1000;
/// Flag of a process that is ending (`PF_EXITING` of the kernel).
const EXITING: u64 = 4;

/// Process that closes a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closer {
    /// The process, if known.
    pub(crate) process: Option<u32>,
    /// True if a signal ends the process.
    pub(crate) is_killed: bool,
}

/// Returns the user and group of a file that `request` opens, and the process, if known.
pub(crate) fn opener(request: &Request) -> ((u32, u32), Option<u32>) {
    (
        (request.uid(), request.gid()),
        owner_of_thread(request.pid()),
    )
}

/// Returns the process of a request that closes a descriptor.
pub(crate) fn closer(request: &Request) -> Closer {
    let thread = request.pid();
    let stat = fs::read_to_string(format!("/proc/{thread}/stat"));
    Closer {
        process: owner_of_thread(thread),
        is_killed: stat.is_ok_and(|stat| is_killed(&stat)),
    }
}

/// Returns true if one of `processes`, or a process that they have started, has the file of an inode number open for
/// writing. `name` is its last name.
pub(crate) fn is_held(
    processes: impl IntoIterator<Item = u32>,
    inode: INodeNo,
    name: &[u8],
) -> bool {
    let mut left: Vec<u32> = processes.into_iter().collect();
    left.reverse();
    let mut seen = BTreeSet::new();
    while let Some(process) = left.pop() {
        if seen.len() < PROCESSES_MAX && seen.insert(process) {
            if holds(process, inode, name) {
                return true;
            }
            left.extend(children(process));
        }
    }
    false
}

/// Returns true if a process has the file open for writing. Numbers of inodes are unique in one file system only, so the
/// name is compared, too.
fn holds(process: u32, inode: INodeNo, name: &[u8]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|descriptor| {
        let info = || {
            let number = descriptor.file_name();
            let path = format!("/proc/{process}/fdinfo/{}", number.to_string_lossy());
            fs::read_to_string(path).unwrap_or_default()
        };
        let is_named = fs::read_link(descriptor.path())
            .is_ok_and(|path| path.file_name().is_some_and(|last| last.as_bytes() == name));
        is_named && writes(&info(), inode)
    })
}

/// Returns true if a descriptor, whose file of `/proc` is given, is of an inode and open for writing.
fn writes(info: &str, inode: INodeNo) -> bool {
    let field = |name: &str| {
        let mut lines = info.lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let number = field("ino:").and_then(|number| number.parse().ok());
    let flags = field("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    let writable = OFlags::WRONLY.bits() | OFlags::RDWR.bits();
    // kernels before 5.14 do not show the number
    number.is_none_or(|number| INodeNo(number) == inode)
        && flags.is_some_and(|flags| flags & writable != 0)
}

/// Returns the processes that a process has started, and that have not ended.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let listed =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = listed.flat_map(|text| {
        let numbers: Vec<u32> = text
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        numbers
    });
    numbers.collect()
}

/// Returns true if a signal ends the thread whose file `stat` of `/proc` is given.
fn is_killed(stat: &str) -> bool {
    // the name of the program may have spaces
    let Some((_, fields)) = stat.rsplit_once(") ") else {
        return false;
    };
    let field = |number: usize| {
        let text = fields.split_whitespace().nth(number - 3);
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let (flags, status) = (field(9), field(52));
    flags & EXITING != 0 && status & 0x7f != 0
}

/// Returns the process of a thread, which the kernel names in a request.
fn owner_of_thread(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let mut lines = status.lines();
    let process = lines.find_map(|line| line.strip_prefix("Tgid:"))?;
    process.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::process::{Command, Stdio, id};
    use std::thread;

    use super::*;

    #[test]
    fn threads_belong_to_their_process() {
        let find = || {
            let own = fs::read_link("/proc/thread-self").unwrap();
            let thread = own.file_name().unwrap().to_str().unwrap();
            owner_of_thread(thread.parse().unwrap())
        };
        assert_eq!(find(), Some(id()));
        assert_eq!(thread::spawn(find).join().unwrap(), Some(id()));
        assert_eq!(owner_of_thread(0), None);
    }

    #[test]
    fn open_files_of_a_process_and_of_its_children_are_found() {
        let name = format!("lighthaul-held-{}", id());
        let path = std::env::temp_dir().join(&name);
        let file = fs::File::create(&path).unwrap();
        let inode = INodeNo(file.metadata().unwrap().ino());
        let held = |inode| is_held([id()], inode, name.as_bytes());
        assert!(held(inode) && !held(INodeNo(inode.0 + 1)));
        assert!(!is_held([id()], inode, b"other"));
        let mut child = Command::new("sleep");
        let mut child = child.arg("1000").stdout(Stdio::from(file)).spawn().unwrap();
        assert!(held(inode), "the child has it");
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = fs::File::open(&path).unwrap();
        assert!(!held(inode), "a reader does not write");
        drop(reader);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn process_that_a_signal_ends_is_told_from_others() {
        let stat = |flags: u32, status: u32| {
            let rest = "0 ".repeat(42);
            format!("7 (a b) c) R 1 1 1 0 -1 {flags} {rest}{status}\n")
        };
        for (flags, status, expected) in [
            (0x0040_0000, 0, false),
            (0x0040_0004, 0, false),
            // exit(9)
            (0x0040_0004, 9 << 8, false),
            (0x0040_0004, 9, true),
            // with a core dump
            (0x0040_0004, 0x80 | 11, true),
            // stopped
            (0x0040_0000, 19, false),
        ] {
            assert_eq!(
                is_killed(&stat(flags, status)),
                expected,
                "{flags:x} {status}"
            );
        }
        assert!(!is_killed(""));
        let own = fs::read_to_string("/proc/self/stat").unwrap();
        assert!(!is_killed(&own));
    }
}
