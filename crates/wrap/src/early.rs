//! Work before `main`: the library reads the gateway's address and saves the environment.

use crate::gateway::gateway;
use crate::keep;

/// Reads the environment while the program has only one thread. The dynamic linker calls the functions in this section
/// when libc is ready.
#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = early;

extern "C" fn early() {
    gateway();
    keep::early();
}
