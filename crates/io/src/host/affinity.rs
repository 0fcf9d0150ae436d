//! CPU affinity of threads.

use std::io;
use std::mem;

/// Restricts the calling thread to the CPU `core`. Fails with `InvalidInput` if there cannot be such a CPU.
pub fn pin_to_core(core: usize) -> io::Result<()> {
    // SAFETY: a set of no cores is all zeroes.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    if core >= size_of_val(&set) * 8 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the set has a bit for that core.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is readable for its size; 0 is the calling thread.
    let status = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_thread_runs_on_its_core() {
        std::thread::spawn(|| {
            pin_to_core(0).unwrap();
            // SAFETY: the function takes no arguments and returns a number.
            assert_eq!(unsafe { libc::sched_getcpu() }, 0);
            assert!(pin_to_core(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
