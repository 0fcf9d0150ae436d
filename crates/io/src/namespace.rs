//! Namespaces without names: a network to itself for each host, and a cell for each command that runs there.
//!
//! A cell is a network namespace joined, and a mount and a PID namespace of its own. Three processes make
//! it: a *guard* that waits for the lab or the command to end, the *init* of the PID namespace, and the
//! command. Whichever of lab, guard and init dies first, the kernel kills everything below it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// A network namespace; it is gone when nobody is in it and nobody holds this.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes a namespace that has nothing but a loopback interface, which is down.
    pub fn create() -> io::Result<Self> {
        apart(|| {
            unshare(libc::CLONE_NEWNET)?;
            Self::open(Path::new("/proc/thread-self/ns/net"))
        })
    }

    /// Opens the namespace that `path` stands for.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
        })
    }

    /// Where other processes of the same user find it while this one lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` on a thread of its own in this namespace; processes that it starts are in it too.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        apart(|| {
            self.enter()?;
            work()
        })
    }

    /// Moves the calling thread into this namespace, for good.
    pub fn enter(&self) -> io::Result<()> {
        setns(self.file.as_raw_fd())
    }
}

/// What a command in a cell finds there.
#[derive(Debug)]
pub struct Cell<'a> {
    /// The network it is in.
    pub namespace: &'a Namespace,
    /// What it reads as `/etc/hosts`.
    pub hosts: &'a str,
    /// Namespaces it can enter by a file of that name in [`DOORS`].
    pub doors: Vec<(&'a str, &'a Namespace)>,
    /// A pipe; when its other end closes, all in the cell die.
    pub lifeline: RawFd,
}

/// Where a command in a cell finds the doors to other namespaces, as files that `nsenter --net=` takes too.
pub const DOORS: &str = "/proc/fs";

/// Makes `command` run in a cell; its exit status is the command's, or 128 and the signal that ended it.
pub fn confine(command: &mut Command, cell: &Cell<'_>) -> io::Result<()> {
    let furniture = Furniture::new(cell)?;
    let namespace = cell.namespace.file.as_raw_fd();
    let lifeline = cell.lifeline;
    // SAFETY: the closure makes system calls only, on memory that was laid out before the fork.
    unsafe {
        command.pre_exec(move || {
            setns(namespace)?;
            unshare(libc::CLONE_NEWNS | libc::CLONE_NEWPID)?;
            mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE)?;
            let init = fork()?;
            if init != 0 {
                guard(init, lifeline);
            }
            die_with_parent();
            furniture.place()?;
            let child = fork()?;
            if child != 0 {
                reap(child);
            }
            Ok(())
        });
    }
    Ok(())
}

/// Whether this process may make namespaces.
pub fn check() -> io::Result<()> {
    apart(|| unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWPID))
}

/// Lets the interrupt and quit keys reach the commands but not end this process.
pub fn outlive_interrupts() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        let handler: extern "C" fn(libc::c_int) = nothing;
        // SAFETY: the handler does nothing; a handler, unlike "ignore", ends with exec.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Everything that is put into a cell, laid out before the fork so that nothing is allocated after it.
struct Furniture {
    hosts: Vec<u8>,
    doors: Vec<(CString, CString)>,
}

impl Furniture {
    fn new(cell: &Cell<'_>) -> io::Result<Self> {
        let door = |(name, namespace): &(&str, &Namespace)| {
            let source = CString::new(format!("/proc/self/fd/{}", namespace.file.as_raw_fd()))?;
            Ok((source, CString::new(format!("{DOORS}/{name}"))?))
        };
        let doors = cell.doors.iter().map(door).collect::<io::Result<_>>()?;
        Ok(Self {
            hosts: cell.hosts.as_bytes().to_vec(),
            doors,
        })
    }

    /// Mounts it all; called between fork and exec.
    fn place(&self) -> io::Result<()> {
        mount(Some(c"proc"), c"/proc", Some(c"proc"), 0)?;
        mount(Some(c"tmpfs"), c"/proc/fs", Some(c"tmpfs"), 0)?;
        for (source, target) in &self.doors {
            write_file(target, &[])?;
            mount(Some(source), target, None, libc::MS_BIND)?;
        }
        write_file(c"/proc/fs/.hosts", &self.hosts)?;
        mount(Some(c"/proc/fs/.hosts"), c"/etc/hosts", None, libc::MS_BIND)
    }
}

/// Runs `work` on a thread that nobody else sees, so that what it does to itself ends with it.
fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, work)?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits for the cell's init or for the lifeline to break, and ends as the init did. Never allocates.
fn guard(init: libc::pid_t, lifeline: RawFd) -> ! {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: ignoring a signal touches nothing else.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: pidfd_open takes two numbers.
    let ended = unsafe { libc::syscall(libc::SYS_pidfd_open, init, 0) } as libc::c_int;
    // everything else goes, the lifeline's other end above all
    let (low, high) = if ended < lifeline {
        (ended, lifeline)
    } else {
        (lifeline, ended)
    };
    close_between(0, low - 1);
    close_between(low + 1, high - 1);
    close_between(high + 1, libc::c_int::MAX);
    let poll = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls = [poll(ended), poll(lifeline)];
    loop {
        // SAFETY: polls has two entries.
        let count = unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
        if count > 0 {
            break;
        }
    }
    if polls[0].revents == 0 {
        // SAFETY: init is our child and not yet waited for.
        unsafe { libc::kill(init, libc::SIGKILL) };
    }
    loop {
        if let Some((_, status)) = wait_for(init) {
            leave(status);
        }
    }
}

/// What PID 1 of a cell does: waits for orphans until the command ends, and ends as it did.
fn reap(child: libc::pid_t) -> ! {
    close_between(0, libc::c_int::MAX);
    loop {
        if let Some((pid, status)) = wait_for(-1)
            && pid == child
        {
            leave(status);
        }
    }
}

fn leave(status: libc::c_int) -> ! {
    let code = if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        128 + libc::WTERMSIG(status)
    };
    // SAFETY: _exit never returns and runs nothing of ours.
    unsafe { libc::_exit(code) }
}

fn wait_for(pid: libc::pid_t) -> Option<(libc::pid_t, libc::c_int)> {
    let mut status = 0;
    // SAFETY: status is valid for writes of one int.
    let pid = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    (pid > 0).then_some((pid, status))
}

fn die_with_parent() {
    // SAFETY: PR_SET_PDEATHSIG takes a number and touches only the calling process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
}

fn close_between(first: libc::c_int, last: libc::c_int) {
    if first <= last && first >= 0 {
        // SAFETY: called in a forked child that uses none of these descriptors again.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: called between fork and exec, in a process of one thread.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(pid)
    }
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes a number and touches only the calling thread.
    check_status(unsafe { libc::unshare(flags) })
}

fn setns(namespace: RawFd) -> io::Result<()> {
    // SAFETY: setns takes two numbers and touches only the calling thread.
    check_status(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) })
}

fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    let (source, kind) = (pointer(source), pointer(kind));
    // SAFETY: each pointer is null or a string that outlives the call.
    check_status(unsafe { libc::mount(source, target.as_ptr(), kind, flags, std::ptr::null()) })
}

/// Creates a file with some content, without allocating.
fn write_file(path: &CStr, content: &[u8]) -> io::Result<()> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: path is a string that outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: content is readable for its length.
    let written = unsafe { libc::write(fd, content.as_ptr().cast(), content.len()) };
    // SAFETY: the descriptor is ours and not used again.
    unsafe { libc::close(fd) };
    if written == content.len().cast_signed() {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn check_status(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
