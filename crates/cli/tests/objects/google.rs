//! Google Cloud Storage, by a server that imitates it.
//!
//! The server knows the JSON interface of uploads only. An adapter before it translates those of the XML interface: a PUT
//! gets the query of a signed URL, and an upload in parts becomes objects that the server composes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use lighthaul_testkit::lacks;

use crate::clouds::{request, round_trip};
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{Scratch, dress};
use crate::server::{free_address, tool};

/// A server of Google Cloud Storage with the bucket `data`.
struct Google {
    _process: Running,
    scratch: Scratch,
    /// Address of the adapter.
    address: String,
}

impl Google {
    /// Starts a server for the test `name`, or skips the test if there is none.
    fn start(name: &str) -> Option<Self> {
        let program = tool("fake-gcs-server");
        let missing = || format!("needs {}: run make test", program.display());
        if lacks(name, program.exists().then_some(()).ok_or_else(missing)) {
            return None;
        }
        let scratch = Scratch::new(&format!("objects-{name}"));
        scratch.folder("home");
        let server = free_address();
        let (host, port) = server.split_once(':')?;
        let address = adapter(&server);
        let mut command = Command::new(program);
        command.args([
            "-scheme",
            "http",
            "-backend",
            "memory",
            "-log-level",
            "error",
        ]);
        command.args(["-host", host, "-port", port, "-public-host", &address]);
        let process = Running::start(command);
        becomes_true("the server answers", || TcpStream::connect(&server).is_ok());
        let head = format!(
            "POST /storage/v1/b?project=test HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json"
        );
        let made = request(&server, &head, r#"{"name":"data"}"#);
        assert!(made.contains(" 200 "), "{made}");
        Some(Self {
            _process: process,
            scratch,
            address,
        })
    }

    /// Runs the command with these arguments.
    fn run(&self, args: &[&str]) -> Outcome {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lighthaul"));
        command.args(args).current_dir(self.scratch.at(""));
        command.env("HOME", self.scratch.at("home"));
        command.env("STORAGE_EMULATOR_HOST", &self.address);
        Running::start(command).finish()
    }
}

#[test]
fn tree_goes_to_google_and_comes_back() {
    let Some(google) = Google::start("google") else {
        return;
    };
    round_trip(&google.scratch, "gs://data", |args| google.run(args));
}

#[test]
fn times_and_names_stay_in_google() {
    let Some(google) = Google::start("google-names") else {
        return;
    };
    let scratch = &google.scratch;
    for (name, len) in [("größe +%", 3), ("large", (8 << 20) + 1), ("empty", 0)] {
        scratch.folder("t");
        scratch.file(&format!("t/{name}"), len);
        dress(
            &scratch.at(&format!("t/{name}")),
            0o644,
            1_600_000_000 + len,
        );
    }
    google.run(&["cp", "t/", "gs://data/"]).assert_succeeded();
    google
        .run(&["cp", "gs://data/", "back/"])
        .assert_succeeded();
    for name in ["größe +%", "large", "empty"] {
        let [one, other] = ["t", "back"].map(|folder| {
            let path = scratch.at(&format!("{folder}/{name}"));
            let time = std::fs::metadata(&path).unwrap().modified().unwrap();
            (std::fs::read(path).unwrap(), time)
        });
        assert!(one == other, "{name}");
    }
    google
        .run(&["cp", "gs://data/none", "y"])
        .assert_failed(3, "there is no such object");
}

/// Uploads in parts: modification times of their files, by key.
type Uploads = Arc<Mutex<BTreeMap<String, String>>>;

/// Starts an adapter before `server`. Returns its address.
fn adapter(server: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (server, uploads) = (server.to_owned(), Uploads::default());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (server, uploads) = (server.clone(), Arc::clone(&uploads));
            thread::spawn(move || translate(client, &server, &uploads));
        }
    });
    address
}

/// Answers one request.
fn translate(mut client: TcpStream, server: &str, uploads: &Uploads) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let (mut lines, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let line = line.trim_end().to_owned();
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
        if !lower.starts_with("connection:") {
            lines.push(line);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let first = lines.remove(0);
    let mut words = first.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let send = |first: &str, body: &[u8]| {
        let mut upstream = TcpStream::connect(server).ok()?;
        let head = format!(
            "{first} HTTP/1.1\r\n{}\r\nConnection: close\r\n\r\n",
            lines.join("\r\n")
        );
        upstream.write_all(head.as_bytes()).ok()?;
        upstream.write_all(body).ok()?;
        let mut answer = Vec::new();
        upstream.read_to_end(&mut answer).ok()?;
        Some(answer)
    };
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    let answer = match (method, value("partNumber="), value("uploadId=")) {
        ("PUT", Some(number), _) => tagged(&send(
            &format!("PUT {path}.part{number}?X-Goog-Algorithm=x"),
            &body,
        )?),
        ("PUT", None, _) => tagged(&send(&format!("PUT {path}?X-Goog-Algorithm=x"), &body)?),
        ("POST", _, Some(_)) => {
            let time = uploads.lock().unwrap().remove(path)?;
            let parts = String::from_utf8_lossy(&body)
                .matches("<PartNumber>")
                .count();
            composed(server, path, (parts, &time))
        }
        ("POST", _, None) if query.starts_with("uploads") => {
            let is_time = |line: &&String| line.to_lowercase().starts_with("x-goog-meta-mtime:");
            let time = lines
                .iter()
                .find(is_time)
                .and_then(|line| line.split(' ').nth(1));
            let mut uploads = uploads.lock().unwrap();
            uploads.insert(path.to_owned(), time.unwrap_or_default().to_owned());
            document(
                "<InitiateMultipartUploadResult><Bucket>data</Bucket><Key>x</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>",
            )
        }
        _ => send(&format!("{method} {target}"), &body)?,
    };
    client.write_all(&answer).ok()?;
    client.shutdown(Shutdown::Write).ok()
}

/// Composes an object of its parts, and removes these.
fn composed(server: &str, path: &str, (parts, time): (usize, &str)) -> Vec<u8> {
    let key = path.strip_prefix("/data/").unwrap();
    let name = decoded(key);
    let names = (1..=parts).map(|number| format!(r#"{{"name":"{name}.part{number}"}}"#));
    let names: Vec<_> = names.collect();
    let text = format!(
        r#"{{"destination":{{"contentType":"application/octet-stream","metadata":{{"mtime":"{time}"}}}},"sourceObjects":[{}]}}"#,
        names.join(",")
    );
    let head = format!(
        "POST /storage/v1/b/data/o/{key}/compose HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json"
    );
    let made = request(server, &head, &text);
    assert!(made.contains(" 200 "), "{made}");
    for number in 1..=parts {
        let head =
            format!("DELETE /storage/v1/b/data/o/{key}.part{number} HTTP/1.1\r\nHost: {server}");
        request(server, &head, "");
    }
    document(
        "<CompleteMultipartUploadResult><Location>x</Location><Bucket>data</Bucket><Key>x</Key><ETag>\"x\"</ETag></CompleteMultipartUploadResult>",
    )
}

/// Returns a part of a URL without percent signs.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut octets = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        octets.push(u8::from_str_radix(&part[..2], 16).unwrap());
        octets.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(octets).unwrap()
}

fn document(text: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    [head.as_bytes(), text.as_bytes()].concat()
}

/// Adds the version that the XML interface returns for what was written.
fn tagged(answer: &[u8]) -> Vec<u8> {
    let end = answer.windows(2).position(|two| two == b"\r\n").unwrap();
    [&answer[..end], b"\r\nETag: \"x\"", &answer[end..]].concat()
}
