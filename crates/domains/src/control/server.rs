//! Control socket of a service.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::durable::make_folders;
use lighthaul_io::host::panics;
use lighthaul_io::host::wait::{Waker, Watch, pause, wait};
use tracing::{debug, error, warn};

use super::caller::Caller;
use super::problem::ControlError;
use crate::config::DomainConfig;
use crate::service::Handle;

/// Listening control socket. It closes when this is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    /// Device and inode of the socket file.
    number: Option<(u64, u64)>,
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
}

impl ControlSocket {
    /// Listens at a path, which only the user of this process and root can use. Replaces the socket of a service that
    /// has ended.
    pub fn open(path: &Path, config: DomainConfig, handle: Handle) -> Result<Self, ControlError> {
        if UnixStream::connect(path).is_ok() {
            return Err(ControlError::InUse(path.to_owned()));
        }
        let failed = |why: io::Error| ControlError::Create {
            path: path.to_owned(),
            why: why.to_string(),
        };
        let listener = bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let stop = Arc::<AtomicBool>::default();
        let stopped = Waker::new().map_err(failed)?;
        let acceptor = Acceptor {
            listener,
            config: Arc::new(config),
            handle,
            stop: Arc::clone(&stop),
            stopped: stopped.clone(),
            callers: Arc::default(),
        };
        let thread = thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || {
            if let Err(panic) = panics::catch("control", || acceptor.run()) {
                error!("{}", crate::error::text_of(panic));
            }
        });
        Ok(Self {
            path: path.to_owned(),
            number: number_of(path),
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
        // the next service may have replaced the file
        if self.number.is_some() && number_of(&self.path) == self.number {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Binds a socket that no other user can use at any time: the file gets its name after its mode.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|one| !one.as_os_str().is_empty()) {
        make_folders(folder)?;
    }
    let mut hidden = path.as_os_str().to_owned();
    hidden.push(format!(".{}", std::process::id()));
    let hidden = PathBuf::from(hidden);
    // a process with this ID may have been killed here
    fs::remove_file(&hidden).ok();
    let listener = UnixListener::bind(&hidden)?;
    let named = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&hidden, path));
    if named.is_err() {
        fs::remove_file(&hidden).ok();
    }
    named.map(|()| listener)
}

fn number_of(path: &Path) -> Option<(u64, u64)> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino()))
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
        let is_full = self.callers.fetch_add(1, Ordering::AcqRel) >= CALLERS_MAX;
        let place = Place(Arc::clone(&self.callers));
        let caller = Caller {
            config: Arc::clone(&self.config),
            handle: self.handle.clone(),
            stop: Arc::clone(&self.stop),
            is_full,
        };
        if is_full {
            // it gets its answer at once
            caller.serve(stream);
            return;
        }
        let started = thread::Builder::new().name("caller".into()).spawn(move || {
            let _place = place;
            if let Err(panic) = panics::catch("caller", || caller.serve(stream)) {
                error!("{}", crate::error::text_of(panic));
            }
        });
        if let Err(error) = started {
            debug!(%error, "cannot start a thread for a caller of the control socket");
        }
    }
}

/// Place of one caller, which is free again when this is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Maximum number of callers at one time.
pub const CALLERS_MAX: usize = 32;
/// Longest wait for a caller.
const LOOK: Duration = Duration::from_secs(10);
/// Pause after a failure, since the next may come at once.
const PAUSE: Duration = Duration::from_millis(100);
