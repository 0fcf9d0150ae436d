//! A proxy before the S3 server that injects faults: errors, lost connections, changed answers, silence.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Fate of a request.
pub(crate) enum Fault {
    /// The server answers.
    Pass,
    /// The proxy answers with this status and body.
    Answer(u16, String),
    /// The connection is reset after this number of bytes of the answer.
    Reset(usize),
    /// The answer is changed.
    Change(fn(Vec<u8>) -> Vec<u8>),
    /// The server answers after this time.
    Late(Duration),
    /// No answer comes.
    Hang,
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<String>>>,
}

/// Decides about a request by its first line and head, and the number of earlier requests with the same line.
type Rule = dyn Fn(&str, usize) -> Fault + Send + Sync;

impl Proxy {
    /// Starts a proxy to `server`.
    pub(crate) fn start(
        server: &str,
        rule: impl Fn(&str, usize) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (server, rule): (String, Arc<Rule>) = (server.to_owned(), Arc::new(rule));
        let all = Arc::clone(&seen);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (server, rule, seen) = (server.clone(), Arc::clone(&rule), Arc::clone(&all));
                thread::spawn(move || serve(client, &server, &*rule, &seen));
            }
        });
        Self { address, seen }
    }

    /// Returns the number of requests whose head contains these words.
    pub(crate) fn count(&self, words: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|head| head.contains(words)).count()
    }
}

fn serve(
    mut client: TcpStream,
    server: &str,
    rule: &Rule,
    seen: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        if !lower.starts_with("connection:") {
            head.push_str(&line);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let nth = {
        let mut seen = seen.lock().unwrap();
        let line = |head: &str| head.lines().next().unwrap_or_default().to_owned();
        let before = seen
            .iter()
            .filter(|other| line(other) == line(&head))
            .count();
        seen.push(head.clone());
        before
    };
    let answer = || {
        let mut upstream = TcpStream::connect(server).ok()?;
        upstream
            .write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())
            .ok()?;
        upstream.write_all(&body).ok()?;
        let mut answer = Vec::new();
        upstream.read_to_end(&mut answer).ok()?;
        Some(answer)
    };
    match rule(&head, nth) {
        Fault::Pass => client.write_all(&answer()?).ok()?,
        Fault::Late(time) => {
            thread::sleep(time);
            client.write_all(&answer()?).ok()?;
        }
        Fault::Change(change) => client.write_all(&change(answer()?)).ok()?,
        Fault::Answer(status, body) => {
            let len = body.len();
            let text = format!(
                "HTTP/1.1 {status} Fault\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}"
            );
            client.write_all(text.as_bytes()).ok()?;
        }
        Fault::Reset(len) => {
            let answer = answer()?;
            client.write_all(&answer[..len.min(answer.len())]).ok()?;
            set_socket_linger(&client, Some(Duration::ZERO)).ok()?;
            return None;
        }
        Fault::Hang => {
            // until the client gives up
            client.read_to_end(&mut Vec::new()).ok()?;
        }
    }
    client.shutdown(Shutdown::Write).ok()
}

/// Returns the answer with the first occurrence of a text replaced by another one of the same length.
pub(crate) fn replaced(answer: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = answer
        .windows(from.len())
        .position(|part| part.eq_ignore_ascii_case(from.as_bytes()));
    let at = at.unwrap_or_else(|| {
        panic!(
            "no {from} in {:?}",
            String::from_utf8_lossy(&answer[..answer.len().min(800)])
        )
    });
    let mut answer = answer;
    answer[at..at + to.len()].copy_from_slice(to.as_bytes());
    answer
}
