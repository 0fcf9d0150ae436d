//! Circuits of a configuration at an interface that Linux shapes.

use std::process::Command;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_domains::{Devices, DomainConfig, ParallelDevices};
use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{CorrelationId, DomainId, Key, PortId, RateChange, Segment};
use lighthaul_testkit::lacks;

use super::site::{Folder, any_port, text};

/// Returns the output of a tool in a host.
fn run(host: &Namespace, tool: &str, words: &str) -> String {
    let output = host.within(|| Command::new(tool).args(words.split(' ')).output());
    let output = output.unwrap();
    assert!(output.status.success(), "{tool} {words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn change(id: u128, mbps: u64) -> RateChange {
    let key = Key {
        source: DomainId(1),
        id: CorrelationId(id),
        attempt: 0,
        leg: 0,
    };
    RateChange {
        circuit: (key, 0),
        segment: Segment {
            ingress: PortId(1),
            egress: PortId(102),
        },
        route: 0,
        rate: Rate::from_bps(mbps * 1_000_000),
        left: Duration::from_hours(1),
    }
}

/// Waits until the thread of the interface has made all changes.
fn settle(devices: &mut ParallelDevices) {
    while devices.next_call().is_some() {
        assert_eq!(devices.apply(Instant::ZERO, &[]), []);
        pause(Duration::from_millis(1));
    }
}

#[test]
fn linux_shapes_the_sum_of_all_reservations_of_two_ports() {
    let test = "linux_shapes_the_sum_of_all_reservations_of_two_ports";
    if lacks(
        test,
        check().map_err(|why| format!("needs namespaces: {why}")),
    ) {
        return;
    }
    let folder = Folder::new("shaper");
    let host = Namespace::create().unwrap();
    run(&host, "ip", "link add wire type veth peer name far");
    run(&host, "ip", "link set wire up");
    let neighbors = [(1, None, folder.key(1))];
    let config = text(2, 2, any_port(), &neighbors)
        + "[[device]]\ninterface = \"wire\"\ncapacity = \"1Gb/s\"\n[[circuit]]\ningress = 1\negress = 102\n\
           interface = \"wire\"\nflow = \"udp 10.0.0.2/32\"\n";
    let config = DomainConfig::parse(&config, &folder.0).unwrap();
    let mut devices = host.within(|| Ok(config.devices.open())).unwrap().unwrap();
    let now = Instant::ZERO;
    assert_eq!(devices.reset(now, &[]), []);
    let mut step = |changes: &[RateChange]| {
        assert_eq!(devices.apply(now, changes), []);
        settle(&mut devices);
        run(&host, "tc", "class show dev wire")
    };
    assert!(step(&[change(1, 300)]).contains("rate 300Mbit"));
    assert!(step(&[change(2, 200)]).contains("rate 500Mbit"));
    assert!(step(&[change(1, 0)]).contains("rate 200Mbit"));
    assert_eq!(step(&[change(2, 0)]), "", "the interface is restored");
    step(&[change(1, 400)]);
    // a service that starts again finds the circuit of an earlier one
    let mut devices = host.within(|| Ok(config.devices.open())).unwrap().unwrap();
    assert_eq!(devices.reset(now, &[]), []);
    settle(&mut devices);
    assert_eq!(run(&host, "tc", "class show dev wire"), "");
    let why = config.devices.open().unwrap_err().to_string();
    assert!(why.contains("wire") && why.contains("[[device]]"), "{why}");
}
