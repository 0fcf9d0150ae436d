//! HTTP listener for confirmations, which can lose some.

#![expect(clippy::disallowed_methods, reason = "a server for a test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use lighthaul_nsi::requester::Inbox;

/// Listener that gives messages to an inbox, and drops them silently while it is deaf.
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) inbox: Arc<OnceLock<Arc<Inbox>>>,
    pub(crate) is_deaf: Arc<AtomicBool>,
}

impl Listener {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let started = Self {
            address: listener.local_addr().unwrap(),
            inbox: Arc::default(),
            is_deaf: Arc::default(),
        };
        let (inbox, is_deaf) = (Arc::clone(&started.inbox), Arc::clone(&started.is_deaf));
        thread::spawn(move || {
            for tcp in listener.incoming().map(Result::unwrap) {
                answer(tcp, inbox.get().unwrap(), &is_deaf);
            }
        });
        started
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/nsi/", self.address)
    }
}

fn answer(tcp: TcpStream, inbox: &Inbox, is_deaf: &AtomicBool) {
    let mut writer = tcp.try_clone().unwrap();
    let mut reader = BufReader::new(tcp);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let line = line.trim().to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let document = if is_deaf.load(Ordering::Relaxed) {
        String::new()
    } else {
        inbox.accept(&body).document
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        document.len()
    );
    writer.write_all(head.as_bytes()).ok();
    writer.write_all(document.as_bytes()).ok();
}
