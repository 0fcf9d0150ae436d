//! Sockets that tell event loops about the end of work in another thread.

use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use pyo3::PyResult;

/// Sockets that can be read once a future is ready.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndSockets(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting(Mutex<Vec<UnixStream>>);

impl Waiting {
    fn sockets(&self) -> MutexGuard<'_, Vec<UnixStream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        for socket in self.sockets().drain(..) {
            // a child process may have a copy of the socket, which closing it would leave open
            socket.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Returns false if the other socket of the pair is closed. Nothing is ever written to it.
fn is_open(mut ours: &UnixStream) -> bool {
    let read = ours.read(&mut [0]);
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

impl EndSockets {
    /// Returns a new socket that can be read once `end` is ready.
    pub(crate) fn socket(&self, end: impl Future) -> PyResult<RawFd> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        {
            let mut sockets = self.0.sockets();
            // tasks that were cancelled have closed theirs
            sockets.retain(is_open);
            sockets.push(ours);
        }
        let waker = Waker::from(Arc::clone(&self.0));
        let polled = pin!(end).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            waker.wake();
        }
        Ok(theirs.into_raw_fd())
    }
}
