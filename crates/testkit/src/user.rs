//! The user that a test runs as.

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

/// Takes root's rights from this thread, if it has them, until this value is dropped: modes forbid nothing to root.
#[derive(Debug)]
pub struct Ordinary(Uid);

impl Ordinary {
    /// Makes this thread the user `nobody` if it is root.
    ///
    /// # Panics
    ///
    /// If the kernel does not allow it.
    pub fn begin() -> Self {
        let before = geteuid();
        if before.is_root() {
            become_user(Uid::from_raw(NOBODY));
        }
        Self(before)
    }

    /// The number of the user that this thread is.
    pub fn user(&self) -> u32 {
        geteuid().as_raw()
    }
}

impl Drop for Ordinary {
    fn drop(&mut self) {
        become_user(self.0);
    }
}

/// Changes the effective user of this thread only, so that the thread can change back.
fn become_user(user: Uid) {
    set_thread_res_uid(None, user, None).expect("a thread may become an ordinary user");
}

const NOBODY: u32 = 65_534;
