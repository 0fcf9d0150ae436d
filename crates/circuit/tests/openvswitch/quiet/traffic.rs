//! Packets through the switch, and the meters of circuits.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::driver::Driver;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::wait;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::testbed::{Testbed, circuit, set};

/// Sends datagrams to each port at [`OFFERED`] for two seconds. Returns the rates of frames that arrive in the second
/// half of this time, in Mb/s, and the numbers of lost datagrams.
fn send(testbed: &Testbed, ports: &[u16]) -> Vec<(f64, u64)> {
    let clock = Clock::start();
    let is_over = AtomicBool::new(false);
    let sockets: Vec<(UdpSocket, UdpSocket)> =
        ports.iter().map(|port| connect(testbed, *port)).collect();
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
fn connect(testbed: &Testbed, port: u16) -> (UdpSocket, UdpSocket) {
    let target = ("10.9.0.2", port);
    let from = testbed.right.within(|| UdpSocket::bind(target)).unwrap();
    from.set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    // a receiver that waits for a processor loses nothing
    set_socket_recv_buffer_size_force(&from, 4 << 20).unwrap();
    let to = testbed.left.within(|| {
        let to = UdpSocket::bind("10.9.0.1:0")?;
        to.connect(target).map(|()| to)
    });
    (to.unwrap(), from)
}

#[test]
fn meter_limits_the_packets_of_its_circuit_only() {
    let Some(testbed) = Testbed::quiet("meter_limits_the_packets_of_its_circuit_only") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let wanted = circuit(1, "udp 10.9.0.2 5001-5006");
    for mbps in [8, 3, 0, 5] {
        set(&mut driver, &wanted, mbps).unwrap();
        let found = send(&testbed, &[5005, 5007]);
        println!("circuit at {mbps} Mb/s, offered {OFFERED}: Mb/s, lost datagrams: {found:.2?}");
        let [(inside, lost_inside), (outside, lost_outside)] = found[..] else {
            panic!("two flows");
        };
        // the other flow loses nothing
        assert!(
            (0.9..1.1).contains(&(outside / OFFERED as f64)),
            "{found:?}"
        );
        assert_eq!(lost_outside, 0);
        if mbps == 0 {
            // without a rate, the packets are forwarded as all others
            assert!((0.9..1.1).contains(&(inside / OFFERED as f64)), "{found:?}");
            assert_eq!(lost_inside, 0);
        } else {
            // a meter counts frames without their check sequence, by the millisecond
            assert!((0.95..1.02).contains(&(inside / mbps as f64)), "{found:?}");
        }
    }
}

#[test]
fn rates_change_without_a_lost_packet() {
    let Some(testbed) = Testbed::quiet("rates_change_without_a_lost_packet") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let wanted = circuit(1, "udp 10.9.0.2 5001");
    let clock = Clock::start();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&testbed, &[5001]));
        let mut changes = 0;
        while !sending.is_finished() {
            for mbps in [2 * OFFERED, 0, 4 * OFFERED, 3 * OFFERED] {
                set(&mut driver, &wanted, mbps).unwrap();
                changes += 1;
            }
            wait(clock, &mut [], clock.now() + Duration::from_millis(20)).unwrap();
        }
        let found = sending.join().unwrap();
        println!("{changes} changes: Mb/s, lost datagrams: {found:.2?}");
        assert!(changes >= 20, "{changes}");
        assert_eq!(found[0].1, 0);
    });
}

#[test]
fn meter_counts_frames_without_their_check_sequence() {
    let Some(testbed) = Testbed::start("meter_counts_frames_without_their_check_sequence") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    set(&mut driver, &circuit(1, "udp 10.9.0.2 5001"), 100).unwrap();
    let found = send(&testbed, &[5001]);
    assert!(found[0].0 > 0.0);
    let text = testbed.ofctl("meter-stats", "meter=19528");
    let value = |name: &str| -> u64 {
        let rest = text.split_once(name).unwrap().1;
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (packets, bytes) = (value("packet_in_count:"), value("byte_in_count:"));
    let counted = driver.capabilities().counted;
    assert!(packets > 0);
    assert_eq!(
        bytes,
        packets * counted.of_packet(PAYLOAD as u32, 28),
        "{text}"
    );
    assert_eq!(
        driver.capabilities().granularity,
        Rate::from_bps(1000).unwrap()
    );
}

/// Offered rate of frames in Mb/s.
const OFFERED: u64 = 12;
const PAYLOAD: usize = 1000;
/// Length of a frame with the headers of UDP, IP and Ethernet.
const FRAME_BITS: u64 = (PAYLOAD as u64 + 42) * 8;
