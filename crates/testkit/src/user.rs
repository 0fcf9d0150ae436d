//! The user that a test runs as.

use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

/// Thread without root's rights until this value is dropped, for tests of permissions that root ignores.
#[derive(Debug)]
pub struct Ordinary(Uid);

impl Ordinary {
    /// Changes the user of this thread to `nobody`, if it is root.
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

    /// The user ID of this thread.
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
