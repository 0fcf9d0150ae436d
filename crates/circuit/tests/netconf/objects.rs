//! Objects of circuits as the server has them, and what other clients do to them.

use lighthaul_base::Rng;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Driver, InstalledCircuit};
use lighthaul_io::host::clock::unix_nanos;

use crate::client::{all, one};
use crate::testbed::{Testbed, circuit, set};

#[test]
fn circuit_has_the_objects_of_the_model() {
    let Some(testbed) = Testbed::start("circuit_has_the_objects_of_the_model", "candidate") else {
        return;
    };
    let mut client = testbed.client();
    let before = content(&client.running());
    let mut driver = testbed.driver("server", "--sequence 50").unwrap();
    set(&mut driver, &circuit(7, "udp 10.0.0.2 5000-5010"), 5).unwrap();
    let running = client.running();
    let scheduler = all(&running, "scheduler")
        .into_iter()
        .find(|text| one(text, "sequence") == "50")
        .unwrap();
    assert!(
        one(scheduler, "type").ends_with("ONE_RATE_TWO_COLOR"),
        "{scheduler}"
    );
    for (name, value) in [
        ("input-type", "QUEUE"),
        ("queue", "lighthaul-7"),
        ("cir", "5000000"),
        ("queuing-behavior", "SHAPE"),
    ] {
        assert_eq!(one(scheduler, name), value, "{scheduler}");
    }
    let term = all(&running, "term")[0];
    for (name, value) in [
        ("destination-address", "10.0.0.2/32"),
        ("protocol", "17"),
        ("destination-port", "5000..5010"),
        ("target-group", "lighthaul-7"),
    ] {
        assert_eq!(one(term, name), value, "{term}");
    }
    // closed, it has no scheduler, and its term is at no interface
    set(&mut driver, &circuit(7, "udp 10.0.0.2 5000-5010"), 0).unwrap();
    let running = client.running();
    assert!(!running.contains("<cir>"), "{running}");
    assert!(running.contains("lighthaul-ipv4-closed"), "{running}");
    driver.remove(CircuitId(7)).unwrap();
    // the operator's configuration is as it was
    assert_eq!(content(&client.running()), before);
}

/// Returns the lines of a configuration without those of empty containers.
fn content(running: &str) -> Vec<String> {
    let (_, qos) = running.split_once("<qos").unwrap();
    let lines = qos.lines().filter(|line| !line.ends_with("/>"));
    lines.map(str::to_owned).collect()
}

#[test]
fn narrower_term_comes_first() {
    let Some(testbed) = Testbed::start("narrower_term_comes_first", "candidate") else {
        return;
    };
    let mut client = testbed.client();
    let mut driver = testbed.driver("server", "").unwrap();
    let flows = [
        "all",
        "udp",
        "10.0.0.0/8",
        "udp 10.0.0.0/8",
        "udp 10.0.0.2 5000",
        "10.0.0.2",
        "udp 10.0.0.2",
        "udp 5000",
    ];
    for (id, flow) in (1..).zip(flows) {
        set(&mut driver, &circuit(id, flow), 1).unwrap();
    }
    let running = client.running();
    let mut terms: Vec<&str> = all(&running, "term")
        .into_iter()
        .filter(|text| !text.contains("ipv6"))
        .map(|text| one(text, "id"))
        .filter(|id| id.len() > 4)
        .collect();
    terms.sort_unstable();
    terms.dedup();
    let order: Vec<&str> = terms
        .iter()
        .map(|id| id.split('-').nth(2).unwrap())
        .collect();
    assert_eq!(order, ["5", "7", "6", "4", "3", "8", "2", "1"], "{terms:?}");
}

#[test]
fn flows_survive_the_device() {
    let Some(testbed) = Testbed::start("flows_survive_the_device", "candidate") else {
        return;
    };
    let seed = unix_nanos();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let mut driver = testbed.driver("server", "").unwrap();
    let mut expected = Vec::new();
    for id in 1..=20 {
        let protocol = ["", "tcp ", "udp "][rng.below(3) as usize];
        let target = match rng.below(4) {
            0 => String::new(),
            1 => format!(
                "2001:db8::{:x}/{} ",
                rng.below(9),
                [128, 64, 0][rng.below(3) as usize]
            ),
            _ => format!(
                "10.0.{}.0/{} ",
                rng.below(9),
                [24, 16, 32, 0][rng.below(4) as usize]
            ),
        };
        let first = 1 + rng.below(60_000);
        let ports = match rng.below(3) {
            0 => String::new(),
            1 => format!("{first}"),
            _ => format!("{first}-{}", first + rng.below(5000)),
        };
        let flow = format!("{protocol}{target}{ports}");
        let flow = if flow.is_empty() { "all" } else { flow.trim() };
        let wanted = circuit(id, flow);
        let mbps = rng.below(3) * 10;
        set(&mut driver, &wanted, mbps).unwrap();
        expected.push(InstalledCircuit {
            id: wanted.id,
            flow: Some(wanted.flow),
            rate: lighthaul_base::Rate::from_bps(mbps * 1_000_000),
        });
    }
    assert_eq!(driver.inspect().unwrap(), expected);
    // another driver reads the same
    drop(driver);
    let mut driver = testbed.driver("server", "").unwrap();
    assert_eq!(driver.inspect().unwrap(), expected);
}

#[test]
fn circuit_that_another_client_has_damaged_has_no_flow_and_can_be_set_again() {
    let test = "circuit_that_another_client_has_damaged_has_no_flow_and_can_be_set_again";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let mut client = testbed.client();
    let mut driver = testbed.driver("server", "").unwrap();
    let wanted = circuit(1, "udp 10.0.0.2 5000");
    set(&mut driver, &wanted, 5).unwrap();
    let id = {
        let running = client.running();
        one(all(&running, "term")[0], "id").to_owned()
    };
    let term = |content: &str| {
        format!(
            "<classifiers><classifier><name>lighthaul-ipv4</name><terms>{content}</terms></classifier></classifiers>"
        )
    };
    let damages = [
        // its term is gone
        term(&format!("<term nc:operation=\"delete\"><id>{id}</id></term>")),
        // its packets are others
        term(&format!(
            "<term><id>{id}</id><conditions><transport><config><destination-port>77</destination-port></config>\
             </transport></conditions></term>"
        )),
        // it polices
        "<scheduler-policies><scheduler-policy><name>lighthaul</name><schedulers><scheduler><sequence>1000</sequence>\
         <one-rate-two-color><config><queuing-behavior>POLICE</queuing-behavior></config></one-rate-two-color>\
         </scheduler></schedulers></scheduler-policy></scheduler-policies>"
            .to_owned(),
        // it has another kind
        "<scheduler-policies><scheduler-policy><name>lighthaul</name><schedulers><scheduler><sequence>1000</sequence>\
         <config><type xmlns:t=\"http://openconfig.net/yang/qos-types\">t:TWO_RATE_THREE_COLOR</type></config></scheduler>\
         </schedulers></scheduler-policy></scheduler-policies>"
            .to_owned(),
        // it has a second scheduler
        "<scheduler-policies><scheduler-policy><name>lighthaul</name><schedulers><scheduler><sequence>1003</sequence>\
         <config><sequence>1003</sequence></config><inputs><input><id>lighthaul-1</id><config><id>lighthaul-1</id>\
         <input-type>QUEUE</input-type><queue>lighthaul-1</queue></config></input></inputs><one-rate-two-color><config>\
         <cir>9000000</cir></config></one-rate-two-color></scheduler></schedulers></scheduler-policy></scheduler-policies>"
            .to_owned(),
    ];
    for damage in damages {
        client.edit("candidate", &damage);
        let found = driver.inspect().unwrap();
        assert_eq!(found.len(), 1, "{damage}");
        // with other ports, it is another circuit
        let is_other = damage.contains("destination-port");
        let flow = is_other.then(|| "udp 10.0.0.2 77".parse().unwrap());
        assert_eq!(found[0].flow, flow, "{damage}");
        set(&mut driver, &wanted, 5).unwrap();
        let found = driver.inspect().unwrap();
        assert_eq!(found[0].flow, Some(wanted.flow), "{damage}");
        let running = client.running();
        assert_eq!(all(&running, "cir"), ["5000000"], "{damage}");
    }
    // the rate that another client has set is the one that the driver reports
    client.edit(
        "candidate",
        "<scheduler-policies><scheduler-policy><name>lighthaul</name><schedulers><scheduler><sequence>1000</sequence>\
         <one-rate-two-color><config><cir>6000000</cir></config></one-rate-two-color></scheduler></schedulers>\
         </scheduler-policy></scheduler-policies>",
    );
    let found = driver.inspect().unwrap();
    assert_eq!(found[0].rate.unwrap().as_bps(), 6_000_000);
    driver.remove(CircuitId(1)).unwrap();
    assert_eq!(driver.inspect().unwrap(), []);
}
