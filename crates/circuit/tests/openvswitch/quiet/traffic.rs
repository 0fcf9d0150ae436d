//! Packets through the switch, and the meters of circuits.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::driver::Driver;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::wait;

use crate::sending::{OFFERED, PAYLOAD, send};
use crate::testbed::{Testbed, circuit, set};

#[test]
fn meter_limits_the_packets_of_its_circuit_only() {
    let Some(testbed) = Testbed::quiet("meter_limits_the_packets_of_its_circuit_only") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let wanted = circuit(1, "udp 10.9.0.2 5001-5006");
    for mbps in [8, 3, 0, 5] {
        set(&mut driver, &wanted, mbps).unwrap();
        let found = send([&testbed.left, &testbed.right], &[5005, 5007]);
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
        let sending = scope.spawn(|| send([&testbed.left, &testbed.right], &[5001]));
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
    let found = send([&testbed.left, &testbed.right], &[5001]);
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
