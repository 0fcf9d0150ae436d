//! Flows of circuits as the switch matches them, and what others do to them.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use lighthaul_base::{Rate, Rng};
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Driver, InstalledCircuit};
use lighthaul_circuit::error::Cause;
use lighthaul_io::host::clock::unix_nanos;

use crate::testbed::{Testbed, circuit, set};

/// Returns the meter that the switch chooses for a packet, as a number of circuits in the order of their creation.
fn winner(testbed: &Testbed, packet: &str) -> Option<u64> {
    let control = testbed.path("ctl");
    let words = format!(
        "-t {} ofproto/trace br0 in_port=1,{packet}",
        control.display()
    );
    let text = testbed.run("ovs-appctl", &words);
    // the datapath has numbers of its own, in parentheses
    let (_, rest) = text.split_once("meter:")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap();
    let meter: u64 = rest[..end].parse().unwrap();
    Some(meter - 19527)
}

#[test]
fn switch_classifies_flows_of_every_kind() {
    let Some(testbed) = Testbed::start("switch_classifies_flows_of_every_kind") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let flows = [
        "tcp fd09::2/128 5001-5009",
        "fd09::/64",
        "tcp 10.9.0.2 5001",
        "10.9.0.0/30 80-6000",
        "tcp",
        "1-65535",
        "::/0",
    ];
    for (nth, flow) in flows.iter().enumerate() {
        set(&mut driver, &circuit(nth as u64 + 1, flow), 10).unwrap();
    }
    for (packet, expected) in [
        ("tcp6,ipv6_dst=fd09::2,tcp_dst=5000", Some(2)),
        ("tcp6,ipv6_dst=fd09::2,tcp_dst=5001", Some(1)),
        ("tcp6,ipv6_dst=fd09::2,tcp_dst=5009", Some(1)),
        ("tcp6,ipv6_dst=fd09::2,tcp_dst=5010", Some(2)),
        ("udp6,ipv6_dst=fd09::2,udp_dst=5001", Some(2)),
        ("icmp6,ipv6_dst=fd09::3", Some(2)),
        ("udp6,ipv6_dst=fd0a::2,udp_dst=5001", Some(7)),
        ("tcp,nw_dst=10.9.0.2,tcp_dst=5001", Some(3)),
        ("udp,nw_dst=10.9.0.2,udp_dst=5001", Some(4)),
        ("tcp,nw_dst=10.9.0.2,tcp_dst=79", Some(6)),
        ("tcp,nw_dst=10.9.0.3,tcp_dst=80", Some(4)),
        ("udp,nw_dst=10.9.0.3,udp_dst=6000", Some(4)),
        ("udp,nw_dst=10.9.0.3,udp_dst=6001", Some(6)),
        ("tcp,nw_dst=10.9.0.4,tcp_dst=80", Some(6)),
        ("tcp,nw_dst=10.9.0.4,tcp_dst=65535", Some(6)),
        ("tcp,nw_dst=10.9.0.4,tcp_dst=0", Some(5)),
        ("udp,nw_dst=10.9.0.4,udp_dst=0", None),
        ("icmp,nw_dst=10.9.0.2", None),
        ("arp", None),
    ] {
        assert_eq!(winner(&testbed, packet), expected, "{packet}");
    }
    set(&mut driver, &circuit(8, "all"), 10).unwrap();
    for packet in ["arp", "icmp,nw_dst=10.9.0.2"] {
        assert_eq!(winner(&testbed, packet), Some(8), "{packet}");
    }
}

#[test]
fn masked_ports_cover_exactly_the_range() {
    let Some(testbed) = Testbed::start("masked_ports_cover_exactly_the_range") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for _ in 0..8 {
        let (one, other) = (1 + rng.below(65_535), 1 + rng.below(65_535));
        let (first, last) = (one.min(other), one.max(other));
        let wanted = circuit(1, &format!("udp {first}-{last}"));
        set(&mut driver, &wanted, 1).unwrap();
        let edges = [0, first - 1, first, last, (last + 1) % 65_536];
        let inside = (0..5).map(|_| rng.below(65_536));
        for port in edges.into_iter().chain(inside) {
            let is_in = (first..=last).contains(&port);
            let found = winner(&testbed, &format!("udp,udp_dst={port}"));
            assert_eq!(found.is_some(), is_in, "{port} of {first}-{last}");
        }
        driver.remove(CircuitId(1)).unwrap();
    }
    // the whole circuit is gone
    assert_eq!(
        testbed.ofctl("dump-flows", "").matches("cookie=").count(),
        1
    );
}

/// Returns the text of any flow.
fn random_flow(rng: &mut Rng) -> String {
    let mut words = Vec::new();
    match rng.below(3) {
        0 => words.push("tcp".to_owned()),
        1 => words.push("udp".to_owned()),
        _ => {}
    }
    match rng.below(3) {
        0 => {
            let address: std::net::Ipv4Addr = (rng.next_u64() as u32).into();
            words.push(format!("{address}/{}", rng.below(33)));
        }
        1 => {
            let address = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            let address: std::net::Ipv6Addr = address.into();
            words.push(format!("{address}/{}", rng.below(129)));
        }
        _ => {}
    }
    if rng.below(2) == 0 {
        let (one, other) = (1 + rng.below(65_535), 1 + rng.below(65_535));
        words.push(format!("{}-{}", one.min(other), one.max(other)));
    }
    if words.is_empty() {
        "all".to_owned()
    } else {
        words.join(" ")
    }
}

#[test]
fn flows_are_read_back_unchanged() {
    let Some(testbed) = Testbed::start("flows_are_read_back_unchanged") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for nth in 0..60 {
        // the number of this network is small enough for an address of IPv4
        let text = if nth == 0 {
            "::/5".to_owned()
        } else {
            random_flow(&mut rng)
        };
        let wanted = circuit(rng.next_u64(), &text);
        for mbps in [nth % 2, 1 + rng.below(900), 0] {
            set(&mut driver, &wanted, mbps).unwrap();
            let installed = InstalledCircuit {
                id: wanted.id,
                flow: Some(wanted.flow),
                rate: Rate::from_bps(mbps * 1_000_000),
            };
            assert_eq!(driver.inspect().unwrap(), [installed], "{text}");
        }
        driver.remove(wanted.id).unwrap();
        assert_eq!(driver.inspect().unwrap(), []);
    }
}

#[test]
fn damaged_circuit_is_reported_and_repaired() {
    let Some(testbed) = Testbed::start("damaged_circuit_is_reported_and_repaired") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let wanted = circuit(1, "udp 10.9.0.2 5001-5006");
    set(&mut driver, &wanted, 20).unwrap();
    let whole = driver.inspect().unwrap();
    assert_eq!(whole[0].flow, Some(wanted.flow));
    for (command, words) in [
        (
            "--strict del-flows",
            "priority=40000,udp,nw_dst=10.9.0.2,tp_dst=5001",
        ),
        ("mod-flows", "udp,nw_dst=10.9.0.2,actions=drop"),
        ("mod-meter", "meter=19528,pktps,band=type=drop,rate=3"),
        ("mod-flows", "table=253,actions=drop"),
    ] {
        testbed.ofctl(command, words);
        let found = driver.inspect().unwrap();
        assert_eq!((found.len(), found[0].flow), (1, None), "{command} {words}");
        set(&mut driver, &wanted, 20).unwrap();
        assert_eq!(driver.inspect().unwrap(), whole, "{command} {words}");
    }
    // without its meter, the switch removes its flows, and it takes no packets
    testbed.ofctl("del-meters", "meter=19528");
    assert_eq!(driver.inspect().unwrap()[0].rate, None);
    set(&mut driver, &wanted, 20).unwrap();
    assert_eq!(driver.inspect().unwrap(), whole);
    // without its record, the next change removes what is left of it
    testbed.ofctl("del-flows", "table=253");
    assert_eq!(driver.inspect().unwrap(), []);
    set(&mut driver, &circuit(2, "tcp 80"), 0).unwrap();
    let flows = testbed.ofctl("dump-flows", "");
    assert!(!flows.contains("meter:"), "{flows}");
    assert!(!testbed.ofctl("dump-meters", "").contains("meter="));
}

#[test]
fn flow_of_another_client_is_not_replaced() {
    let Some(testbed) = Testbed::start("flow_of_another_client_is_not_replaced") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    testbed.ofctl(
        "add-flow",
        "cookie=9,priority=40000,udp,nw_dst=10.9.0.2,tp_dst=5001,actions=drop",
    );
    let why = set(&mut driver, &circuit(1, "udp 10.9.0.2 5001"), 20).unwrap_err();
    assert_eq!(why.cause(), Cause::Refused);
    assert!(
        why.to_string().contains("the same match and priority"),
        "{why}"
    );
    assert_eq!(driver.inspect().unwrap(), []);
    // so is one of another circuit
    set(&mut driver, &circuit(2, "tcp 10.9.0.2 80-81"), 20).unwrap();
    set(&mut driver, &circuit(3, "tcp 10.9.0.2 81"), 0).unwrap();
    let why = set(&mut driver, &circuit(4, "tcp 10.9.0.2 80-81"), 20).unwrap_err();
    assert_eq!(why.cause(), Cause::Refused);
    assert_eq!(driver.inspect().unwrap().len(), 2);
    let flows = testbed.ofctl("dump-flows", "cookie=9/-1");
    assert!(flows.contains("actions=drop"), "{flows}");
}

#[test]
fn packets_continue_in_the_next_table() {
    let Some(testbed) = Testbed::start("packets_continue_in_the_next_table") else {
        return;
    };
    testbed.ofctl("del-flows", "");
    testbed.ofctl("add-flow", "priority=0,actions=goto_table:1");
    testbed.ofctl("add-flow", "table=1,actions=normal");
    let mut driver = testbed.driver("br0.mgmt", "--next-table 1").unwrap();
    let wanted = circuit(1, "udp 10.9.0.2 5001");
    set(&mut driver, &wanted, 20).unwrap();
    let flows = testbed.ofctl("dump-flows", "");
    assert!(
        flows.contains("actions=meter:19528,goto_table:1"),
        "{flows}"
    );
    assert_eq!(driver.inspect().unwrap()[0].flow, Some(wanted.flow));
    // the tables of the driver differ, and a wrong option is named
    let why = testbed.driver("br0.mgmt", "--next-table 253").unwrap_err();
    assert!(why.to_string().contains("the tables are not"), "{why}");
}

#[test]
fn malformed_reply_is_a_switch_fault() {
    let Some(testbed) = Testbed::start("malformed_reply_is_a_switch_fault") else {
        return;
    };
    let seed = unix_nanos();
    println!("seed {seed}");
    let listener = UnixListener::bind(testbed.path("wrong")).unwrap();
    thread::spawn(move || {
        let mut rng = Rng::new(seed);
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _ = client.write_all(&[4, 0, 0, 8, 0, 0, 0, 0]);
            // the answer to the first request: of the right number, with random content of the right length
            let mut octets = vec![0; rng.below(300) as usize];
            rng.fill(&mut octets);
            let length = 16 + octets.len() as u16;
            let mut answer = vec![4, 19];
            answer.extend(length.to_be_bytes());
            answer.extend([0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
            answer.extend(octets);
            let missing = if rng.below(2) == 0 { rng.below(20) } else { 0 };
            let cut = answer.len().saturating_sub(missing as usize);
            let _ = client.write_all(&answer[..cut]);
            let _ = client.shutdown(std::net::Shutdown::Write);
            let _ = client.read_to_end(&mut Vec::new());
        }
    });
    let mut driver = testbed.driver("wrong", "").unwrap();
    for nth in 0..100 {
        // the program answers each time: one that ended would be started again after a growing delay only
        let why = set(&mut driver, &circuit(nth, "udp 5001"), 1).unwrap_err();
        let text = why.to_string();
        assert_eq!(why.cause(), Cause::NoAnswer, "{why}");
        let is_named = ["sent an answer that is none", "closed the connection"];
        assert!(is_named.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn switch_without_the_protocol_is_named() {
    let Some(testbed) = Testbed::start("switch_without_the_protocol_is_named") else {
        return;
    };
    let mut driver = testbed.driver("br0.mgmt", "").unwrap();
    let database = testbed.path("db.sock");
    let words = format!(
        "--db=unix:{} --timeout=20 set bridge br0 protocols=OpenFlow10",
        database.display()
    );
    testbed.run("ovs-vsctl", &words);
    let why = set(&mut driver, &circuit(1, "udp 5001"), 1).unwrap_err();
    assert_eq!(why.cause(), Cause::Refused);
    assert!(
        why.to_string().contains("does not speak OpenFlow 1.3"),
        "{why}"
    );
    let mut driver = testbed.driver("nowhere", "").unwrap();
    let why = set(&mut driver, &circuit(1, "udp 5001"), 1).unwrap_err();
    assert_eq!(why.cause(), Cause::NoAnswer);
    assert!(why.to_string().contains("No such file"), "{why}");
}
