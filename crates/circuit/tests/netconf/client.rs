//! Another client of the server, which sees and changes what the driver did.

use std::io::{self, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Session of NETCONF 1.0.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    /// Starts a session through `subsystem`, which connects standard input and output to the server.
    pub(crate) fn start(mut subsystem: Command) -> Self {
        subsystem
            .env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 65535")
            .env("USER", "root")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // the server forgets the first request of some sessions
        let client = (0..TRIES).find_map(|_| Self::answering(&mut subsystem));
        client.unwrap_or_else(|| panic!("the server answers none of {TRIES} sessions"))
    }

    /// Starts a session, and makes a request. Returns none if there is no reply in time.
    fn answering(subsystem: &mut Command) -> Option<Self> {
        let mut child = subsystem.spawn().unwrap();
        let id = Pid::from_child(&child);
        let (answered, waits) = mpsc::channel::<()>();
        thread::spawn(move || {
            if waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                // the read of the reply ends with it
                kill_process(id, Signal::KILL).ok();
            }
        });
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let mut client = Self {
            child,
            input,
            output,
        };
        client.send(&format!(
            "<hello xmlns=\"{BASE}\"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability>\
             </capabilities></hello>"
        ));
        let hello = client.reply().ok()?;
        assert!(hello.contains("<hello"), "{hello}");
        client.request("<get-config><source><running/></source></get-config>");
        client.reply().ok()?;
        drop(answered);
        Some(client)
    }

    fn send(&mut self, text: &str) {
        write!(self.input, "<?xml version=\"1.0\"?>{text}{END}").unwrap();
    }

    fn reply(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        let mut octet = [0];
        while !text.ends_with(END.as_bytes()) {
            self.output.read_exact(&mut octet)?;
            text.push(octet[0]);
        }
        let text = String::from_utf8(text).unwrap();
        Ok(text.trim_end_matches(END).to_owned())
    }

    fn request(&mut self, operation: &str) {
        self.send(&format!(
            "<rpc message-id=\"1\" xmlns=\"{BASE}\" xmlns:nc=\"{BASE}\">{operation}</rpc>"
        ));
    }

    /// Makes a request, and returns the reply.
    pub(crate) fn ask(&mut self, operation: &str) -> String {
        self.request(operation);
        self.reply().unwrap()
    }

    /// Makes a request that must succeed.
    pub(crate) fn must(&mut self, operation: &str) -> String {
        let reply = self.ask(operation);
        assert!(!reply.contains("rpc-error"), "{operation}: {reply}");
        reply
    }

    /// Changes the configuration of `qos`. The candidate is committed if the server has one.
    pub(crate) fn edit(&mut self, target: &str, parts: &str) {
        self.must(&format!(
            "<edit-config><target><{target}/></target><config><qos xmlns=\"{QOS}\">{parts}</qos></config></edit-config>"
        ));
        if target == "candidate" {
            self.must("<commit/>");
        }
    }

    /// Returns the running configuration of `qos`.
    pub(crate) fn running(&mut self) -> String {
        self.must(&format!(
            "<get-config><source><running/></source><filter type=\"subtree\"><qos xmlns=\"{QOS}\"/></filter></get-config>"
        ))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the contents of all elements with a name, also with attributes. They must not contain each other.
pub(crate) fn all<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(&open) {
        rest = &rest[at + open.len()..];
        let is_it = rest.starts_with(['>', ' ', '/', '\n']);
        let Some(end) = rest.find('>').filter(|_| is_it) else {
            continue;
        };
        if rest[..end].ends_with('/') {
            found.push("");
        } else if let Some(length) = rest[end + 1..].find(&close) {
            found.push(&rest[end + 1..end + 1 + length]);
            rest = &rest[end + 1 + length..];
        }
    }
    found
}

/// Returns the content of the first element with a name.
pub(crate) fn one<'a>(text: &'a str, name: &str) -> &'a str {
    all(text, name).first().copied().unwrap_or_default().trim()
}

const BASE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
const QOS: &str = "http://openconfig.net/yang/qos";
const END: &str = "]]>]]>";
/// Number of sessions of which one must answer.
const TRIES: usize = 10;
/// Time in which a session must answer its first request.
const PATIENCE: Duration = Duration::from_secs(15);
