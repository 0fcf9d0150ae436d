//! Process that opens a file.
//!
//! A child closes the files that it inherits. That does not complete them: their opener still writes.

use std::fs;

use fuser::Request;

/// Returns the user and group of a file that `request` opens, and the process, if known.
pub(crate) fn opener(request: &Request) -> ((u32, u32), Option<u32>) {
    ((request.uid(), request.gid()), caller(request))
}

/// Returns the process of a request.
pub(crate) fn caller(request: &Request) -> Option<u32> {
    owner_of_thread(request.pid())
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
    use std::process::id;
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
}
