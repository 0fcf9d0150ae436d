//! Very many short sessions.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::pair::{LONG, Pair, inner};
use crate::programs::echo;
use crate::running::becomes_true;
use crate::watching::shown;

#[test]
fn of_many_short_sessions_none_is_lost_and_none_leaves_anything() {
    let name = "of_many_short_sessions_none_is_lost_and_none_leaves_anything";
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
fn a_program_that_finds_no_file_to_be_let_in_with_is_let_in_later() {
    let name = "a_program_that_finds_no_file_to_be_let_in_with_is_let_in_later";
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

/// What one of those does who share the calls: each on time, unless too many before it still wait.
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

/// How many files a process has open.
fn files(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

/// Who has called and has no answer yet, of each: a slow host is called less often, rather than out of files.
const WAITING_MAX: usize = 100;
/// Who calls, how often each does, and when.
const CALLERS: usize = 4;
const EACH: usize = 800;
const GAP: Duration = Duration::from_millis(4);
