//! The driver alone: rates, filters, and the restored interface.

use lighthaul_base::{Instant, Rate};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver, InstalledCircuit};
use lighthaul_circuit::error::Error;
use lighthaul_io::host::clock::Clock;

use crate::testbed::{INTERFACE, Testbed, apply, circuit};
use crate::traffic::send;

#[test]
fn kernel_classifies_flows_of_every_kind() {
    let Some(testbed) = Testbed::start("kernel_classifies_flows_of_every_kind") else {
        return;
    };
    let mut shaper = testbed.shaper(1000).unwrap();
    let flows = [
        "tcp fd09::2/128 5001-5009",
        "fd09::/64",
        "tcp 10.9.0.2 5001",
        "10.9.0.0/30 80-6000",
        "tcp",
    ];
    for (nth, flow) in flows.iter().enumerate() {
        let wanted = Circuit {
            id: CircuitId(nth as u64 + 1),
            flow: flow.parse().unwrap(),
            ..circuit(1, "0s-9s 1G")
        };
        apply(&mut shaper, &wanted, 20 * (nth as u64 + 1)).unwrap();
    }
    let all = [
        "[fd09::2]:5002",
        "[fd09::2]:80",
        "10.9.0.2:5001",
        "10.9.0.2:6000",
        "10.9.0.2:7000",
    ];
    let rates = send(&testbed, &all);
    println!("20, 40, 60, 80, 100 Mb/s: {rates:.1?}");
    for (nth, rate) in rates.iter().enumerate() {
        let part = rate / (20.0 * (nth as f64 + 1.0));
        assert!((0.83..0.97).contains(&part), "{}: {rates:?}", flows[nth]);
    }
}

#[test]
fn interface_is_restored_after_the_last_circuit() {
    let Some(testbed) = Testbed::start("interface_is_restored_after_the_last_circuit") else {
        return;
    };
    let shown = || {
        [
            format!("qdisc show dev {INTERFACE}"),
            format!("class show dev {INTERFACE}"),
        ]
        .map(|words| testbed.tc(&words))
    };
    let before = shown();
    let mut shaper = testbed.shaper(1000).unwrap();
    assert_eq!(shown(), before, "to open an interface changes nothing");
    let circuits = [5001, 5002, 5003].map(|port| circuit(port, "0s-9s 1G"));
    for circuit in &circuits {
        apply(&mut shaper, circuit, 10).unwrap();
    }
    assert!(shown()[0].contains("htb 4c48: root"), "{:?}", shown());
    // a rate above 32 bits of octets, and bursts of a millisecond
    let mut fast = testbed.shaper(100_000).unwrap();
    apply(&mut fast, &circuits[0], 40_000).unwrap();
    let classes = &shown()[1];
    assert!(
        classes.contains("rate 40Gbit ceil 40Gbit burst 5"),
        "{classes}"
    );
    for circuit in &circuits {
        shaper.remove(circuit.id).unwrap();
        shaper.remove(circuit.id).unwrap();
    }
    assert_eq!(shown(), before);
    apply(&mut shaper, &circuits[0], 10).unwrap();
    shaper.remove(circuits[0].id).unwrap();
    assert_eq!(shown(), before);
}

#[test]
fn shaping_of_another_program_is_kept() {
    let Some(testbed) = Testbed::start("shaping_of_another_program_is_kept") else {
        return;
    };
    let show = format!("qdisc show dev {INTERFACE}");
    let mut early = testbed.shaper(1000).unwrap();
    testbed.tc(&format!(
        "qdisc add dev {INTERFACE} root handle 7: pfifo limit 77"
    ));
    let theirs = testbed.tc(&show);
    let refused = |why: Error| {
        let text = why.to_string();
        assert!(
            text.contains("pfifo 7:") && text.contains("tc qdisc del dev wire root"),
            "{text}"
        );
    };
    refused(testbed.shaper(1000).unwrap_err());
    refused(apply(&mut early, &circuit(5001, "0s-9s 1G"), 10).unwrap_err());
    refused(early.inspect().unwrap_err());
    assert_eq!(testbed.tc(&show), theirs);
    // an HTB of another program, even with the same handle
    testbed.tc(&format!("qdisc del dev {INTERFACE} root"));
    testbed.tc(&format!(
        "qdisc add dev {INTERFACE} root handle 4c48: htb default 3"
    ));
    assert!(matches!(testbed.shaper(1000), Err(Error::Foreign { .. })));
}

#[test]
fn inspection_returns_the_applied_circuits() {
    let Some(testbed) = Testbed::start("inspection_returns_the_applied_circuits") else {
        return;
    };
    let mut shaper = testbed.shaper(100_000).unwrap();
    let mut expected = Vec::new();
    for (port, mbps) in [
        (5001, 1),
        (5002, 0),
        (5003, 333),
        (5004, 50_000),
        (5005, 99),
    ] {
        let circuit = circuit(port, "0s-9s 1G");
        apply(&mut shaper, &circuit, mbps).unwrap();
        let rate = Rate::from_bps(mbps * 1_000_000);
        expected.push(InstalledCircuit {
            id: circuit.id,
            flow: Some(circuit.flow),
            rate,
        });
    }
    let mut other = testbed.shaper(100_000).unwrap();
    assert_eq!(other.inspect().unwrap(), expected);
    // a filter that was removed by another program is noticed, and restored by a change
    testbed.tc(&format!(
        "filter del dev {INTERFACE} parent 4c48: pref 1 handle 0x2 bpf"
    ));
    assert_eq!(shaper.inspect().unwrap(), expected[1..]);
    apply(&mut shaper, &circuit(5001, "0s-9s 1G"), 2).unwrap();
    expected[0].rate = Some(Rate::from_mbps(2));
    assert_eq!(other.inspect().unwrap(), expected);
    testbed.tc(&format!("qdisc del dev {INTERFACE} root"));
    assert_eq!(other.inspect().unwrap(), []);
    // a change notices it, and creates it again
    apply(&mut shaper, &circuit(5003, "0s-9s 1G"), 444).unwrap();
    let third = InstalledCircuit {
        rate: Some(Rate::from_mbps(444)),
        ..expected[2].clone()
    };
    assert_eq!(other.inspect().unwrap(), [third]);
}

#[test]
fn missing_interface_is_named() {
    let Some(testbed) = Testbed::start("missing_interface_is_named") else {
        return;
    };
    let open = |name: &str| testbed.open(name, 1000);
    let why = open("nowhere0").unwrap_err().to_string();
    assert!(why.contains("nowhere0"), "{why}");
    assert!(open(&"x".repeat(300)).is_err());
    assert!(open("a\0b").is_err());
    let mut shaper = testbed.shaper(1000).unwrap();
    crate::testbed::run(&testbed.left, "ip", &format!("link del {INTERFACE}"));
    let why = apply(&mut shaper, &circuit(5001, "0s-9s 1G"), 1)
        .unwrap_err()
        .to_string();
    assert!(why.contains(INTERFACE), "{why}");
}

#[test]
fn changes_of_many_circuits_are_sent_in_few_calls() {
    let Some(testbed) = Testbed::start("changes_of_many_circuits_are_sent_in_few_calls") else {
        return;
    };
    let mut shaper = testbed.shaper(10_000).unwrap();
    let circuits: Vec<Circuit> = (0..100).map(|n| circuit(5000 + n, "0s-9s 1G")).collect();
    let change = |mbps: u64| {
        let rate = Rate::from_bps(mbps * 1_000_000);
        let changes: Vec<Change<'_>> = circuits
            .iter()
            .map(|circuit| Change {
                circuit,
                rate,
                timer: None,
            })
            .collect();
        changes
    };
    let clock = Clock::start();
    for mbps in [0, 10, 20, 5, 0] {
        let begin: Instant = clock.now();
        let answers = shaper.apply(&change(mbps));
        println!(
            "100 circuits at {mbps} Mb/s after {:?}",
            clock.now().since(begin)
        );
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let standing = shaper.inspect().unwrap();
        let rate = Rate::from_bps(mbps * 1_000_000);
        assert!(standing.len() == 100 && standing.iter().all(|each| each.rate == rate));
    }
}
