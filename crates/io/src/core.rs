//! Which core a thread runs on, and for how long at a time.

use std::io;
use std::mem;

/// Lets the calling thread run on `core` alone.
pub fn keep_to(core: usize) -> io::Result<()> {
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

/// Asks for turns of a tenth of a millisecond for the calling thread: it gets no more of a processor that others want, too,
/// but gets it sooner when it wakes. Linux heeds it from 6.12 on.
pub fn shorten_turns() {
    let Some(mut wishes) = wishes() else { return };
    if wishes.sched_policy == libc::SCHED_OTHER as u32 {
        wishes.sched_runtime = TURN_NANOS;
        // SAFETY: the struct says its size; 0 is the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wishes, 0) };
    }
}

/// What the scheduler was asked for by the calling thread.
fn wishes() -> Option<libc::sched_attr> {
    // SAFETY: a struct of numbers may be all zeroes.
    let mut wishes: libc::sched_attr = unsafe { mem::zeroed() };
    let len = size_of_val(&wishes);
    // SAFETY: the struct is writable for its size; 0 is the calling thread.
    let status = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut wishes, len, 0) };
    (status == 0).then_some(wishes)
}

/// The shortest turn that Linux grants.
const TURN_NANOS: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_on_the_core_it_was_told() {
        std::thread::spawn(|| {
            keep_to(0).unwrap();
            // SAFETY: it takes nothing and answers a number.
            assert_eq!(unsafe { libc::sched_getcpu() }, 0);
            assert!(keep_to(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn turns_become_short_and_nothing_else_changes() {
        std::thread::spawn(|| {
            let before = wishes().unwrap();
            shorten_turns();
            let after = wishes().unwrap();
            // a system that does not know of turns has none before, either
            let is_known = before.sched_runtime > 0;
            assert_eq!(after.sched_runtime, if is_known { TURN_NANOS } else { 0 });
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
        })
        .join()
        .unwrap();
    }
}
