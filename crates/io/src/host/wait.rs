//! Sleeping until a deadline or an event, whichever comes first.
//!
//! [`wait`] sleeps in ppoll(2), and spins for the last 20 microseconds, so that a paced datagram leaves on time.
//! [`Watch`] is a descriptor and the result of the wait. [`Waker`] lets one thread wake another: it stays raised until
//! it is lowered, so no wake-up is lost. Signals to the process end a wait early.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lighthaul_base::Instant;

use crate::host::clock::Clock;

/// Wait in nanoseconds below which a thread spins, since sleeping and waking take longer.
const SPIN_NANOS: u64 = 20_000;

/// Wait in nanoseconds above which the kernel's slack of a thousandth matters (`select_estimate_accuracy`).
const LONG_NANOS: u64 = 50_000_000;

/// Longest single wait, in nanoseconds, so that every duration fits the kernel's type.
const HOUR_NANOS: u64 = 3_600_000_000_000;

/// Event that a thread raises to wake the thread that waits for it (eventfd(2)).
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
    raised: Arc<AtomicBool>,
}

impl Waker {
    /// Creates a waker that is not raised.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd: Arc::new(fd),
            raised: Arc::default(),
        })
    }

    /// Raises the waker, which wakes the waiting thread. It stays raised until lowered.
    pub fn raise(&self) {
        if self.raised.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open and one has eight readable bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Reports whether the waker is raised.
    pub fn is_up(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Lowers the waker. Returns true if it was raised.
    pub fn lower(&self) -> bool {
        if !self.is_up() {
            return false;
        }
        self.drain();
        self.raised.store(false, Ordering::Release);
        true
    }

    /// Empties the descriptor after a wait, since a slow [`Waker::raise`] may write to it after [`Waker::lower`].
    pub fn drain(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the descriptor is open and count has eight writable bytes.
        unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// Returns the descriptor to wait on.
    pub fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Descriptor to wait on, and the result of the wait.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Descriptor; ignored if negative.
    pub fd: RawFd,
    /// True to wait for writability too.
    pub write: bool,
    /// True if data can be read, or the other side is closed.
    pub readable: bool,
    /// True if data can be written.
    pub writable: bool,
}

impl Watch {
    /// Watches `fd` for readability.
    pub const fn read(fd: RawFd) -> Self {
        Self {
            fd,
            write: false,
            readable: false,
            writable: false,
        }
    }
}

/// Waits until a descriptor of `watches` is ready or `until` has come. May return some tens of
/// microseconds late. Spins for at most 20 microseconds. Panics with more than 40 watches.
pub fn wait(clock: Clock, watches: &mut [Watch], until: Instant) -> io::Result<()> {
    loop {
        let left = until.since(clock.now()).as_nanos();
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        if left < SPIN_NANOS {
            break;
        }
        // The kernel ends a long wait up to a thousandth late: wait for its end separately.
        let is_long = left > LONG_NANOS;
        let part = if is_long { left - left / 64 } else { left };
        let part = part.min(HOUR_NANOS);
        if poll(watches, part)? || !is_long {
            return Ok(());
        }
    }
    poll(watches, 0)?;
    while clock.now() < until && !watches.iter().any(|watch| watch.readable || watch.writable) {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Sleeps for `time`. Parking would not do: a scoped thread's end may wake its parent early.
pub fn pause(time: Duration) {
    let clock = Clock::start();
    let until = clock.now() + time;
    while clock.now() < until && wait(clock, &mut [], until).is_ok() {}
}

/// Waits at most `nanos` for any of `watches`. Returns true if it ended early. After a signal, no descriptor is ready.
fn poll(watches: &mut [Watch], nanos: u64) -> io::Result<bool> {
    const MOST: usize = 40;
    assert!(
        watches.len() <= MOST,
        "a thread waits for at most MOST descriptors"
    );
    let mut polls = [libc::pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; MOST];
    for (poll, watch) in polls.iter_mut().zip(watches.iter_mut()) {
        poll.fd = watch.fd;
        poll.events = libc::POLLIN | if watch.write { libc::POLLOUT } else { 0 };
        // results of an earlier wait
        (watch.readable, watch.writable) = (false, false);
    }
    let time = libc::timespec {
        tv_sec: (nanos / 1_000_000_000).cast_signed(),
        tv_nsec: (nanos % 1_000_000_000).cast_signed(),
    };
    // SAFETY: polls has at least watches.len() entries; time is valid; no signal mask.
    let count = unsafe {
        libc::ppoll(
            polls.as_mut_ptr(),
            watches.len() as libc::nfds_t,
            &raw const time,
            std::ptr::null(),
        )
    };
    if count < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::Interrupted {
            Ok(true)
        } else {
            Err(error)
        };
    }
    for (poll, watch) in polls.iter().zip(watches.iter_mut()) {
        watch.readable = poll.revents & !libc::POLLOUT != 0;
        watch.writable = poll.revents & libc::POLLOUT != 0;
    }
    Ok(count > 0)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    extern "C" fn ignore(_: libc::c_int) {}

    #[test]
    fn no_descriptor_is_ready_after_a_signal() {
        let handler: extern "C" fn(libc::c_int) = ignore;
        // SAFETY: the handler does nothing, and no other test uses the signal.
        unsafe { libc::signal(libc::SIGUSR2, handler as libc::sighandler_t) };
        let waker = Waker::new().unwrap();
        let has_ended = AtomicBool::new(false);
        // SAFETY: the call has no arguments.
        let own = unsafe { libc::pthread_self() };
        let mut watches = [Watch {
            readable: true,
            writable: true,
            ..Watch::read(waker.as_raw_fd())
        }];
        thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Acquire) {
                    // SAFETY: the thread waits for this one, so it exists.
                    unsafe { libc::pthread_kill(own, libc::SIGUSR2) };
                    thread::yield_now();
                }
            });
            let clock = Clock::start();
            let waited = wait(clock, &mut watches, Instant::NEVER);
            has_ended.store(true, Ordering::Release);
            waited.unwrap();
        });
        assert!(!watches[0].readable && !watches[0].writable);
    }
}
