//! A bucket with a million keys, in bounded memory.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use crate::server::Server;

const KEYS: u64 = 1_000_000;
const PAGE: u64 = 1000;

/// Starts a server that only lists keys. Returns its address.
fn lists() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(&client));
        }
    });
    address
}

fn serve(client: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(client);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).ok().filter(|len| *len > 0)?;
        }
        let value = |name: &str| {
            let rest = head.split_once(name)?.1;
            let digits = rest.find(|letter: char| !letter.is_ascii_digit());
            rest[..digits?].parse::<u64>().ok()
        };
        let from = value("continuation-token=").unwrap_or(0);
        let till = from + value("max-keys=").unwrap_or(PAGE).min(PAGE);
        let mut body = String::from("<ListBucketResult>");
        if till < KEYS {
            write!(
                body,
                "<IsTruncated>true</IsTruncated><NextContinuationToken>{till}</NextContinuationToken>"
            )
            .ok()?;
        }
        for nth in from..till.min(KEYS) {
            write!(
                body,
                "<Contents><Key>p/a-folder-with-a-name/an-object-with-a-name-{nth:08}</Key><Size>7</Size>\
                 <LastModified>2026-11-28T10:00:00.000Z</LastModified><ETag>\"x\"</ETag></Contents>"
            )
            .ok()?;
        }
        body.push_str("</ListBucketResult>");
        let len = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{body}");
        (&*client).write_all(answer.as_bytes()).ok()?;
    }
}

/// Returns the peak memory of a process until its end, in bytes, and its exit status.
fn peak(mut child: Child) -> (u64, Option<i32>) {
    let mut peak = 0;
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) << 10);
        if let Some(ended) = child.try_wait().unwrap() {
            return (peak, ended.code());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn copy_of_a_million_keys_takes_little_memory() {
    let Some(server) = Server::start("many-keys") else {
        return;
    };
    server.write("back/only-here", "x");
    let address = lists();
    // names are kept, since files that the bucket does not have are deleted
    let args = ["cp", "-n=explain", "--delete", "s3://data/p/", "back/"];
    let mut command = server.command_at(&address, &args);
    let out = fs::File::create(server.scratch.at("out")).unwrap();
    let child = command.stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let (peak, code) = peak(child);
    assert_eq!(code, Some(0));
    let out = server.read("out");
    assert_eq!(out.lines().count() as u64, KEYS + 1);
    let last = out.lines().last().unwrap();
    assert!(last.starts_with("delete "), "{last}");
    assert!(peak < 96 << 20, "{} MiB", peak >> 20);
}
