//! Tuning of the C library's heap.

/// Makes the heap keep up to 16 MiB of freed memory per arena instead of returning it to the kernel. Frames and
/// records are allocated all the time, and each new page costs more than copying into it. Affects glibc only.
pub fn retain_freed_memory() {
    #[cfg(target_env = "gnu")]
    for (what, bytes) in [
        (libc::M_TRIM_THRESHOLD, KEPT_BYTES_MAX),
        (libc::M_MMAP_THRESHOLD, APART_BYTES_MIN),
    ] {
        // SAFETY: mallopt takes two numbers and reports unknown ones.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// Free memory in bytes that each arena keeps at its top.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: i32 = 16 << 20;
/// Minimum size of allocations that return their memory to the kernel when freed.
#[cfg(target_env = "gnu")]
const APART_BYTES_MIN: i32 = 4 << 20;
