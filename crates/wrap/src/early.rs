//! Work before `main`: the library finds its gateway and saves the environment.

use crate::gateway::gateway;
use crate::keep;

/// Has the environment read while the program has a single thread still: the dynamic linker calls what it finds in this
/// section, after libc is ready.
#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = early;

extern "C" fn early() {
    gateway();
    keep::early();
}
