//! Control socket of a service.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::durable::make_folders;
use lighthaul_io::host::panics;
use lighthaul_io::host::wait::{Waker, Watch, pause, wait};
use tracing::{debug, error, warn};

use super::caller::Caller;
use super::place::Place;
use super::problem::ControlError;
use crate::config::DomainConfig;
use crate::service::Handle;

/// Listening control socket. It closes when this is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    /// Device and inode of the socket file.
    number: (u64, u64),
    callers: Arc<AtomicUsize>,
    /// Locked file, which keeps a second service from starting.
    _lock: File,
    stop: Arc<AtomicBool>,
    stopped: Waker,
    thread: Option<JoinHandle<()>>,
}

/// Listener for the thread of the socket.
struct Acceptor {
    listener: UnixListener,
    config: Arc<DomainConfig>,
    handle: Handle,
    stop: Arc<AtomicBool>,
    stopped: Waker,
    /// Callers that are served.
    callers: Arc<AtomicUsize>,
    /// Callers that wait for a path.
    waiting: Arc<AtomicUsize>,
}

impl ControlSocket {
    /// Listens at a path, which only the user of this process and root can use. Replaces the socket of a service that
    /// has ended.
    pub fn open(path: &Path, config: DomainConfig, handle: Handle) -> Result<Self, ControlError> {
        let failed = |why: io::Error| ControlError::Create {
            path: path.to_owned(),
            why: why.to_string(),
        };
        if let Some(folder) = path.parent().filter(|one| !one.as_os_str().is_empty()) {
            make_folders(folder).map_err(failed)?;
        }
        let in_use = || ControlError::InUse(path.to_owned());
        let lock = lock(path).map_err(failed)?.ok_or_else(in_use)?;
        match UnixStream::connect(path) {
            Ok(_) => return Err(in_use()),
            Err(why) => check_replaceable(path, why).map_err(failed)?,
        }
        let (listener, number) = bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (stop, callers) = (Arc::<AtomicBool>::default(), Arc::default());
        let stopped = Waker::new().map_err(failed)?;
        let acceptor = Acceptor {
            listener,
            config: Arc::new(config),
            handle,
            stop: Arc::clone(&stop),
            stopped: stopped.clone(),
            callers: Arc::clone(&callers),
            waiting: Arc::default(),
        };
        let thread = thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || {
            if let Err(panic) = panics::catch("control", || acceptor.run()) {
                error!("{}", lighthaul_domain_links::text_of(panic));
            }
        });
        Ok(Self {
            path: path.to_owned(),
            number,
            callers,
            _lock: lock,
            stop,
            stopped,
            thread: Some(thread.map_err(failed)?),
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.stopped.raise();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
        // callers release their requests now, while the service still runs
        let clock = Clock::start();
        while self.callers.load(Ordering::Acquire) > 0 && clock.now() < Instant::ZERO + FAREWELL {
            pause(CHECK);
        }
        // another program may have replaced the file
        if number_of(&self.path).is_ok_and(|number| number == self.number) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Binds a socket that other users can never use: the file gets its name after its mode.
///
/// Returns its device and inode, too.
fn bind(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let hidden = beside(path, &std::process::id().to_string());
    // a process with this ID may have been killed here
    fs::remove_file(&hidden).ok();
    let listener = UnixListener::bind(&hidden)?;
    let named = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
        .and_then(|()| number_of(&hidden))
        .and_then(|number| fs::rename(&hidden, path).map(|()| number));
    if named.is_err() {
        fs::remove_file(&hidden).ok();
    }
    named.map(|number| (listener, number))
}

fn number_of(path: &Path) -> io::Result<(u64, u64)> {
    let about = fs::symlink_metadata(path)?;
    Ok((about.dev(), about.ino()))
}

/// Returns the path with one more extension.
fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{extension}"));
    name.into()
}

/// Returns the locked file beside a socket, or `None` if another service holds the lock. The file stays: a process that
/// waits for its lock could otherwise lock a file that has no name.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(beside(path, "lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Checks that the name of a socket is free, or belongs to a socket without a listening process.
fn check_replaceable(path: &Path, why: io::Error) -> io::Result<()> {
    if why.kind() == ErrorKind::NotFound {
        return Ok(());
    }
    if why.kind() != ErrorKind::ConnectionRefused {
        return Err(why);
    }
    let about = fs::symlink_metadata(path)?.file_type();
    let name = match (about.is_socket(), about.is_file(), about.is_dir()) {
        (true, _, _) => return Ok(()),
        (false, true, _) => "a regular file",
        (false, false, true) => "a directory",
        (false, false, false) => "a file that is no socket",
    };
    Err(io::Error::other(format!(
        "{name} has the name of the socket"
    )))
}

impl Acceptor {
    /// Takes callers until the socket closes.
    fn run(self) {
        let clock = Clock::start();
        while !self.stop.load(Ordering::Acquire) {
            let mut watches = [
                Watch::read(self.listener.as_raw_fd()),
                Watch::read(self.stopped.as_raw_fd()),
            ];
            if let Err(error) = wait(clock, &mut watches, clock.now() + LOOK) {
                warn!(%error, "cannot wait for callers of the control socket");
                pause(PAUSE);
            }
            if watches[0].readable {
                self.take();
            }
        }
    }

    fn take(&self) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) => {
                warn!(%error, "cannot accept a caller of the control socket; check the limit of open files");
                pause(PAUSE);
                return;
            }
        };
        let place = Place::take(&self.callers, CALLERS_MAX);
        let caller = Caller {
            config: Arc::clone(&self.config),
            handle: self.handle.clone(),
            stop: Arc::clone(&self.stop),
            is_full: place.is_none(),
            waiting: Arc::clone(&self.waiting),
        };
        let Some(place) = place else {
            // it gets its answer at once
            caller.serve(stream);
            return;
        };
        let started = thread::Builder::new().name("caller".into()).spawn(move || {
            let _place = place;
            if let Err(panic) = panics::catch("caller", || caller.serve(stream)) {
                error!("{}", lighthaul_domain_links::text_of(panic));
            }
        });
        if let Err(error) = started {
            debug!(%error, "cannot start a thread for a caller of the control socket");
        }
    }
}

/// Maximum number of callers at one time.
pub const CALLERS_MAX: usize = 32;
/// Longest wait for a caller.
const LOOK: Duration = Duration::from_secs(10);
/// Pause after a failure, since the next may come at once.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest wait for callers at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// Time between two checks of the callers.
const CHECK: Duration = Duration::from_millis(10);
