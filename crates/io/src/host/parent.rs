//! Processes that end with their parent.

use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{self, Command};

/// Configures `command` to be killed when the thread that starts it ends, also if a signal kills the whole process.
pub fn end_with_parent(command: &mut Command) {
    let parent = process::id();
    // SAFETY: the closure makes system calls only.
    unsafe {
        command.pre_exec(move || {
            kill_with_parent();
            // the parent may have ended before that call
            if parent_id() == parent {
                Ok(())
            } else {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        });
    }
}

/// Has the kernel kill this process when the thread that started it ends.
pub(crate) fn kill_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG takes a number and touches only the calling process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
}
