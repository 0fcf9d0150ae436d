//! Functions of libc that this library replaces.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Function of libc by name, looked up at its first use.
#[derive(Debug)]
pub(crate) struct LibcFunction {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl LibcFunction {
    /// Returns the function of the given name, which is looked up later.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Returns the function's address, or null if libc does not have the function.
    pub(crate) fn address(&self) -> *mut c_void {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        found
    }
}
