//! Endpoint of a stream in the file system: a pipe or file.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_fs::file_access::FileAccess;
use lighthaul_io::host::clock::Clock;
use lighthaul_session::error::{Error, FileAction};
use rustix::io::Errno;

use crate::error::Fault;

/// Opens the pipe or file at `path` to write or read. Waits for the reader of a pipe.
pub fn open(access: &FileAccess, path: &Path, write: bool) -> Result<File, Error> {
    let clock = Clock::start();
    loop {
        let opened = if write {
            access.open_stream_target(path)
        } else {
            access.open_stream_source(path)
        };
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if clock.now() > Instant::ZERO + PATIENCE {
                    return Err(Fault::NoReader(path.to_owned()).into());
                }
                thread::park_timeout(LOOK);
            }
            opened => {
                return opened.map_err(|e| Error::file(FileAction::OpenStream, path, &e));
            }
        }
    }
}

/// Longest wait for the reader of a pipe.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval of attempts.
const LOOK: Duration = Duration::from_millis(50);
