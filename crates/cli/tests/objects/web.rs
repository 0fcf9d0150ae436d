//! Files of web servers as sources: with ranges, without them, and with signed URLs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use crate::scratch::noise;
use crate::server::Server;

/// Starts a web server with this file under any path. Returns its address.
fn serve(bytes: Vec<u8>, has_ranges: bool, has_length: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let bytes = Arc::new(bytes);
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let bytes = Arc::clone(&bytes);
            thread::spawn(move || -> Option<()> {
                let reader = BufReader::new(client.try_clone().ok()?);
                let head: Vec<String> = reader
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                if head.first()?.contains("/none") {
                    return client
                        .write_all(
                            b"HTTP/1.1 404 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                        )
                        .ok();
                }
                let range = head.iter().find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("range: bytes=")
                        .map(str::to_owned)
                });
                let (head, body) = match range.filter(|_| has_ranges) {
                    Some(range) => {
                        let (from, last) = range.split_once('-')?;
                        let (from, last): (usize, usize) = (from.parse().ok()?, last.parse().ok()?);
                        let head = format!(
                            "206 Part\r\nContent-Range: bytes {from}-{last}/{}\r\nETag: \"e\"",
                            bytes.len()
                        );
                        (head, &bytes[from..=last])
                    }
                    None => ("200 All".to_owned(), &bytes[..]),
                };
                let length = if has_length {
                    format!("Content-Length: {}\r\n", body.len())
                } else {
                    String::new()
                };
                write!(client, "HTTP/1.1 {head}\r\n{length}Connection: close\r\nLast-Modified: Sat, 28 Nov 2026 10:00:00 GMT\r\n\r\n").ok()?;
                client.write_all(body).ok()
            });
        }
    });
    address
}

#[test]
fn files_of_web_servers_are_sources() {
    let Some(server) = Server::start("web") else {
        return;
    };
    let bytes = noise((20 << 20) + 3, 11);
    for (name, has_ranges, has_length) in [
        ("ranges", true, true),
        ("whole", false, true),
        ("endless", false, false),
    ] {
        let address = serve(bytes.clone(), has_ranges, has_length);
        let url = format!("http://{address}/a/{name}%20x?signature=y/z");
        server.copy(&[&url, "d/"]);
        assert!(
            fs::read(server.scratch.at(&format!("d/{name} x"))).unwrap() == bytes,
            "{name}"
        );
        if has_ranges {
            let again = server.copy(&[&url, "d/"]).event("summary");
            assert_eq!(
                (&again["unchanged"], &again["bytes_moved"]),
                (&1.into(), &0.into())
            );
            server.copy(&[&url, "s3://data/from-web"]);
            server.copy(&["s3://data/from-web", "back"]);
            assert!(fs::read(server.scratch.at("back")).unwrap() == bytes);
        }
        server
            .run(&["cp", &format!("http://{address}/none"), "d/"])
            .assert_failed(3, "there is no such file");
        server
            .run(&["cp", &format!("http://{address}/a/"), "d/"])
            .assert_failed(1, "no name of a file");
    }
}

#[test]
fn url_of_a_local_file_is_its_path() {
    let Some(server) = Server::start("file-url") else {
        return;
    };
    server.write("a b", "x");
    let url = format!("file://{}", server.scratch.at("a%20b").display());
    server.copy(&[&url, "s3://data/f"]);
    assert_eq!(fs::read_to_string(server.object("f")).unwrap(), "x");
}
