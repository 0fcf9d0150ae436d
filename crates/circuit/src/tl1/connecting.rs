//! Connection to a switch within a time limit, and not after a stop.
//!
//! The names of hosts are resolved and addresses are tried by a thread of their own. The caller waits for it until the
//! time limit, which counts for all addresses together. After that, the thread ends with its present call.

use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::net::dial;

use crate::tl1::fault::SwitchFault;
use lighthaul_io::host::stopping::{self, StopLimit};

/// Connects to the first address of a host that answers within `limit`.
pub(super) fn connect(
    clock: Clock,
    (host, port): (&str, u16),
    limit: Duration,
    stop_limit: &StopLimit,
) -> Result<TcpStream, SwitchFault> {
    let till = clock.now() + limit;
    let (sender, connected) = channel();
    let host = host.to_owned();
    let thread = thread::Builder::new()
        .name("switch".to_owned())
        .spawn(move || sender.send(connect_by(clock, (&host, port), till)));
    let thread = thread.map_err(|why| SwitchFault::Connect(why.to_string()))?;
    let stream = wait(clock, &connected, (till, limit), stop_limit);
    if stream.is_ok() {
        // it has sent its result
        let _ = thread.join();
    }
    stream
}

fn wait(
    clock: Clock,
    connected: &Receiver<io::Result<TcpStream>>,
    (till, limit): (Instant, Duration),
    stop_limit: &StopLimit,
) -> Result<TcpStream, SwitchFault> {
    let silent = || {
        let seconds = limit.as_secs_f64();
        SwitchFault::Connect(format!("no answer within {seconds} s"))
    };
    loop {
        let look = stopping::next_look(clock, till);
        match connected.recv_timeout(look.since(clock.now())) {
            Ok(Ok(stream)) => {
                stop_limit.renew();
                return Ok(stream);
            }
            Ok(Err(why)) if is_timeout(&why) => return Err(silent()),
            Ok(Err(why)) => return Err(SwitchFault::Connect(why.to_string())),
            Err(RecvTimeoutError::Disconnected) => return Err(silent()),
            Err(RecvTimeoutError::Timeout) if stop_limit.is_overdue() => {
                let task = "connection".to_owned();
                return Err(SwitchFault::Stopping(task));
            }
            Err(RecvTimeoutError::Timeout) if clock.now() >= till => return Err(silent()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn connect_by(clock: Clock, (host, port): (&str, u16), till: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let addresses: Vec<_> = dial::resolve(host, port)?.into_iter().collect();
    for (nth, address) in addresses.iter().enumerate() {
        // an address that never answers leaves time for the others
        let left = till.since(clock.now()) / (addresses.len() - nth) as u32;
        if left.is_zero() {
            break;
        }
        match dial::dial(*address, left) {
            Ok((stream, _)) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                return Ok(stream);
            }
            Err(why) => failure = why,
        }
    }
    Err(failure)
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(
        why.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}
