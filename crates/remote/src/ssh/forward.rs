//! Remote end of a connection through ssh: standard input and output lead to a port of this host.

use std::io::{self, Write, stdin, stdout};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use crate::error::Fault;
use lighthaul_session::error::Error;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use crate::ssh::pair::keep_short;

/// First word of the line that is written once the connection exists.
pub(crate) const READY: &str = "lighthaul-forward-1";

/// Connects to `port` of this host, or to the port that the first line of standard input names. Copies standard input
/// to it, and its data to standard output until it ends.
pub fn forward(port: Option<u16>) -> Result<(), Error> {
    let port = port.map_or_else(read_port, Ok)?;
    let tcp = connect(port).map_err(|error| Fault::LocalPort { port, error })?;
    let broken = |error: io::Error| Fault::LocalBroken { port, error };
    keep_short(&tcp).map_err(broken)?;
    let mut out = stdout().lock();
    writeln!(out, "{READY}")
        .and_then(|()| out.flush())
        .map_err(broken)?;
    drop(out);
    let input = tcp.try_clone().map_err(broken)?;
    thread::spawn(move || {
        let sent = copy(stdin().as_fd(), input.as_fd());
        // the daemon sees the end of the data, or that the connection broke
        let how = sent.map_or(Shutdown::Both, |()| Shutdown::Write);
        input.shutdown(how).ok();
    });
    // the end of this process, unlike that of its output alone, is seen through every ssh
    Ok(copy(tcp.as_fd(), stdout().as_fd()).map_err(broken)?)
}

/// Reads the first line of standard input, octet by octet, since data follows it.
fn read_port() -> Result<u16, Error> {
    let mut line = Vec::new();
    let mut octet = [0];
    while line.len() <= PORT_DIGITS_MAX {
        match rustix::io::read(stdin().as_fd(), &mut octet) {
            Ok(1) if octet == *b"\n" => break,
            Ok(1) => line.push(octet[0]),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return Err(Fault::NoPort.into()),
        }
    }
    let port = str::from_utf8(&line)
        .ok()
        .and_then(|line| line.parse().ok());
    port.ok_or_else(|| Fault::NoPort.into())
}

/// Maximum number of digits of a port.
const PORT_DIGITS_MAX: usize = 5;

fn connect(port: u16) -> io::Result<TcpStream> {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    // a daemon may listen on IPv6 alone
    TcpStream::connect(v4)
        .or_else(|error| TcpStream::connect((Ipv6Addr::LOCALHOST, port)).map_err(|_| error))
}

/// Copies until the end of `from`. The bytes stay in the kernel where it can splice.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let (outlet, mouth) = pipe_with(PipeFlags::CLOEXEC)?;
    // a pipe of the default size works, too
    fcntl_setpipe_size(&mouth, PIPE_BYTES).ok();
    loop {
        let mut held = match pass(from, mouth.as_fd(), PIPE_BYTES) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(Errno::INVAL) => return copy_by_hand(from, to),
            Err(error) => return Err(error.into()),
        };
        while held > 0 {
            held -= match pass(outlet.as_fd(), to, held) {
                Ok(count) => count,
                Err(Errno::INVAL) => {
                    // what the pipe holds goes first, and then all else
                    let mut octets = vec![0; held];
                    read(outlet.as_fd(), &mut octets)?;
                    write(to, &octets)?;
                    return copy_by_hand(from, to);
                }
                Err(error) => return Err(error.into()),
            };
        }
    }
}

/// Moves at most `most` bytes. Waits where a descriptor does not.
fn pass(from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
    loop {
        match splice(from, None, to, None, most, SpliceFlags::MOVE) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                wait(from, PollFlags::IN)?;
                wait(to, PollFlags::OUT)?;
            }
            result => return result,
        }
    }
}

fn copy_by_hand(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let mut octets = vec![0; BUFFER_BYTES];
    loop {
        match rustix::io::read(from, &mut octets[..]) {
            Ok(0) => return Ok(()),
            Ok(count) => write(to, &octets[..count])?,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(from, PollFlags::IN)?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Fills `octets` from a pipe that holds as many.
fn read(from: BorrowedFd<'_>, octets: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < octets.len() {
        filled += rustix::io::read(from, &mut octets[filled..])?;
    }
    Ok(())
}

fn write(to: BorrowedFd<'_>, mut octets: &[u8]) -> io::Result<()> {
    while !octets.is_empty() {
        match rustix::io::write(to, octets) {
            Ok(count) => octets = &octets[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(to, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait(fd: BorrowedFd<'_>, flags: PollFlags) -> Result<(), Errno> {
    match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Buffer of a pipe, in bytes, between the two descriptors of one direction.
const PIPE_BYTES: usize = 256 << 10;
const BUFFER_BYTES: usize = 64 << 10;
