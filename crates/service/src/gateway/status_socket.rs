//! Status socket of a gateway: a Unix socket that sends one line of JSON to each client.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use lighthaul_base::Instant;
use lighthaul_daemon::gateway_links::GatewayLinks;
use lighthaul_daemon::link_status::LinkStatus;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use serde_json::{Value, json};
use tracing::debug;

/// Listening status socket. Dropping it removes the socket.
#[derive(Debug)]
pub(super) struct StatusSocket {
    path: PathBuf,
}

impl StatusSocket {
    /// Serves the links of `gateways` at `path`. Replaces the socket of a gateway that has ended.
    pub(super) fn open(path: &Path, gateways: &Arc<GatewayLinks>) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let listener = bind(path)?;
        let gateways = Arc::clone(gateways);
        thread::Builder::new().name("board".into()).spawn(move || {
            for stream in listener.incoming() {
                if let Err(error) = stream.and_then(|stream| tell(stream, &gateways)) {
                    debug!("cannot send the status to a client: {error}");
                    thread::park_timeout(BREATH);
                }
            }
        })?;
        Ok(Self {
            path: path.to_owned(),
        })
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

/// Returns a listener at the path. A gateway that is stopping may hold the path for a moment longer.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let clock = Clock::start();
    loop {
        let error = match UnixListener::bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => error,
            bound => return bound,
        };
        if UnixStream::connect(path).is_err() {
            fs::remove_file(path).ok();
        } else if clock.now() >= Instant::ZERO + HANDOVER {
            return Err(error);
        } else {
            pause(LOOK);
        }
    }
}

fn tell(mut stream: UnixStream, gateways: &GatewayLinks) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let links: Vec<Value> = gateways.links().iter().map(link).collect();
    let event = json!({"v": 1, "type": "gateway", "links": links});
    writeln!(stream, "{event}")
}

/// Returns a link as a JSON object.
fn link(seen: &LinkStatus) -> Value {
    let counters = &seen.counters;
    json!({
        "peer": seen.peer,
        "side": seen.side(),
        "connected": counters.connected,
        "refused": counters.refused,
        "reconnections": counters.reconnections,
        "sessions": counters.sessions,
        "sessions_ended": counters.sessions_ended,
        "sessions_refused": counters.sessions_refused,
        "sessions_reset": counters.sessions_broken,
        "bytes_out": counters.read,
        "bytes_in": counters.wrote,
        "memory_out_bytes": counters.memory_out,
        "memory_in_bytes": counters.memory_in,
        "slabs": counters.slabs_sent,
        "slabs_held": counters.slabs_held,
        "credit_pages": counters.credit,
        "datagrams_sent": counters.datagrams_sent,
        "datagrams_resent": counters.datagrams_resent,
        "datagrams_received": counters.datagrams_received,
        "rate_bps": counters.rate_bps,
        "tokens_taken": counters.tokens_taken,
        "tokens_made": counters.tokens_made,
        "turns_s": counters.turns.as_secs_f64(),
    })
}

/// Timeout for a client that does not read.
const PATIENCE: Duration = Duration::from_secs(2);
/// Pause after a failure, since the next may come at once.
const BREATH: Duration = Duration::from_millis(20);
/// Time for the previous gateway to release the socket.
const HANDOVER: Duration = Duration::from_secs(2);
/// Interval of attempts to take the socket.
const LOOK: Duration = Duration::from_millis(50);
