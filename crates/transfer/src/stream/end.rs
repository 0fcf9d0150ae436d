//! The far end of a stream: the pipe or file that it comes out of or goes into.

use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::fs::ground::Ground;
use lighthaul_io::host::clock::Clock;
use rustix::io::Errno;

use crate::error::{Code, Error};

/// Opens what is at `path`, to write to it or to read from it; a pipe's reader gets a moment to come.
pub fn open(ground: &Ground, path: &Path, write: bool) -> Result<File, Error> {
    let clock = Clock::start();
    loop {
        let opened = if write {
            ground.open_stream_target(path)
        } else {
            ground.open_stream_source(path)
        };
        match opened {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                if clock.now() > Instant::ZERO + PATIENCE {
                    let text = format!(
                        "nobody reads the pipe {}: start its reader first",
                        path.display()
                    );
                    return Err(Error::new(Code::Open, text));
                }
                thread::park_timeout(LOOK);
            }
            opened => {
                return opened
                    .map_err(|e| Error::file(Code::Open, "cannot open the stream", path, &e));
            }
        }
    }
}

/// How long a pipe waits for who reads it.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
