//! Datagrams between two hosts, at a constant rate.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::namespace::Namespace;
use lighthaul_io::host::wait::wait;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

/// Sends datagrams to each port at [`OFFERED`] for two seconds. Returns the rates of frames that arrive in the second
/// half of this time, in Mb/s, and the numbers of lost datagrams.
pub(crate) fn send(hosts: [&Namespace; 2], ports: &[u16]) -> Vec<(f64, u64)> {
    let clock = Clock::start();
    let is_over = AtomicBool::new(false);
    let sockets: Vec<(UdpSocket, UdpSocket)> =
        ports.iter().map(|port| connect(hosts, *port)).collect();
    let counts: Vec<(AtomicU64, AtomicU64)> = ports.iter().map(|_| Default::default()).collect();
    let received = |counts: &[(AtomicU64, AtomicU64)]| {
        let arrived = counts.iter();
        arrived
            .map(|(_, arrived)| arrived.load(Ordering::Relaxed))
            .collect::<Vec<u64>>()
    };
    std::thread::scope(|scope| {
        for ((to, from), (sent, arrived)) in sockets.iter().zip(&counts) {
            let is_over = &is_over;
            scope.spawn(move || {
                let begin = clock.now();
                let end = begin + Duration::from_secs(2);
                while clock.now() < end {
                    let due = clock.now().since(begin).as_micros() as u64 * OFFERED / FRAME_BITS;
                    while sent.load(Ordering::Relaxed) < due {
                        to.send(&[7; PAYLOAD]).unwrap();
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    wait(clock, &mut [], clock.now() + Duration::from_millis(1)).unwrap();
                }
            });
            scope.spawn(move || {
                let mut room = [0; 2 * PAYLOAD];
                while !is_over.load(Ordering::Relaxed) {
                    match from.recv(&mut room) {
                        Ok(count) => {
                            assert_eq!(count, PAYLOAD);
                            arrived.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock, "{why}"),
                    }
                }
            });
        }
        let begin = clock.now();
        let at = |millis| begin + Duration::from_millis(millis);
        wait(clock, &mut [], at(1000)).unwrap();
        let (first, from) = (received(&counts), clock.now());
        wait(clock, &mut [], at(1900)).unwrap();
        let (last, till) = (received(&counts), clock.now());
        wait(clock, &mut [], at(2300)).unwrap();
        is_over.store(true, Ordering::Relaxed);
        let micros = till.since(from).as_micros() as f64;
        let rates = first
            .iter()
            .zip(last)
            .map(|(first, last)| (last - first) as f64 * FRAME_BITS as f64 / micros);
        let lost = counts
            .iter()
            .map(|(sent, arrived)| sent.load(Ordering::Relaxed) - arrived.load(Ordering::Relaxed));
        rates.zip(lost.collect::<Vec<u64>>()).collect()
    })
}

/// Returns sockets of the left and the right host for a port.
fn connect([left, right]: [&Namespace; 2], port: u16) -> (UdpSocket, UdpSocket) {
    let target = ("10.9.0.2", port);
    let from = right.within(|| UdpSocket::bind(target)).unwrap();
    from.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    // a receiver that waits for a processor loses nothing
    set_socket_recv_buffer_size_force(&from, 4 << 20).unwrap();
    let to = left.within(|| {
        let to = UdpSocket::bind("10.9.0.1:0")?;
        to.connect(target).map(|()| to)
    });
    (to.unwrap(), from)
}

/// Offered rate of frames in Mb/s.
pub(crate) const OFFERED: u64 = 12;
pub(crate) const PAYLOAD: usize = 1000;
/// Length of a frame with the headers of UDP, IP and Ethernet.
const FRAME_BITS: u64 = (PAYLOAD as u64 + 42) * 8;
