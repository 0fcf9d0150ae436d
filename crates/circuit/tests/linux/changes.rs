//! Changes of the interface by others, while a driver keeps circuits there.

use lighthaul_base::Rate;
use lighthaul_circuit::driver::{Driver, InstalledCircuit};
use lighthaul_circuit::error::Cause;
use lighthaul_circuit::linux::Shaper;

use crate::testbed::{INTERFACE, Testbed, apply, circuit, run};

/// Returns the rates of all circuits in Mb/s.
fn rates(shaper: &mut Shaper) -> Vec<u64> {
    let circuits = shaper.inspect().unwrap();
    let rate = |one: &InstalledCircuit| one.rate.map_or(0, Rate::as_bps) / 1_000_000;
    circuits.iter().map(rate).collect()
}

#[test]
fn missing_interface_is_named_and_used_again_when_it_returns() {
    let name = "missing_interface_is_named_and_used_again_when_it_returns";
    let Some(testbed) = Testbed::start(name) else {
        return;
    };
    let mut shaper = testbed.shaper(1000).unwrap();
    let circuits = [5001, 5002].map(|port| circuit(port, "0s-9s 1G"));
    for (circuit, mbps) in circuits.iter().zip([100, 200]) {
        apply(&mut shaper, circuit, mbps).unwrap();
    }
    let far = testbed.right.path();
    let far = far.display();
    let elsewhere = format!("link set {INTERFACE} netns {far} name away");
    let deleted = format!("link del {INTERFACE}");
    for (gone, peer) in [(deleted, "one"), (elsewhere, "two")] {
        run(&testbed.left, "ip", &gone);
        let refused = [
            apply(&mut shaper, &circuits[0], 300).unwrap_err(),
            shaper.inspect().unwrap_err(),
            shaper.remove(circuits[1].id).unwrap_err(),
        ];
        for why in refused {
            assert_eq!(why.cause(), Cause::Host, "{why}");
            assert!(why.to_string().contains(INTERFACE), "{why}");
        }
        // the kernel has forgotten the circuits of the former one
        let back = format!("link add {INTERFACE} type veth peer name {peer}");
        run(&testbed.left, "ip", &back);
        run(&testbed.left, "ip", &format!("link set {INTERFACE} up"));
        assert_eq!(rates(&mut shaper), [0; 0]);
        for (circuit, mbps) in circuits.iter().zip([100, 200]) {
            apply(&mut shaper, circuit, mbps).unwrap();
        }
        assert_eq!(rates(&mut shaper), [100, 200]);
    }
}

#[test]
fn circuits_are_made_again_after_another_program_has_replaced_the_discipline() {
    let name = "circuits_are_made_again_after_another_program_has_replaced_the_discipline";
    let Some(testbed) = Testbed::start(name) else {
        return;
    };
    let mut shaper = testbed.shaper(1000).unwrap();
    let one = circuit(5001, "0s-9s 1G");
    apply(&mut shaper, &one, 100).unwrap();
    let root = format!("dev {INTERFACE} root");
    testbed.tc(&format!(
        "qdisc replace {root} handle 9: tbf rate 1gbit burst 100kb latency 9ms"
    ));
    let why = apply(&mut shaper, &one, 200).unwrap_err();
    assert_eq!(why.cause(), Cause::Foreign, "{why}");
    assert!(testbed.tc(&format!("qdisc show {root}")).contains("tbf 9:"));
    testbed.tc(&format!("qdisc del {root}"));
    assert_eq!(rates(&mut shaper), [0; 0]);
    apply(&mut shaper, &one, 200).unwrap();
    assert_eq!(rates(&mut shaper), [200]);
    // a class that another program has changed
    testbed.tc("class change dev wire parent 4c48:1 classid 4c48:2 htb rate 7mbit ceil 7mbit");
    assert_eq!(rates(&mut shaper), [7]);
    apply(&mut shaper, &one, 200).unwrap();
    assert_eq!(rates(&mut shaper), [200]);
}
