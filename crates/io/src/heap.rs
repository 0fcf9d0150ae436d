//! What the heap keeps of memory that was freed.

/// Has the heap keep some megabytes that were freed, rather than give them back at once: frames and records come and go all the time,
/// and each page that comes back costs more than what is copied into it.
pub fn keep_some() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in [
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX),
        (libc::M_MMAP_THRESHOLD, APART_BYTES_MIN),
    ] {
        // SAFETY: mallopt takes two numbers, and answers whether it knows them.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// What each of the heap's arenas keeps at its end.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: i32 = 16 << 20;
/// What is so large is given back at once.
#[cfg(target_env = "gnu")]
const APART_BYTES_MIN: i32 = 4 << 20;
