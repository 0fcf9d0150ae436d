//! A gateway without a target: it checks passwords, records the target of each program, and replies as the target.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// A gateway for a test.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    wanted: Receiver<String>,
    heard: Receiver<Vec<u8>>,
}

impl Gateway {
    /// A gateway that sends this reply to each request. Zero is success, and then `says` arrives as the target's data.
    pub(crate) fn start(reply: u8, says: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, wanted) = channel();
        let (listener_heard, heard) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().take(CALLS_MAX) {
                let (target, octets) = serve(stream.unwrap(), reply, says);
                listener_heard.send(octets).ok();
                if sender.send(target).is_err() {
                    return;
                }
            }
        });
        Self {
            address,
            wanted,
            heard,
        }
    }

    /// Returns the bytes that the next program sent to its target.
    pub(crate) fn heard(&self) -> Vec<u8> {
        self.heard
            .recv_timeout(SOON)
            .expect("a program asked the gateway")
    }

    /// Returns the target of the next program.
    pub(crate) fn wanted(&self) -> String {
        self.wanted
            .recv_timeout(SOON)
            .expect("a program asked the gateway")
    }

    /// Returns true if no other request has come.
    pub(crate) fn is_idle(&self) -> bool {
        self.wanted.try_recv().is_err()
    }
}

fn serve(mut stream: TcpStream, reply: u8, says: &str) -> (String, Vec<u8>) {
    stream.set_read_timeout(Some(SOON)).unwrap();
    let count = read(&mut stream, 2)[1];
    if read(&mut stream, count.into()).contains(&2) {
        stream.write_all(&[5, 2]).unwrap();
        assert_eq!(read(&mut stream, 14), b"\x01\x05alice\x06s@cret");
        stream.write_all(&[1, 0]).unwrap();
    } else {
        stream.write_all(&[5, 0]).unwrap();
    }
    let head = read(&mut stream, 4);
    assert_eq!(head[..3], [5, 1, 0]);
    let len = if head[3] == 1 { 4 } else { 16 };
    let ip = read(&mut stream, len);
    let port = read(&mut stream, 2);
    let port = u16::from_be_bytes([port[0], port[1]]);
    let target = match <[u8; 4]>::try_from(ip.as_slice()) {
        Ok(ip) => SocketAddr::from((ip, port)),
        Err(_) => SocketAddr::from((<[u8; 16]>::try_from(ip).unwrap(), port)),
    };
    // data of the target follows the reply directly
    let answer = [&[5, reply, 0, 1, 10, 0, 0, 1, 0, 80][..], says.as_bytes()].concat();
    stream
        .write_all(if reply == 0 { &answer } else { &answer[..10] })
        .unwrap();
    // the data is read, so that closing sends no reset
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).ok();
    (target.to_string(), heard)
}

fn read(stream: &mut TcpStream, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    stream.read_exact(&mut octets).unwrap();
    octets
}

const CALLS_MAX: usize = 20;
const SOON: Duration = Duration::from_secs(20);
