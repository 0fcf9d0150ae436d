//! Programs and their targets, which exchange data through SOCKS5.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use crate::pair::{LONG, Pair, SOCKS};
use crate::scratch::noise;

/// A program that has reached its target, and the target's end.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) program: TcpStream,
    pub(crate) target: TcpStream,
}

impl Pair {
    /// A session from a program on `a` to a target on `b`.
    pub(crate) fn session(&self) -> Ends {
        self.session_with(&self.target().0)
    }

    /// A session from a program on `a` to the listener there.
    pub(crate) fn session_with(&self, listener: &TcpListener) -> Ends {
        let address = listener.local_addr().unwrap();
        let program = self.reach(&address.to_string()).unwrap();
        let (target, _) = listener.accept().unwrap();
        target.set_read_timeout(Some(LONG)).unwrap();
        target.set_write_timeout(Some(LONG)).unwrap();
        Ends { program, target }
    }

    /// Connects to a target, given as address or name with a port. Returns the reply of SOCKS5 if that fails.
    pub(crate) fn reach(&self, target: &str) -> Result<TcpStream, u8> {
        socks(self.dial(SOCKS), target)
    }
}

/// Sends the target over `stream`, and returns the reply.
#[expect(clippy::unwrap_in_result, reason = "the test fails, not the target")]
pub(crate) fn socks(mut stream: TcpStream, target: &str) -> Result<TcpStream, u8> {
    let mut words = vec![5, 1, 0, 5, 1, 0];
    if let Ok(SocketAddr::V4(address)) = target.parse() {
        words.push(1);
        words.extend(address.ip().octets());
        words.extend(address.port().to_be_bytes());
    } else {
        let (name, port) = target.rsplit_once(':').unwrap();
        words.extend([3, name.len() as u8]);
        words.extend(name.as_bytes());
        words.extend(port.parse::<u16>().unwrap().to_be_bytes());
    }
    let mut reply = [0; 12];
    let heard = stream
        .write_all(&words)
        .and_then(|()| stream.read_exact(&mut reply));
    match (heard, reply[3]) {
        (Ok(()), 0) => Ok(stream),
        (Ok(()), why) => Err(why),
        (Err(why), _) => panic!("the gateway said nothing of {target}: {why}"),
    }
}

/// Resets a connection, without waiting for pending data.
pub(crate) fn reset(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    drop(stream);
}

/// Kind of a stream's end for its reader, and the bytes before it.
pub(crate) fn hear(stream: &mut TcpStream) -> (Vec<u8>, io::Result<()>) {
    let mut heard = Vec::new();
    let result = stream.read_to_end(&mut heard).map(|_| ());
    (heard, result)
}

/// Asserts that the stream ends with a reset, not with an end of file.
pub(crate) fn assert_reset(who: &str, stream: &mut TcpStream) {
    match hear(stream).1 {
        Err(why) if why.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("{who} saw {other:?} and no reset"),
    }
}

/// Writes all of `bytes` from a thread of its own, then shuts the direction down.
pub(crate) fn tell(stream: &TcpStream, bytes: Vec<u8>) -> JoinHandle<io::Result<()>> {
    let mut stream = stream.try_clone().unwrap();
    thread::spawn(move || {
        stream.write_all(&bytes)?;
        stream.shutdown(std::net::Shutdown::Write)
    })
}

/// Messages that a program and its target exchange at the same time.
#[derive(Debug)]
pub(crate) struct Talk {
    there: Vec<u8>,
    back: Vec<u8>,
    sayers: [JoinHandle<io::Result<()>>; 2],
    listener: JoinHandle<(Vec<u8>, io::Result<()>)>,
}

impl Talk {
    /// Makes both send; the target reads, the program does not yet.
    pub(crate) fn begin(ends: &Ends, [there, back]: [u64; 2]) -> Self {
        let (there, back) = (noise(there, 1), noise(back, 2));
        let mut target = ends.target.try_clone().unwrap();
        Self {
            sayers: [
                tell(&ends.program, there.clone()),
                tell(&ends.target, back.clone()),
            ],
            listener: thread::spawn(move || hear(&mut target)),
            there,
            back,
        }
    }

    /// Reads the rest of the program's data, and asserts that all bytes arrived unchanged.
    pub(crate) fn finish(self, program: &mut TcpStream, mut heard: Vec<u8>) {
        let (rest, end) = hear(program);
        end.unwrap();
        heard.extend(rest);
        assert!(heard == self.back, "what came back is not what was said");
        let (heard, end) = self.listener.join().unwrap();
        end.unwrap();
        assert!(heard == self.there, "what arrived is not what was said");
        for sayer in self.sayers {
            sayer.join().unwrap().unwrap();
        }
    }
}

/// Echoes the data of a number of clients, until each has sent all.
pub(crate) fn echo(listener: TcpListener, callers: usize) -> JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..callers {
            let (stream, _) = listener.accept().unwrap();
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                let mut writer = &stream;
                if io::copy(&mut reader, &mut writer).is_ok() {
                    stream.shutdown(std::net::Shutdown::Write).ok();
                }
            });
        }
    })
}
