//! Changes at a switch that behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_circuit::agent::Agent;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::Event;
use lighthaul_circuit::driver::{Capabilities, CountedBytes, Driver, Layer};
use lighthaul_io::host::clock::Clock;

use crate::emulator::Vendor;
use crate::replies::Fault;
use crate::testbed::{PATIENT, Testbed, VENDORS, channel, circuit};

#[test]
fn capabilities_follow_from_the_channels() {
    let mut testbed = Testbed::new(Vendor::Calient);
    let expected = Capabilities {
        rate_min: Rate::from_mbps(10_000),
        rate_max: Rate::from_mbps(40_000),
        granularity: Rate::from_mbps(10_000),
        reconfiguration: Duration::from_millis(10),
        settling: Duration::ZERO,
        entries_max: 4096,
        counted: CountedBytes {
            layer: Layer::Ip,
            overhead_bytes: 38,
        },
        timer_max: None,
    };
    assert_eq!(testbed.driver().capabilities(), expected);
    // four channels, each with two commands that follow each other
    let mut slow = Testbed::with(Vendor::Calient, "command_time = \"5ms\"");
    let slower = Capabilities {
        reconfiguration: Duration::from_millis(50),
        ..expected
    };
    assert_eq!(slow.driver().capabilities(), slower);
}

#[test]
fn increase_of_all_channels_needs_two_commands_for_each() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        testbed.inspect().unwrap();
        let commands = |testbed: &Testbed| testbed.switch.log().concat().len();
        let before = commands(&testbed);
        testbed.set(1, 4).unwrap();
        let all = commands(&testbed);
        assert_eq!(all - before, 8);
        testbed.set(1, 0).unwrap();
        assert_eq!(commands(&testbed) - all, 4);
    }
}

#[test]
fn commands_follow_each_other_at_a_slow_switch() {
    let pace = Duration::from_millis(20);
    let mut testbed = Testbed::new(Vendor::Calient);
    testbed.inspect().unwrap();
    testbed.switch.set_pace(pace);
    testbed.set(1, 4).unwrap();
    let connects = testbed.switch.change_arrivals();
    assert_eq!(connects.len(), 4);
    // before each connect, the switch is asked for the cross-connect
    let mut pauses = connects.windows(2).map(|pair| pair[1].since(pair[0]));
    assert!(pauses.all(|pause| pause >= pace * 2), "{connects:?}");
}

#[test]
fn rates_become_cross_connects_of_channels() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        testbed.set(1, 0).unwrap();
        assert_eq!(testbed.switch.log().len(), 0, "no channel, no contact");
        testbed.set(1, 2).unwrap();
        testbed.set(2, 1).unwrap();
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1, 2]));
        testbed.set(1, 1).unwrap();
        assert_eq!(
            testbed.switch.ours(),
            testbed.channels(&[0, 2]),
            "the last channel is removed"
        );
        testbed.set(2, 3).unwrap();
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1, 2, 3]));
        assert_eq!(testbed.inspect().unwrap(), [(1, 1), (2, 3)].into());
        let why = testbed.set(1, 2).unwrap_err().to_string();
        assert_eq!(why, "wan has 0 free channels, but the rate needs 1 more");
        testbed.driver().remove(CircuitId(2)).unwrap();
        testbed.driver().remove(CircuitId(2)).unwrap();
        testbed.set(1, 0).unwrap();
        assert_eq!(testbed.switch.ours(), testbed.channels(&[]));
        assert_eq!(testbed.inspect().unwrap(), [(1, 0)].into());
    }
}

#[test]
fn channels_in_one_direction_do_not_occupy_the_opposite_direction() {
    for vendor in [Vendor::Calient, Vendor::Cisco] {
        let mut testbed = Testbed::new(vendor);
        testbed.edit_settings("two-way", "one-way");
        testbed.restart();
        let (from, to, _) = channel(vendor, 0);
        let back = (to.clone(), from.clone(), false);
        assert!(testbed.switch.make_foreign(&back));
        testbed.set(1, 1).unwrap();
        assert_eq!(testbed.switch.ours(), [(from, to, false)].into());
        assert_eq!(testbed.inspect().unwrap(), [(1, 1)].into());
        testbed.set(1, 0).unwrap();
        assert_eq!(testbed.switch.patches(), [back].into());
    }
}

#[test]
fn repeated_changes_send_no_commands() {
    let mut testbed = Testbed::new(Vendor::Cisco);
    testbed.set(1, 2).unwrap();
    let before = testbed.switch.log();
    testbed.set(1, 2).unwrap();
    assert_eq!(testbed.switch.log(), before);
}

#[test]
fn session_logs_in_inhibits_messages_reads_the_state_and_logs_out() {
    let mut testbed = Testbed::new(Vendor::Glimmerglass);
    testbed.set(1, 1).unwrap();
    testbed.driver = None;
    let log = testbed.switch.log();
    assert_eq!(
        log,
        [[
            "ACT-USER::ada:1::secret",
            "INH-MSG-ALL:::2",
            "RTRV-CRS-FIBER::ALL:3",
            "RTRV-CRS-FIBER::10000:4",
            "ENT-CRS-FIBER::10000,20000:5",
            "CANC-USER::ada:6",
        ]]
    );
}

#[test]
fn restarted_driver_finds_its_circuits() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        testbed.set(7, 2).unwrap();
        testbed.restart();
        assert_eq!(testbed.inspect().unwrap(), [(7, 2)].into());
        testbed.set(7, 1).unwrap();
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0]));
    }
}

#[test]
fn manually_removed_cross_connect_is_detected_and_restored() {
    let mut testbed = Testbed::new(Vendor::Calient);
    testbed.set(1, 2).unwrap();
    testbed.switch.cut(&channel(Vendor::Calient, 0));
    assert_eq!(testbed.inspect().unwrap(), [(1, 1)].into());
    testbed.set(1, 2).unwrap();
    assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1]));
}

#[test]
fn cross_connects_of_other_clients_are_avoided_named_and_kept() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        let (from, _, is_both) = channel(vendor, 0);
        let other = (from, "99".to_owned(), is_both);
        assert!(testbed.switch.make_foreign(&other));
        // one that is equal to a channel
        assert!(testbed.switch.make_foreign(&channel(vendor, 1)));
        testbed.set(1, 2).unwrap();
        assert_eq!(testbed.switch.ours(), testbed.channels(&[2, 3]));
        let why = testbed.set(2, 1).unwrap_err().to_string();
        assert!(why.contains("other clients of the switch made"), "{why}");
        assert!(why.contains(&other.0) && why.contains("99"), "{why}");
        assert!(why.contains(&channel(vendor, 1).0), "{why}");
        testbed.driver().remove(CircuitId(1)).unwrap();
        testbed.driver().remove(CircuitId(2)).unwrap();
        assert_eq!(testbed.switch.patches(), testbed.switch.foreign());
    }
}

#[test]
fn cross_connect_of_another_client_since_the_last_list_is_kept() {
    for vendor in VENDORS {
        // made between the look and the command, equal to the channel or with one port in common
        let equal = channel(vendor, 0);
        let similar = (equal.0.clone(), "99".to_owned(), equal.2);
        for rival in [equal, similar] {
            let mut testbed = Testbed::new(vendor);
            testbed.inspect().unwrap();
            testbed.switch.misbehave("ENT", Fault::Rival(rival.clone()));
            testbed.set(1, 1).unwrap();
            assert_eq!(testbed.switch.ours(), testbed.channels(&[1]));
            testbed.driver().remove(CircuitId(1)).unwrap();
            assert_eq!(testbed.switch.patches(), [rival].into());
            // made since the last list
            let late = channel(vendor, 1);
            assert!(testbed.switch.make_foreign(&late));
            testbed.set(1, 2).unwrap();
            assert_eq!(testbed.switch.ours(), testbed.channels(&[2, 3]));
        }
    }
}

#[test]
fn light_of_all_channels_of_a_call_settles_at_the_same_time() {
    let lines = format!("{PATIENT}\npower_min_dbm = -20.0");
    let mut testbed = Testbed::with(Vendor::Glimmerglass, &lines);
    // no channel has light before all are connected
    testbed.switch.light_from(4);
    let rates = [(1, 1), (2, 2), (3, 1)];
    let results = testbed.set_all(&rates);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(testbed.inspect().unwrap(), BTreeMap::from(rates));
}

#[test]
fn weak_light_of_one_circuit_keeps_the_others_of_its_call() {
    let lines = format!("{PATIENT}\npower_min_dbm = -20.0");
    let mut testbed = Testbed::with(Vendor::Glimmerglass, &lines);
    testbed.switch.set_power("20001", "-31.25");
    // the second circuit has weak light at its first channel
    let results = testbed.set_all(&[(1, 1), (2, 2), (3, 1)]);
    let is_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(is_ok, [true, false, true], "{results:?}");
    let left = testbed.inspect().unwrap();
    assert_eq!((left[&1], left[&2], left[&3]), (1, 0, 1));
    assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 3]));
}

#[test]
fn weak_light_is_a_failure_that_names_port_and_power() {
    let lines = format!("{PATIENT}\npower_min_dbm = -20.0");
    let mut testbed = Testbed::with(Vendor::Glimmerglass, &lines);
    testbed.switch.set_power("20001", "-31.25");
    testbed.set(1, 1).unwrap();
    let why = testbed.set(1, 2).unwrap_err().to_string();
    assert!(
        why.contains("port 20001 is -31.2 dBm, below the minimum of -20.0 dBm"),
        "{why}"
    );
    assert_eq!(testbed.switch.ours(), testbed.channels(&[0]));
    assert_eq!(testbed.inspect().unwrap(), [(1, 1)].into());
    testbed.switch.set_power("20001", "");
    let why = testbed.set(1, 2).unwrap_err().to_string();
    assert!(
        why.contains("reports no power of light at port 20001"),
        "{why}"
    );
    assert_eq!(testbed.switch.ours(), testbed.channels(&[0]));
    testbed.switch.set_power("20001", "-19.9");
    testbed.set(1, 2).unwrap();
}

#[test]
fn agent_keeps_a_circuit_at_a_switch_until_the_end_of_the_circuit() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        let driver = testbed.driver.take().unwrap();
        let drivers: BTreeMap<String, Box<dyn Driver>> =
            BTreeMap::from([("wan".to_owned(), Box::new(driver) as _)]);
        let clock = Clock::start();
        let (agent, refused) = Agent::start(clock, drivers, Vec::new()).unwrap();
        assert!(refused.is_empty());
        let circuit = Circuit {
            trc: "0s-900s 20Gb/s".parse().unwrap(),
            ..circuit(1)
        };
        let till = circuit.trc.end();
        agent.put(circuit, till).unwrap();
        let mut events = Vec::new();
        while events.len() < 2 {
            let (_, event) = agent.wait_event(till).unwrap().unwrap();
            events.push(event);
        }
        let rate = Some(Rate::from_mbps(20_000));
        assert_eq!(events[0], Event::Created(CircuitId(1)));
        assert!(
            matches!(events[1], Event::Changed { rate: changed, .. } if changed == rate),
            "{events:?}"
        );
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1]));
        drop(agent);
        assert_eq!(testbed.switch.ours(), testbed.channels(&[]));
    }
}
