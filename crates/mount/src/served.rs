//! Mount that is served until a signal or umount(8).

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL};
use lighthaul_files::request::FileKind;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::pause;
use lighthaul_remote::files::connect;
use lighthaul_remote::notice::say;
use lighthaul_remote::place::Place;
use lighthaul_remote::reach::Route;
use lighthaul_session::error::{Code, Coded, Error};

use crate::file_system::FileSystem;

/// Threads that serve requests of the kernel, and that wait for the server.
const THREADS: usize = 16;
/// Interval at which the end of the mount is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Fault of a mount.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// The directory cannot be mounted on.
    #[error(
        "cannot mount on {folder}: {why}; is it a directory, and are /dev/fuse and fusermount3 there?",
        folder = .0.display(), why = .1
    )]
    Mount(PathBuf, io::Error),
    /// The place is not a directory.
    #[error("cannot mount {0}: it is no directory")]
    NotFolder(String),
    /// The mount cannot be served or removed.
    #[error("cannot unmount {folder}: {why}", folder = .0.display(), why = .1)]
    Unmount(PathBuf, io::Error),
}

impl Coded for Fault {
    fn code(&self) -> Code {
        match self {
            Self::Mount(..) | Self::NotFolder(_) => Code::Open,
            Self::Unmount(..) => Code::Io,
        }
    }
}

/// Mounts the directory at `place` on `folder`, and serves the mount until a signal or umount(8). Changes are refused
/// if `read_only`; other users of this host can use the mount if `allow_other`.
///
/// Files that are open at a signal are served until they are closed. A second signal does not wait for that.
pub(crate) fn serve(
    route: &Route,
    (place, folder): (&str, &Path),
    (read_only, allow_other): (bool, bool),
) -> Result<(), Error> {
    let at = Place::parse(place)?;
    let files = connect(route, &at, !read_only)?;
    let (info, _) = files.stat(at.path(), true)?;
    if info.kind != FileKind::Folder {
        return Err(Fault::NotFolder(place.to_owned()).into());
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(place.to_owned()),
        MountOption::Subtype("lighthaul".to_owned()),
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if read_only {
        config.mount_options.push(MountOption::RO);
    }
    // the server decides what the user of the mount may do, and the modes of its files what other users may do
    if allow_other {
        config.acl = SessionACL::All;
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config.n_threads = Some(THREADS);
    let file_system = FileSystem::new(files, at.path().to_vec());
    let mounted = file_system
        .and_then(|file_system| Session::new(file_system, folder, &config))
        .and_then(Session::spawn);
    let mounted = mounted.map_err(|error| Fault::Mount(folder.to_owned(), error))?;
    say(&format!("mounted {place} on {}", folder.display()));
    while !mounted.guard.is_finished() && !interrupt::is_ending() {
        pause(CHECK_INTERVAL);
    }
    let failed = |error| Fault::Unmount(folder.to_owned(), error);
    // umount(8) may be faster
    if let Err(error) = detach(folder)
        && !mounted.guard.is_finished()
    {
        return Err(failed(error).into());
    }
    while !mounted.guard.is_finished() {
        // a second signal
        if interrupt::is_requested() {
            return Ok(());
        }
        pause(CHECK_INTERVAL);
    }
    mounted.join().map_err(failed)?;
    Ok(())
}

/// Removes the mount from `folder`. Programs keep the files that they have open.
fn detach(folder: &Path) -> io::Result<()> {
    let mut unmount = if rustix::process::geteuid().is_root() {
        let mut unmount = Command::new("umount");
        unmount.arg("--lazy");
        unmount
    } else {
        let mut unmount = Command::new("fusermount3");
        unmount.args(["-u", "-z"]);
        unmount
    };
    let unmount = unmount.arg("--").arg(folder).stdin(Stdio::null());
    let output = unmount.output()?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(why.trim().to_owned()))
}
