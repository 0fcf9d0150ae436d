//! Proxy between the subsystem of sshd and the server, which injects faults into messages.

use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use lighthaul_circuit::conformance::Fault;
use rustix::process::{Pid, Signal, kill_process};

use crate::relay::{self, Connection, Directions, strike};

/// Proxy at a socket of its own.
#[derive(Clone)]
pub(crate) struct Proxy {
    plan: Arc<Mutex<Plan>>,
    late: Arc<Late>,
    /// Directory in the arguments of the driver, which finds its process.
    folder: PathBuf,
}

/// Reply that is kept.
#[derive(Default)]
struct Late {
    is_kept: Mutex<bool>,
    released: Condvar,
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
    /// The reply is kept until [`Proxy::release`].
    Late,
}

impl Proxy {
    /// Starts the proxy. Its threads end with the test.
    pub(crate) fn start(folder: &Path) -> Self {
        let proxy = Self {
            plan: Arc::default(),
            late: Arc::default(),
            folder: folder.to_owned(),
        };
        relay::start(&proxy, &folder.join("proxy"), folder.join("server"));
        proxy
    }

    pub(crate) fn set(&self, fault: Option<(Fault, usize)>) {
        self.plan.lock().unwrap().change = fault;
    }

    /// Loses the connection at a request, after `after` others.
    pub(crate) fn lose(&self, loss: Loss, after: usize) {
        self.plan.lock().unwrap().request = Some((loss, after));
    }

    /// Passes on the reply that is kept.
    pub(crate) fn release(&self) {
        *self.late.is_kept.lock().unwrap() = false;
        self.late.released.notify_all();
    }

    /// Takes the planned loss back. Returns true if it has struck.
    pub(crate) fn has_struck(&self) -> bool {
        self.plan.lock().unwrap().request.take().is_none()
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

impl Directions for Proxy {
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
            let is_request = text.contains("message-id");
            let mut plan = self.plan.lock().unwrap();
            let loss = is_request.then(|| strike(&mut plan.request)).flatten();
            drop(plan);
            match loss {
                None => {}
                Some(Loss::Request) => return Ok(()),
                Some(Loss::Reply) => *connection.is_cut_at_reply.lock().unwrap() = true,
                Some(Loss::Silence) => return silence(&mut from),
                Some(Loss::Late) => *self.late.is_kept.lock().unwrap() = true,
            }
            let mut plan = self.plan.lock().unwrap();
            let fault = is("edit-config").then(|| strike(&mut plan.change));
            drop(plan);
            match fault.flatten() {
                None => {}
                Some(Fault::Refuse) => {
                    refuse(connection, &text)?;
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

    fn replies(&self, connection: &Connection) -> io::Result<()> {
        let mut from = BufReader::new(&connection.server);
        for nth in 0.. {
            let Some(message) = read(&mut from, nth < 1)? else {
                break;
            };
            if *connection.is_cut_at_reply.lock().unwrap() {
                break;
            }
            let kept = self.late.is_kept.lock().unwrap();
            drop(
                self.late
                    .released
                    .wait_while(kept, |is_kept| *is_kept)
                    .unwrap(),
            );
            connection.reply(&message)?;
        }
        Ok(())
    }
}

/// Reads until the end of the connection.
fn silence(from: &mut impl Read) -> io::Result<()> {
    let mut room = [0; 4096];
    while from.read(&mut room)? > 0 {}
    Ok(())
}

/// Answers a request with an error.
fn refuse(connection: &Connection, request: &str) -> io::Result<()> {
    let (_, rest) = request.split_once("message-id=\"").unwrap();
    let (id, _) = rest.split_once('"').unwrap();
    let text = format!(
        "<rpc-reply xmlns=\"urn:ietf:params:xml:ns:netconf:base:1.0\" message-id=\"{id}\"><rpc-error>\
         <error-type>application</error-type><error-tag>resource-denied</error-tag>\
         <error-severity>error</error-severity><error-message>no more queues</error-message>\
         </rpc-error></rpc-reply>"
    );
    connection.reply(format!("\n#{}\n{text}\n##\n", text.len()).as_bytes())
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
