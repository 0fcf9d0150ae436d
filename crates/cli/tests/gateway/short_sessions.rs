//! Very many short sessions.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use std::{fs, thread};

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::pair::{LONG, Pair, inner};
use crate::programs::echo;
use crate::running::becomes_true;
use crate::status::shown;

#[test]
fn short_sessions_are_neither_lost_nor_leaked() {
    let name = "short_sessions_are_neither_lost_nor_leaked";
    let forward = ["--forward", "127.0.0.1:7001=10.77.0.2:7001"];
    let Some(pair) = Pair::start_with(name, &forward, &[]) else {
        return;
    };
    let listen = || std::net::TcpListener::bind("10.77.0.2:7001");
    let listener = pair.stage.lab.within("b", listen).unwrap();
    let target = echo(listener, CALLERS * EACH);
    let ids = [inner(&pair.ingress), inner(&pair.egress)];
    let before = ids.map(files);
    thread::scope(|scope| {
        for nth in 0..CALLERS {
            let lab = &pair.stage.lab;
            scope.spawn(move || lab.within("a", || call(nth)).unwrap());
        }
    });
    target.join().unwrap();
    for host in ["a", "b"] {
        becomes_true("every session has ended in good order", || {
            let link = shown(&pair.scratch, host);
            link["sessions"] == 0 && link["sessions_ended"] == CALLERS * EACH
        });
    }
    for (id, before) in ids.into_iter().zip(before) {
        becomes_true("no file is left open", || files(id) <= before);
    }
}

#[test]
fn program_is_accepted_once_file_descriptors_are_free() {
    let name = "program_is_accepted_once_file_descriptors_are_free";
    let forward = ["--forward", "127.0.0.1:7001=10.77.0.2:7001"];
    let Some(pair) = Pair::start_with(name, &forward, &[]) else {
        return;
    };
    let listen = || std::net::TcpListener::bind("10.77.0.2:7001");
    let listener = pair.stage.lab.within("b", listen).unwrap();
    let target = echo(listener, 1);
    let ingress = Pid::from_raw(inner(&pair.ingress).try_into().unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = |current| prlimit(ingress, Resource::Nofile, Rlimit { current, maximum }).unwrap();
    limit(Some(3));
    let call = || TcpStream::connect_timeout(&"127.0.0.1:7001".parse().unwrap(), LONG);
    let mut stream = pair.stage.lab.within("a", call).unwrap();
    // no other program calls after it
    pause(Duration::from_millis(300));
    limit(maximum);
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"here").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "here");
    target.join().unwrap();
}

/// Makes a share of the calls, each on time, unless too many earlier ones still wait.
#[expect(clippy::unwrap_in_result, reason = "the test fails, not the call")]
fn call(nth: usize) -> io::Result<()> {
    let address = "127.0.0.1:7001".parse().unwrap();
    let (called, waiting) = sync_channel::<(TcpStream, String)>(WAITING_MAX);
    let hearer = thread::spawn(move || {
        for (mut stream, word) in waiting {
            let mut heard = String::new();
            stream.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, word);
        }
    });
    let clock = Clock::start();
    for number in 0..EACH {
        let due = Instant::ZERO + GAP * number as u32;
        pause(due.since(clock.now().min(due)));
        let mut stream = TcpStream::connect_timeout(&address, LONG)?;
        stream.set_read_timeout(Some(LONG))?;
        let word = format!("{nth} says {number}");
        stream.write_all(word.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        called.send((stream, word)).unwrap();
    }
    drop(called);
    hearer.join().unwrap();
    Ok(())
}

/// Returns the number of files that a process has open.
fn files(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

/// Calls without an answer, of each host. A slow host is called less often, so that files do not run out.
const WAITING_MAX: usize = 100;
/// Number of clients.
const CALLERS: usize = 4;
/// Number of connections of each client.
const EACH: usize = 800;
/// Time between two connections of a client.
const GAP: Duration = Duration::from_millis(4);
