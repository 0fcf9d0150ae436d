//! Connections between a driver and its device, whose messages pass through a proxy of the test.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// Connection of the driver and that of the device.
pub(crate) struct Connection {
    pub(crate) client: UnixStream,
    pub(crate) server: UnixStream,
    writing: Mutex<()>,
    /// True if the connection ends before the next reply of a kind that the proxy knows.
    pub(crate) is_cut_at_reply: Mutex<bool>,
}

/// Two directions of a proxy. Each returns when its direction ends, and the connection is cut then.
pub(crate) trait Directions: Clone + Send + 'static {
    /// Passes the messages of the driver.
    fn requests(&self, connection: &Connection) -> io::Result<()>;

    /// Passes the messages of the device.
    fn replies(&self, connection: &Connection) -> io::Result<()>;
}

/// Starts a proxy at `socket` for the device at `server`. Its threads end with the test.
pub(crate) fn start(proxy: &impl Directions, socket: &Path, server: PathBuf) {
    let listener = UnixListener::bind(socket).unwrap();
    let proxy = proxy.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            // the device ends before the proxy does
            if let Ok(server) = UnixStream::connect(&server) {
                serve(&proxy, client, server);
            }
        }
    });
}

fn serve(proxy: &impl Directions, client: UnixStream, server: UnixStream) {
    let forth = Arc::new(Connection {
        client,
        server,
        writing: Mutex::new(()),
        is_cut_at_reply: Mutex::new(false),
    });
    let back = Arc::clone(&forth);
    let (one, two) = (proxy.clone(), proxy.clone());
    thread::spawn(move || {
        let _ = one.requests(&forth);
        forth.cut();
    });
    thread::spawn(move || {
        let _ = two.replies(&back);
        back.cut();
    });
}

impl Connection {
    /// Sends a message to the driver.
    pub(crate) fn reply(&self, message: &[u8]) -> io::Result<()> {
        let _turn = self.writing.lock().unwrap();
        (&self.client).write_all(message)
    }

    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// Takes the planned fault if no other event comes before it.
pub(crate) fn strike<T>(planned: &mut Option<(T, usize)>) -> Option<T> {
    let (fault, after) = planned.take()?;
    match after.checked_sub(1) {
        Some(left) => {
            *planned = Some((fault, left));
            None
        }
        None => Some(fault),
    }
}
