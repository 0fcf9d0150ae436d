//! TUN devices for emulated links, which pass packets uncut.
//!
//! [`Tun`] gives a network namespace an interface whose packets the lab reads and writes. A packet
//! is a super-segment of up to 64 KiB after a header of [`VNET_BYTES`] bytes (`virtio_net_hdr`),
//! which describes how to cut it. The reader cuts it where the link must see single packets.
//! [`Watchers`] waits for several devices without a limit of their number.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use lighthaul_kernel::segment::VNET_BYTES;

/// Network interface in the network namespace of the thread that created it. Removed when dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Largest result of [`Tun::read`], in bytes: the header and a super-segment.
    pub const READ_BYTES_MAX: usize = VNET_BYTES + 65_535;

    /// Creates the interface `name`, down and without an address or segmentation. The name has 1 to 15 bytes.
    pub fn create(name: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/net/tun")?;
        // SAFETY: an ifreq is plain numbers; all zeroes are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if name.is_empty() || name.len() >= request.ifr_name.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("invalid interface name {name:?}: use 1 to 15 bytes"),
            ));
        }
        for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *slot = byte.cast_signed();
        }
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which lives through the call.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        check(status)?;
        let offloads = libc::TUN_F_CSUM
            | libc::TUN_F_TSO4
            | libc::TUN_F_TSO6
            | libc::TUN_F_USO4
            | libc::TUN_F_USO6;
        // SAFETY: TUNSETOFFLOAD takes a number.
        let mut status =
            unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, u64::from(offloads)) };
        if status != 0 {
            // Kernels before 6.2 lack USO.
            let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
            // SAFETY: TUNSETOFFLOAD takes a number.
            status =
                unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, u64::from(offloads)) };
        }
        check(status)?;
        Ok(Self { file })
    }

    /// Reads the next packet of the namespace, `VNET_BYTES` of header and an IP packet, or `None` if none waits.
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(into) {
            Ok(len) => Ok(Some(len)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Delivers a packet to the namespace: header and IP packet, in pieces.
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<()> {
        (&self.file).write_vectored(pieces).map(drop)
    }
}

/// Descriptors to wait for.
#[derive(Debug)]
pub struct Watchers {
    polls: Vec<libc::pollfd>,
}

impl Watchers {
    /// Watches `fds`; the results use their order.
    pub fn new(fds: impl IntoIterator<Item = RawFd>) -> Self {
        let watch = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        Self {
            polls: fds.into_iter().map(watch).collect(),
        }
    }

    /// Waits until a descriptor is readable, for at most `nanos`; without a limit if `None`.
    pub fn wait(&mut self, nanos: Option<u64>) -> io::Result<()> {
        let time = libc::timespec {
            tv_sec: (nanos.unwrap_or(0) / 1_000_000_000).cast_signed(),
            tv_nsec: (nanos.unwrap_or(0) % 1_000_000_000).cast_signed(),
        };
        let time = if nanos.is_some() {
            &raw const time
        } else {
            std::ptr::null()
        };
        let count = self.polls.len() as libc::nfds_t;
        // SAFETY: polls has count entries; time is null or valid; no signal mask.
        let ready = unsafe { libc::ppoll(self.polls.as_mut_ptr(), count, time, std::ptr::null()) };
        if ready >= 0 {
            return Ok(());
        }
        for poll in &mut self.polls {
            poll.revents = 0;
        }
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Reports whether descriptor `index` was readable when the wait ended.
    pub fn is_ready(&self, index: usize) -> bool {
        self.polls[index].revents != 0
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Gives this thread the highest priority (nice -20), so that packets leave on time. Has no effect without root.
pub fn raise_priority() {
    // SAFETY: setpriority takes three numbers; 0 means the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
