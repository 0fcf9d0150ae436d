//! Files of web servers as sources: with ranges, without them, and with signed URLs.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::running::{Running, becomes_true};
use crate::scratch::{names, noise};
use crate::server::Server;

/// Form in which a web server sends a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// In ranges, with this `ETag`, if it is not empty.
    Ranges(&'static str),
    /// In ranges without an `ETag`. The content differs in each answer.
    Changing(&'static str),
    /// Whole file with its length.
    Whole,
    /// Whole file in chunks.
    Chunked,
    /// Whole file, without a length; the end of the connection is its end.
    Endless,
    /// Whole file in chunks; the answer to a request for a range has an unknown total size.
    UnknownSize,
    /// Whole file with its length; the first connections that ask for it end early.
    Broken(usize),
    /// In ranges with a strong `ETag`; the answer with the second range hangs.
    Hanging,
}

/// A web server with one file under any path.
pub(crate) struct Site {
    address: String,
    /// Number of answers with the whole file.
    wholes: Arc<AtomicUsize>,
}

impl Site {
    pub(crate) fn start(bytes: Vec<u8>, body: Body) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let bytes = Arc::new(bytes);
        let (answers, wholes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&wholes);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (bytes, answers) = (Arc::clone(&bytes), Arc::clone(&answers));
                let wholes = Arc::clone(&count);
                thread::spawn(move || answer(client, &bytes, body, (&answers, &wholes)));
            }
        });
        Self { address, wholes }
    }

    /// Returns the URL of a file with a signature.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/a/{name}?signature=hush/z", self.address)
    }
}

impl Body {
    fn tag(self) -> &'static str {
        match self {
            Self::Ranges(tag) | Self::Changing(tag) => tag,
            Self::Hanging => "\"strong\"",
            Self::Whole | Self::Chunked | Self::Endless | Self::UnknownSize | Self::Broken(_) => "",
        }
    }

    fn has_ranges(self) -> bool {
        matches!(self, Self::Ranges(_) | Self::Changing(_) | Self::Hanging)
    }
}

/// Reads the head of a request.
fn request(client: &TcpStream) -> Option<Vec<String>> {
    let lines = BufReader::new(client.try_clone().ok()?).lines();
    let lines = lines.map_while(Result::ok);
    Some(lines.take_while(|line| !line.is_empty()).collect())
}

/// Returns the first byte of the range that a request asks for, and the byte after its last one.
fn range(request: &[String]) -> Option<(usize, usize)> {
    let line = request.iter().map(|line| line.to_lowercase());
    let mut ranges = line.filter_map(|line| line.strip_prefix("range: bytes=").map(str::to_owned));
    let range = ranges.next()?;
    let (from, last) = range.split_once('-')?;
    Some((from.parse().ok()?, last.parse::<usize>().ok()? + 1))
}

fn answer(
    mut client: TcpStream,
    bytes: &[u8],
    body: Body,
    (answers, wholes): (&AtomicUsize, &AtomicUsize),
) -> Option<()> {
    let request = request(&client)?;
    if request.first()?.contains("/none") {
        let none = b"HTTP/1.1 404 None\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return client.write_all(none).ok();
    }
    if let Some((_, path)) = request.first()?.split_once("/moved-") {
        let port = path.split(['?', ' ']).next()?;
        let head = format!("Location: http://127.0.0.1:{port}/a/x?signature=hush");
        return write!(
            client,
            "HTTP/1.1 302 Found\r\n{head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .ok();
    }
    let nth = answers.fetch_add(1, Relaxed);
    let mut bytes = bytes.to_vec();
    if let Body::Changing(_) = body {
        bytes.fill(u8::try_from(nth).unwrap_or(u8::MAX));
    }
    let mut span = (0, bytes.len());
    let mut head = match range(&request) {
        Some((from, till)) if body.has_ranges() => {
            span = (from, till);
            let size = bytes.len();
            let range = format!("Content-Range: bytes {from}-{}/{size}", till - 1);
            vec!["HTTP/1.1 206 Part".to_owned(), range]
        }
        Some(_) if body == Body::UnknownSize => {
            span = (0, 1);
            let range = "Content-Range: bytes 0-0/*".to_owned();
            vec!["HTTP/1.1 206 Part".to_owned(), range]
        }
        Some(_) | None => {
            wholes.fetch_add(1, Relaxed);
            vec!["HTTP/1.1 200 All".to_owned()]
        }
    };
    let is_whole = head.len() == 1;
    let sent = &bytes[span.0..span.1];
    if body == Body::Hanging && span.0 > 0 {
        // until the client gives up
        client.read_to_end(&mut Vec::new()).ok();
        return None;
    }
    let is_chunked = is_whole && matches!(body, Body::Chunked | Body::UnknownSize);
    if is_chunked {
        head.push("Transfer-Encoding: chunked".to_owned());
    } else if body != Body::Endless {
        head.push(format!("Content-Length: {}", sent.len()));
    }
    if !body.tag().is_empty() {
        head.push(format!("ETag: {}", body.tag()));
    }
    let head = head.join("\r\n");
    let date = "Last-Modified: Sat, 28 Nov 2026 10:00:00 GMT";
    write!(client, "{head}\r\nConnection: close\r\n{date}\r\n\r\n").ok()?;
    if is_chunked {
        write!(client, "{:x}\r\n", sent.len()).ok()?;
        client.write_all(sent).ok()?;
        return client.write_all(b"\r\n0\r\n\r\n").ok();
    }
    let is_broken =
        is_whole && matches!(body, Body::Broken(times) if wholes.load(Relaxed) <= times);
    let len = if is_broken {
        sent.len() / 2
    } else {
        sent.len()
    };
    client.write_all(&sent[..len]).ok()
}

#[test]
fn files_of_web_servers_are_sources() {
    let Some(server) = Server::start("web") else {
        return;
    };
    let bytes = noise((20 << 20) + 3, 11);
    for (name, body) in [
        ("ranges", Body::Ranges("\"e\"")),
        ("weak", Body::Ranges("W/\"e\"")),
        ("dated", Body::Ranges("")),
        ("whole", Body::Whole),
        ("chunked", Body::Chunked),
        ("unknown", Body::UnknownSize),
    ] {
        let site = Site::start(bytes.clone(), body);
        let url = site.url(&format!("{name}%20x"));
        server.copy(&[&url, "d/"]);
        assert!(
            fs::read(server.scratch.at(&format!("d/{name} x"))).unwrap() == bytes,
            "{name}"
        );
        if matches!(body, Body::Ranges(_) | Body::Whole) {
            let again = server.copy(&[&url, "d/"]).event("summary");
            assert_eq!(
                (&again["unchanged"], &again["bytes_moved"]),
                (&1.into(), &0.into()),
                "{name}"
            );
            server.copy(&[&url, "s3://data/from-web"]);
            server.copy(&["s3://data/from-web", "back"]);
            assert!(fs::read(server.scratch.at("back")).unwrap() == bytes);
        } else {
            let refused = server.run(&["cp", &url, "s3://data/unknown"]);
            refused.assert_failed(1, "does not tell its size");
        }
        server
            .run(&["cp", &format!("http://{}/none", site.address), "d/"])
            .assert_failed(3, "there is no such file");
        server
            .run(&["cp", &format!("http://{}/a/", site.address), "d/"])
            .assert_failed(1, "no name of a file");
    }
}

#[test]
fn versions_of_a_file_without_a_strong_etag_are_never_mixed() {
    let Some(server) = Server::start("web-mixed") else {
        return;
    };
    for tag in ["", "W/\"e\""] {
        let site = Site::start(vec![0; 20 << 20], Body::Changing(tag));
        fs::remove_file(server.scratch.at("d/x")).ok();
        server.copy(&[&site.url("x"), "d/"]);
        let bytes = fs::read(server.scratch.at("d/x")).unwrap();
        assert!(bytes.len() == 20 << 20 && bytes.iter().all(|byte| *byte == bytes[0]));
        server.copy(&[&site.url("x"), "s3://data/x"]);
        let bytes = fs::read(server.object("x")).unwrap();
        assert!(bytes.len() == 20 << 20 && bytes.iter().all(|byte| *byte == bytes[0]));
    }
}

#[test]
fn file_without_a_known_end_is_refused() {
    let Some(server) = Server::start("web-endless") else {
        return;
    };
    for len in [5, 20 << 20] {
        let site = Site::start(noise(len, 12), Body::Endless);
        let outcome = server.run(&["cp", "--retries", "0", &site.url("x"), "d/"]);
        outcome.assert_failed(2, "neither its length nor its end");
        assert!(names(&server.scratch.at("d")).is_empty());
        let outcome = server.run(&["cp", "--retries", "0", &site.url("x"), "s3://data/x"]);
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }
    assert!(server.keys().is_empty());
}

#[test]
fn file_that_breaks_off_is_read_again() {
    let Some(server) = Server::start("web-broken") else {
        return;
    };
    let bytes = noise((20 << 20) + 3, 13);
    let site = Site::start(bytes.clone(), Body::Broken(2));
    server.copy(&[&site.url("x"), "d/"]);
    assert!(fs::read(server.scratch.at("d/x")).unwrap() == bytes);
    let site = Site::start(bytes, Body::Broken(usize::MAX));
    let outcome = server.run(&["cp", "--retries", "1", &site.url("y"), "d/"]);
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    assert_eq!(names(&server.scratch.at("d")), ["x"]);
    // one of the requests only reads the attributes
    assert!(site.wholes.load(Relaxed) >= 3);
}

#[test]
fn signature_of_a_url_is_neither_printed_nor_stored() {
    let Some(server) = Server::start("web-signed") else {
        return;
    };
    let site = Site::start(noise(20 << 20, 14), Body::Hanging);
    let tells = |text: &str| text.contains("hush") || text.contains("signature");
    let outcome = server.run(&["cp", &site.url("none"), "d/"]);
    outcome.assert_failed(3, "/a/none: there is no such file");
    let outcome = server.run(&["cp", "--json", &site.url("none"), "d/"]);
    assert!(
        !outcome
            .out
            .iter()
            .chain(&outcome.err)
            .any(|line| tells(line)),
        "{outcome:?}"
    );
    for (words, name) in [
        ("ls", "none"),
        ("stat", "none"),
        ("ls", "x"),
        ("stat", "x"),
        ("cat", "x"),
        ("du", "x"),
        ("rm", "x"),
    ] {
        let outcome = server.run(&[words, &site.url(name)]);
        let mut lines = outcome.out.iter().chain(&outcome.err);
        assert!(!lines.any(|line| tells(line)), "{outcome:?}");
    }
    let args = ["cp", &site.url("x"), "d/"];
    let running = Running::start(server.command_at(&server.address, &args));
    let journal = || {
        let found = fs::read_dir(server.scratch.at("d"))
            .into_iter()
            .flatten()
            .flatten();
        let mut paths = found.map(|item| item.path());
        let path = paths.find(|path| path.to_string_lossy().ends_with(".journal"))?;
        fs::read_to_string(path).ok()
    };
    becomes_true("a range is in the journal", || {
        journal().is_some_and(|text| text.lines().count() >= 2)
    });
    assert!(!tells(&journal().unwrap()));
    running.signal("INT");
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(20), "{outcome:?}");
    assert!(
        !outcome
            .out
            .iter()
            .chain(&outcome.err)
            .any(|line| tells(line)),
        "{outcome:?}"
    );
    assert!(outcome.said("resumes: the same command"), "{outcome:?}");
}

#[test]
fn redirects_are_followed_unless_they_are_refused() {
    let Some(server) = Server::start("web-moved") else {
        return;
    };
    let inner = Site::start(noise(1000, 3), Body::Whole);
    let outer = Site::start(Vec::new(), Body::Whole);
    let port = inner.address.rsplit(':').next().unwrap();
    let url = outer.url(&format!("moved-{port}"));
    let outcome = server.run(&["cp", "--no-redirects", &url, "d/"]);
    let told = format!("{outcome:?}");
    outcome.assert_failed(1, "redirects to http://127.0.0.1:");
    assert!(
        told.contains("--no-redirects") && !told.contains("hush"),
        "{told}"
    );
    assert_eq!(inner.wholes.load(Relaxed), 0, "the other server was asked");
    server.copy(&[&url, "d/"]);
    let copied = server.scratch.at(&format!("d/moved-{port}"));
    assert_eq!(fs::read(copied).unwrap(), noise(1000, 3));
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
