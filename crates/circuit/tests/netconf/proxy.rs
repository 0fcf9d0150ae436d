//! Proxy between the subsystem of sshd and the server, which injects faults into messages.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use lighthaul_circuit::conformance::Fault;
use rustix::process::{Pid, Signal, kill_process};

/// Proxy at a socket of its own.
#[derive(Clone)]
pub(crate) struct Proxy {
    plan: Arc<Mutex<Plan>>,
    /// Directory in the arguments of the driver, which finds its process.
    folder: PathBuf,
}

/// Faults to come.
#[derive(Default)]
struct Plan {
    /// Fault of a change, and the number of changes before it.
    change: Option<(Fault, usize)>,
    /// Loss of a request, and the number of requests before it.
    request: Option<(Loss, usize)>,
}

/// Loss of a connection around one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The connection ends before the request arrives.
    Request,
    /// The connection ends after the request arrived, and before its reply.
    Reply,
    /// Nothing is passed on any more, and the connection stays.
    Silence,
}

impl Proxy {
    /// Starts the proxy. Its threads end with the test.
    pub(crate) fn start(folder: &Path) -> Self {
        let listener = UnixListener::bind(folder.join("proxy")).unwrap();
        let proxy = Self {
            plan: Arc::default(),
            folder: folder.to_owned(),
        };
        let one = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                // the server ends before the proxy does
                if let Ok(server) = UnixStream::connect(one.folder.join("server")) {
                    one.serve(&client, &server);
                }
            }
        });
        proxy
    }

    pub(crate) fn set(&self, fault: Option<(Fault, usize)>) {
        self.plan.lock().unwrap().change = fault;
    }

    /// Loses the connection at a request, after `after` others.
    pub(crate) fn lose(&self, loss: Loss, after: usize) {
        self.plan.lock().unwrap().request = Some((loss, after));
    }

    /// Takes the planned loss back. Returns true if it has struck.
    pub(crate) fn has_struck(&self) -> bool {
        self.plan.lock().unwrap().request.take().is_none()
    }

    /// Starts the two directions of a connection.
    fn serve(&self, client: &UnixStream, server: &UnixStream) {
        let connection = Connection {
            client: client.try_clone().unwrap(),
            server: server.try_clone().unwrap(),
            writing: Mutex::new(()),
            is_cut_at_reply: Mutex::new(false),
        };
        let (forth, back) = (Arc::new(connection), self.clone());
        let other = Arc::clone(&forth);
        thread::spawn(move || {
            let _ = back.requests(&forth);
            forth.cut();
        });
        thread::spawn(move || {
            let _ = other.replies();
            other.cut();
        });
    }

    /// Passes the messages of the driver.
    fn requests(&self, connection: &Connection) -> io::Result<()> {
        let (mut from, mut to) = (BufReader::new(&connection.client), &connection.server);
        let mut is_losing_commit = false;
        // the first two are the subsystem's own message, and the hello
        for nth in 0.. {
            let Some(message) = read(&mut from, nth < 2)? else {
                break;
            };
            let text = String::from_utf8_lossy(&message).into_owned();
            let is = |name: &str| text.contains(&format!(":{name}")) && text.contains("message-id");
            match self.loss(text.contains("message-id")) {
                None => {}
                Some(Loss::Request) => return Ok(()),
                Some(Loss::Reply) => *connection.is_cut_at_reply.lock().unwrap() = true,
                Some(Loss::Silence) => return silence(&mut from),
            }
            let fault = self.fault(is("edit-config"));
            match fault {
                None => {}
                Some(Fault::Refuse) => {
                    connection.refuse(&text)?;
                    continue;
                }
                Some(Fault::Unreachable) => return Ok(()),
                Some(Fault::Silence) => return silence(&mut from),
                Some(Fault::AnswerLost) => is_losing_commit = true,
                Some(Fault::Death) => {
                    self.kill_driver();
                    return Ok(());
                }
            }
            // the answer to the last commit: without a candidate, that is the edit itself
            let is_last = (is("commit") && !text.contains("confirmed"))
                || (is("edit-config") && text.contains("running"));
            if is_losing_commit && is_last {
                *connection.is_cut_at_reply.lock().unwrap() = true;
            }
            to.write_all(&message)?;
        }
        Ok(())
    }

    /// Returns the fault of a change that begins.
    fn fault(&self, is_change: bool) -> Option<Fault> {
        let next = &mut self.plan.lock().unwrap().change;
        let (fault, after) = next.take_if(|_| is_change)?;
        let left = after.checked_sub(1);
        *next = left.map(|left| (fault, left));
        left.is_none().then_some(fault)
    }

    fn loss(&self, is_request: bool) -> Option<Loss> {
        let next = &mut self.plan.lock().unwrap().request;
        let (loss, after) = next.take_if(|_| is_request)?;
        let left = after.checked_sub(1);
        *next = left.map(|left| (loss, left));
        left.is_none().then_some(loss)
    }

    /// Kills the driver, a child of this process.
    pub(crate) fn kill_driver(&self) {
        let own = format!("PPid:\t{}\n", std::process::id());
        let folder = self.folder.display().to_string();
        for entry in fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path();
            let pid = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            let Some(pid) = pid.and_then(Pid::from_raw) else {
                continue;
            };
            let status = fs::read_to_string(path.join("status")).unwrap_or_default();
            let words = fs::read(path.join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            if status.contains(&own) && words.contains("driver.py") && words.contains(&folder) {
                kill_process(pid, Signal::KILL).unwrap();
            }
        }
    }
}

/// Reads until the end of the connection.
fn silence(from: &mut impl Read) -> io::Result<()> {
    let mut room = [0; 4096];
    while from.read(&mut room)? > 0 {}
    Ok(())
}

/// Connection of the driver and that of the server.
struct Connection {
    client: UnixStream,
    server: UnixStream,
    writing: Mutex<()>,
    is_cut_at_reply: Mutex<bool>,
}

impl Connection {
    fn replies(&self) -> io::Result<()> {
        let mut from = BufReader::new(&self.server);
        for nth in 0.. {
            let Some(message) = read(&mut from, nth < 1)? else {
                break;
            };
            if *self.is_cut_at_reply.lock().unwrap() {
                break;
            }
            self.reply(&message)?;
        }
        Ok(())
    }

    fn reply(&self, message: &[u8]) -> io::Result<()> {
        let _turn = self.writing.lock().unwrap();
        (&self.client).write_all(message)
    }

    /// Answers a request with an error.
    fn refuse(&self, request: &str) -> io::Result<()> {
        let (_, rest) = request.split_once("message-id=\"").unwrap();
        let (id, _) = rest.split_once('"').unwrap();
        let text = format!(
            "<rpc-reply xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\" message-id=\"{id}\"><rpc-error>\
             <error-type>application</error-type><error-tag>resource-denied</error-tag>\
             <error-severity>error</error-severity><error-message>no more queues</error-message>\
             </rpc-error></rpc-reply>"
        );
        self.reply(format!("\n#{}\n{text}\n##\n", text.len()).as_bytes())
    }

    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// Returns the next message with its frame, or nothing at the end.
fn read(from: &mut impl Read, is_marked: bool) -> io::Result<Option<Vec<u8>>> {
    let end: &[u8] = if is_marked { b"]]>]]>" } else { b"\n##\n" };
    let mut message = Vec::new();
    let mut octet = [0];
    while !message.ends_with(end) {
        if from.read(&mut octet)? == 0 {
            return Ok(None);
        }
        message.push(octet[0]);
    }
    Ok(Some(message))
}
