//! Sleeping until a moment or a sign, whichever comes first.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lighthaul_base::Instant;

use crate::clock::Clock;

/// A wait shorter than this is spun, since falling asleep and waking up take longer.
const SPIN_NANOS: u64 = 20_000;

/// Of a wait longer than this the kernel's thousandth matters (`select_estimate_accuracy`).
const LONG_NANOS: u64 = 50_000_000;

/// No wait of the kernel's is longer, so that every number of nanoseconds fits it.
const HOUR_NANOS: u64 = 3_600_000_000_000;

/// Something another thread raises to wake the one that waits on it.
#[derive(Clone, Debug)]
pub struct Sign {
    fd: Arc<OwnedFd>,
    raised: Arc<AtomicBool>,
}

impl Sign {
    /// A sign that nobody has raised.
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

    /// Wakes whoever waits; stays raised until lowered.
    pub fn raise(&self) {
        if self.raised.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open and one has eight readable bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Whether it is up.
    pub fn is_up(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }

    /// Takes the sign down; answers whether it was up.
    pub fn lower(&self) -> bool {
        if !self.is_up() {
            return false;
        }
        self.drain();
        self.raised.store(false, Ordering::Release);
        true
    }

    /// Empties the descriptor after a wait, since a slow raiser may write to it after `lower`.
    pub fn drain(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the descriptor is open and count has eight writable bytes.
        unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// The descriptor to wait on.
    pub fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Sign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What to wait for on a descriptor, and what came.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// The descriptor.
    pub fd: RawFd,
    /// Wait for room to write as well as for something to read.
    pub write: bool,
    /// Something can be read, or the other side is gone.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

impl Watch {
    /// Waits for something to read.
    pub const fn read(fd: RawFd) -> Self {
        Self {
            fd,
            write: false,
            readable: false,
            writable: false,
        }
    }
}

/// Waits until one of `watches` is ready or `until` has come. May wake some tens of microseconds
/// late, which a pacer allows for, and never spins long.
pub fn wait(clock: Clock, watches: &mut [Watch], until: Instant) -> io::Result<()> {
    loop {
        let left = until.since(clock.now()).as_nanos();
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        if left < SPIN_NANOS {
            break;
        }
        // the kernel lets a long wait be late by a thousandth of it, so that its end is a wait of its own
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

/// Lets so much time go by. Parking would not: who has joined a scoped thread may be woken from it at once.
pub fn pause(time: Duration) {
    let clock = Clock::start();
    let until = clock.now() + time;
    while clock.now() < until && wait(clock, &mut [], until).is_ok() {}
}

/// Asks or waits at most `nanos` for any of `watches`; answers whether it ended before that.
fn poll(watches: &mut [Watch], nanos: u64) -> io::Result<bool> {
    const MOST: usize = 40;
    assert!(
        watches.len() <= MOST,
        "a thread waits on so many descriptors at most"
    );
    let mut polls = [libc::pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    }; MOST];
    for (poll, watch) in polls.iter_mut().zip(watches.iter()) {
        poll.fd = watch.fd;
        poll.events = libc::POLLIN | if watch.write { libc::POLLOUT } else { 0 };
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
