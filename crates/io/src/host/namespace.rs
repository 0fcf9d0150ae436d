//! Unnamed namespaces: a network for each host of the lab, and a cell for each command that runs in the host.
//!
//! A cell joins a network namespace and has its own mount and PID namespaces. Three processes form it:
//!
//! ```text
//! lab --> guard --> init (PID 1) --> command
//! ```
//!
//! The guard waits for the lab or the command. If lab, guard or init ends, the kernel kills all processes below it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::host::parent::kill_with_parent;

/// Network namespace. It exists while a process is in it or this value lives.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// Creates a namespace with only a loopback interface, which is down.
    pub fn create() -> io::Result<Self> {
        on_new_thread(|| {
            unshare(libc::CLONE_NEWNET)?;
            Self::open(Path::new("/proc/thread-self/ns/net"))
        })
    }

    /// Opens the namespace at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
        })
    }

    /// Returns a path to the namespace for other processes of the same user, valid while this process lives.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    /// Runs `work` on a new thread in this namespace. Processes that it starts are in the namespace too.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        on_new_thread(|| {
            self.enter()?;
            work()
        })
    }

    /// Moves the calling thread into this namespace permanently.
    pub fn enter(&self) -> io::Result<()> {
        setns(self.file.as_raw_fd())
    }
}

/// Environment of a command in a cell.
#[derive(Debug)]
pub struct Cell<'a> {
    /// Network of the command.
    pub namespace: &'a Namespace,
    /// Content of `/etc/hosts` in the cell.
    pub hosts: &'a str,
    /// Namespaces that the command can enter, each with the name of its file in [`NAMESPACES`].
    pub namespaces: Vec<(&'a str, &'a Namespace)>,
    /// Pipe that ends all processes in the cell when its other end is closed.
    pub lifeline: RawFd,
}

/// Directory in a cell with files for other namespaces, which `nsenter --net=` takes too.
pub const NAMESPACES: &str = "/proc/fs";

/// Configures `command` to run in the network namespace of a cell, with mount and PID namespaces of its own. Its exit
/// status is the command's, or 128 plus the number of the signal that ended it.
pub fn confine(command: &mut Command, cell: &Cell<'_>) -> io::Result<()> {
    let files = CellFiles::new(cell)?;
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
            kill_with_parent();
            files.mount()?;
            let child = fork()?;
            if child != 0 {
                reap(child);
            }
            Ok(())
        });
    }
    Ok(())
}

/// Fails if this process may not create namespaces.
pub fn check() -> io::Result<()> {
    on_new_thread(|| unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS | libc::CLONE_NEWPID))
}

/// Makes this process ignore the interrupt and quit keys, which still reach the commands.
pub fn ignore_interrupts() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        let handler: extern "C" fn(libc::c_int) = nothing;
        // SAFETY: the handler does nothing; a handler, unlike "ignore", ends with exec.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

/// Files of a cell, prepared before the fork because a child cannot allocate memory.
struct CellFiles {
    hosts: Vec<u8>,
    namespaces: Vec<(CString, CString)>,
}

impl CellFiles {
    fn new(cell: &Cell<'_>) -> io::Result<Self> {
        let file = |(name, namespace): &(&str, &Namespace)| {
            let source = CString::new(format!("/proc/self/fd/{}", namespace.file.as_raw_fd()))?;
            Ok((source, CString::new(format!("{NAMESPACES}/{name}"))?))
        };
        let namespaces = cell
            .namespaces
            .iter()
            .map(file)
            .collect::<io::Result<_>>()?;
        Ok(Self {
            hosts: cell.hosts.as_bytes().to_vec(),
            namespaces,
        })
    }

    /// Mounts the files. Called between fork and exec.
    fn mount(&self) -> io::Result<()> {
        mount(Some(c"proc"), c"/proc", Some(c"proc"), 0)?;
        mount(Some(c"tmpfs"), c"/proc/fs", Some(c"tmpfs"), 0)?;
        for (source, target) in &self.namespaces {
            write_file(target, &[])?;
            mount(Some(source), target, None, libc::MS_BIND)?;
        }
        write_file(c"/proc/fs/.hosts", &self.hosts)?;
        mount(Some(c"/proc/fs/.hosts"), c"/etc/hosts", None, libc::MS_BIND)
    }
}

/// Runs `work` on a new thread, so that its changes to the thread end with the thread.
fn on_new_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, work)?;
        worker
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits until the cell's init ends or the lifeline closes. Exits with init's status. Never allocates.
fn guard(init: libc::pid_t, lifeline: RawFd) -> ! {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: ignoring a signal touches nothing else.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: pidfd_open takes two numbers.
    let ended = unsafe { libc::syscall(libc::SYS_pidfd_open, init, 0) } as libc::c_int;
    // Close all other descriptors, especially the lifeline's other end.
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

/// Acts as PID 1 of a cell: reaps orphans until the command ends, and exits with its status.
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

/// Creates a file with `content`, without allocating memory.
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
