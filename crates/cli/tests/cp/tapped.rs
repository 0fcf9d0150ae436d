//! Streams that a host on the path reads or changes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use crate::far::Far;
use crate::scratch::look;

/// Content of the copied file.
const WORDS: &[u8] = b"content for the target only ";
/// Offset of the octet that is changed, in a connection after the first.
const CHANGED: usize = 1_000_000;

/// Bytes that crossed to a daemon, by connection.
type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

/// Relays connections to `far`, and changes an octet on request.
fn tap(far: &mut Far, changes: bool) -> Seen {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = std::mem::replace(&mut far.port, listener.local_addr().unwrap().port());
    let seen = Seen::default();
    let connections = Arc::clone(&seen);
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let there = TcpStream::connect(("127.0.0.1", behind)).unwrap();
            let (back, home) = (there.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || pass(back, home, |_| ()));
            let mut all = connections.lock().unwrap();
            let number = all.len();
            all.push(Vec::new());
            let connections = Arc::clone(&connections);
            let look = move |octets: &mut [u8]| {
                let mut all = connections.lock().unwrap();
                let begin = all[number].len();
                let change = begin..begin + octets.len();
                if changes && number > 0 && change.contains(&CHANGED) {
                    octets[CHANGED - begin] ^= 1;
                }
                all[number].extend_from_slice(octets);
            };
            thread::spawn(move || pass(near, there, look));
        }
    });
    seen
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&mut [u8])) {
    let mut octets = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut octets) {
        look(&mut octets[..len]);
        if to.write_all(&octets[..len]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        end.shutdown(Shutdown::Both).ok();
    }
}

#[test]
fn streams_are_encrypted_unless_both_sides_allow_plain() {
    let size = 5_000_000;
    for (plain, protocol) in [
        (false, "tcp"),
        (false, "ptcp"),
        (true, "tcp"),
        (true, "ptcp"),
    ] {
        let options: &[&str] = if plain { &["--plain"] } else { &[] };
        let mut far = Far::start(&format!("tapped-{protocol}-{plain}"), options);
        let file = far.near.at("x");
        fs::write(&file, WORDS.repeat(size / WORDS.len())).unwrap();
        let seen = tap(&mut far, false);
        let options = [&["--protocol", protocol], options].concat();
        far.push(&options, &[&file], "x").assert_succeeded();
        assert!(look(&far.target.join("x")) == look(&file));
        let seen = seen.lock().unwrap();
        let readable = seen.iter().flat_map(|octets| octets.windows(WORDS.len()));
        let readable = readable.filter(|octets| *octets == WORDS).count() * WORDS.len();
        let crossed: usize = seen[1..].iter().map(Vec::len).sum();
        println!(
            "{protocol}, plain {plain}: {crossed} octets on further connections, {readable} readable"
        );
        assert!(
            crossed > size,
            "{crossed}: it is for these connections to carry it"
        );
        // except text that spans two packets
        assert_eq!(readable > size * 9 / 10, plain, "{readable}");
        assert!(plain || readable == 0, "{readable}");
    }
}

#[test]
fn altered_data_is_retransmitted() {
    for protocol in ["tcp", "ptcp"] {
        let mut far = Far::start(&format!("changed-{protocol}"), &[]);
        let file = far.near.file("x", 20_000_000);
        let seen = tap(&mut far, true);
        far.push(&["--protocol", protocol], &[&file], "x")
            .assert_succeeded();
        assert!(look(&far.target.join("x")) == look(&file));
        let longest = seen.lock().unwrap()[1..].iter().map(Vec::len).max();
        assert!(longest > Some(CHANGED), "{longest:?}: nothing was changed");
    }
}
