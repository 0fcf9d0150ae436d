//! Hosts at the edges that vanish, and readers that do not read.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use std::{fs, thread};

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::pair::{Pair, SOCKS, inner};
use crate::programs::{Ends, assert_reset, hear, socks, tell};
use crate::running::becomes_true;
use crate::status::shown;

#[test]
fn lost_host_ends_its_sessions() {
    let keepalive = ["--keepalive", "2s"];
    let Some(pair) = Pair::start_with("lost_host_ends_its_sessions", &[], &keepalive) else {
        return;
    };
    let mut ends = pair.session();
    let port = ends.target.local_addr().unwrap().port();
    pair.stage.block("b", &format!("tcp dport {port}"));
    assert_reset("the program", &mut ends.program);
}

#[test]
fn five_hundred_stalled_readers_use_bounded_memory() {
    let name = "five_hundred_stalled_readers_use_bounded_memory";
    // a link takes half
    let memory = ["--memory", "64MiB"];
    let Some(pair) = Pair::start_with(name, &memory, &memory) else {
        return;
    };
    limit_socket_buffers(&pair);
    let gateways = [inner(&pair.ingress), inner(&pair.egress)];
    let before = gateways.map(memory_now);
    let slow = sessions(&pair, MANY);
    let words = vec![1; 1 << 16];
    for ends in &slow {
        for mut stream in [&ends.program, &ends.target] {
            set_socket_recv_buffer_size(stream, 1 << 13).unwrap();
            stream.set_nonblocking(true).unwrap();
            while stream.write(&words).is_ok() {}
        }
    }
    wait_until_full(&pair);
    let took = time_to_hear(&pair);
    println!("20 MB beside them took {took:?}");
    for (id, before) in gateways.into_iter().zip(before) {
        let more = most_memory(id) - before;
        println!("{more} KiB more than the {before} KiB before");
        assert!(more < 36 << 10, "{more} KiB of memory for 32 MiB");
    }
}

/// Limits the kernel's buffers of each connection. All hosts of this machine share their memory, and connections of
/// other tests would be reset without any left.
fn limit_socket_buffers(pair: &Pair) {
    for host in ["a", "b"] {
        for buffers in ["tcp_rmem", "tcp_wmem"] {
            let file = format!("/proc/sys/net/ipv4/{buffers}");
            let limit = || fs::write(file, "4096 16384 65536");
            pair.stage.lab.within(host, limit).unwrap();
        }
    }
}

/// Waits until the gateways' memory is full: no byte has moved for a while.
fn wait_until_full(pair: &Pair) {
    let moved = || {
        ["a", "b"].map(|host| {
            (
                shown(&pair.scratch, host)["bytes_out"].clone(),
                shown(&pair.scratch, host)["bytes_in"].clone(),
            )
        })
    };
    let mut before = moved();
    becomes_true("nothing moves any more", || {
        pause(Duration::from_millis(500));
        let now = moved();
        now == std::mem::replace(&mut before, now.clone())
    });
}

/// Opens a number of sessions to one target, fifty at a time.
fn sessions(pair: &Pair, count: usize) -> Vec<Ends> {
    let (listener, address) = pair.target();
    let address = address.to_string();
    let mut ends = Vec::new();
    while ends.len() < count {
        let calls: Vec<_> = (0..50).map(|_| pair.dial(SOCKS)).collect();
        let programs = together(calls, &address);
        for program in programs {
            let (target, _) = listener.accept().unwrap();
            ends.push(Ends { program, target });
        }
    }
    ends
}

/// Sends the targets of all these calls, and waits for the replies.
fn together(calls: Vec<TcpStream>, address: &str) -> Vec<TcpStream> {
    thread::scope(|scope| {
        let mut handshakes = Vec::new();
        for stream in calls {
            handshakes.push(scope.spawn(|| socks(stream, address).unwrap()));
        }
        let programs = handshakes.into_iter();
        programs.map(|call| call.join().unwrap()).collect()
    })
}

/// Returns the shortest of three transfers whose reader reads, to exclude effects of other load.
fn least_time_to_hear(pair: &Pair) -> Duration {
    (0..3).map(|_| time_to_hear(pair)).min().unwrap()
}

/// Returns the duration of a transfer whose reader does not stall.
fn time_to_hear(pair: &Pair) -> Duration {
    let mut ends = pair.session();
    let clock = Clock::start();
    let before = clock.now();
    let sayer = tell(&ends.target, vec![2; 20_000_000]);
    let (heard, end) = hear(&mut ends.program);
    end.unwrap();
    assert_eq!(heard.len(), 20_000_000);
    sayer.join().unwrap().unwrap();
    clock.now().since(before)
}

/// Returns the peak memory of a process, in KiB.
fn most_memory(id: u32) -> u64 {
    status(id, "VmHWM:")
}

/// Returns the current memory of a process, in KiB.
fn memory_now(id: u32) -> u64 {
    status(id, "VmRSS:")
}

fn status(id: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(what));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

/// Number of stalled readers.
const SLOW: usize = 4;
const MANY: usize = 500;

/// A test that measures how much readers that do not read delay others.
mod quiet {
    use super::*;

    #[test]
    fn stalled_reader_uses_bounded_memory_and_delays_no_other_session() {
        let name = "stalled_reader_uses_bounded_memory_and_delays_no_other_session";
        // a link takes half
        let memory = ["--memory", "64MiB"];
        let Some(pair) = Pair::start_quiet(name, &memory, &memory) else {
            return;
        };
        let alone = least_time_to_hear(&pair);
        let slow: Vec<_> = (0..SLOW).map(|_| pair.session()).collect();
        let sayers: Vec<_> = slow
            .iter()
            .map(|ends| tell(&ends.target, vec![1; 40_000_000]))
            .collect();
        wait_until_full(&pair);
        let beside = least_time_to_hear(&pair);
        assert!(
            beside < 2 * alone,
            "{beside:?} beside idle readers, {alone:?} without"
        );
        for id in [inner(&pair.ingress), inner(&pair.egress)] {
            let most = most_memory(id);
            assert!(most < 132 << 10, "{most} KiB of memory");
        }
        // the sessions were paused, not ended
        let mut first = slow.into_iter().next().unwrap();
        first.program.read_exact(&mut vec![0; 40_000_000]).unwrap();
        drop(pair);
        for sayer in sayers {
            if let Err(why) = sayer.join().unwrap() {
                let is_cut = matches!(
                    why.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                );
                assert!(is_cut, "{why}");
            }
        }
    }
}
