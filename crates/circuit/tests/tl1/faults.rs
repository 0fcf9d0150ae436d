//! Changes at a switch that misbehaves.

use std::fs;

use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_testkit::logged;

use crate::emulator::Vendor;
use crate::replies::Fault;
use crate::testbed::{Testbed, VENDORS, channel, circuit};

/// Time limits for tests in which the switch is silent.
const SHORT: &str = "timeout = \"2s\"\nlist_timeout = \"3s\"";

/// Connection of a log: login, and the truth before all else.
fn assert_reads_first(testbed: &Testbed) {
    for commands in testbed.switch.log() {
        let verbs: Vec<&str> = commands.iter().map(|command| &command[..4]).collect();
        let begin = &verbs[..verbs.len().min(3)];
        assert!(["ACT-", "INH-", "RTRV"].starts_with(begin), "{commands:?}");
    }
}

#[test]
fn harmless_misbehavior_of_a_switch_is_tolerated() {
    for vendor in VENDORS {
        for fault in [
            Fault::InProgress,
            Fault::Busy,
            Fault::AllRight,
            Fault::Partial(true),
            Fault::Delay,
            Fault::Alarms,
            Fault::Hangup(false),
            Fault::Hangup(true),
            Fault::CutLine,
            Fault::CutResponse,
            Fault::EndlessLine,
        ] {
            let mut testbed = Testbed::new(vendor);
            testbed.switch.misbehave("ENT", fault.clone());
            testbed.switch.misbehave("DLT", fault.clone());
            testbed.set(1, 2).unwrap();
            assert_eq!(
                testbed.switch.ours(),
                testbed.channels(&[0, 1]),
                "{fault:?}"
            );
            testbed.set(1, 1).unwrap();
            assert_eq!(testbed.switch.ours(), testbed.channels(&[0]), "{fault:?}");
            assert!(!testbed.switch.has_faults());
            assert_reads_first(&testbed);
        }
    }
}

#[test]
fn list_with_alarms_and_acknowledgements_is_read() {
    for fault in [Fault::InProgress, Fault::Busy, Fault::Alarms] {
        let mut testbed = Testbed::new(Vendor::Cisco);
        testbed.set(1, 4).unwrap();
        testbed.switch.misbehave("RTRV", fault);
        assert_eq!(testbed.inspect().unwrap(), [(1, 4)].into());
        assert!(!testbed.switch.has_faults());
    }
}

#[test]
fn incomplete_list_is_not_used() {
    for (fault, says) in [
        (Fault::Partial(true), "executed in part only"),
        (Fault::AllRight, "its answer is missing"),
        (Fault::NoGood, "the switch cannot execute it"),
        (
            Fault::Deny,
            "was denied with SROF: hardware fault; see the manual",
        ),
    ] {
        let mut testbed = Testbed::new(Vendor::Calient);
        testbed.set(1, 2).unwrap();
        testbed.switch.misbehave("RTRV", fault);
        let why = testbed.inspect().unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1]));
        assert_eq!(testbed.inspect().unwrap(), [(1, 2)].into());
    }
}

#[test]
fn denied_increase_is_undone_and_reported_with_the_reason() {
    for vendor in VENDORS {
        for fault in [Fault::Deny, Fault::NoGood, Fault::Partial(false)] {
            let mut testbed = Testbed::new(vendor);
            testbed.set(1, 1).unwrap();
            testbed.switch.misbehave("ENT", Fault::InProgress);
            testbed.switch.misbehave("ENT", fault.clone());
            let why = testbed.set(1, 3).unwrap_err().to_string();
            assert!(why.contains("ENT-CRS"), "{why}");
            if fault == Fault::Deny {
                assert!(why.contains("SROF: hardware fault"), "{why}");
            }
            assert_eq!(testbed.switch.ours(), testbed.channels(&[0]));
            assert_eq!(testbed.inspect().unwrap(), [(1, 1)].into());
        }
    }
}

#[test]
fn denied_removal_is_repeated_at_the_next_contact() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        testbed.set(1, 2).unwrap();
        testbed.switch.misbehave("DLT", Fault::Deny);
        let why = testbed.set(1, 1).unwrap_err().to_string();
        assert!(why.contains("DLT-CRS"), "{why}");
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1]));
        // the same change again is no success either
        for _ in 0..2 {
            testbed.switch.misbehave("DLT", Fault::Deny);
            assert!(testbed.set(1, 0).is_err());
        }
        testbed.switch.misbehave("DLT", Fault::Deny);
        assert!(testbed.driver().remove(CircuitId(1)).is_err());
        // other circuits do not wait for it, and channel 0 was removed
        testbed.switch.misbehave("DLT", Fault::Deny);
        testbed.set(2, 2).unwrap();
        assert_eq!(testbed.switch.ours(), testbed.channels(&[0, 1, 2]));
        testbed.driver().remove(CircuitId(2)).unwrap();
        testbed.restart();
        assert_eq!(testbed.inspect().unwrap(), [].into());
        assert_eq!(testbed.switch.ours(), testbed.channels(&[]));
    }
}

#[test]
fn silent_switch_is_an_error_within_the_time_limit() {
    for (fault, says) in [
        (Fault::Silence(false), "no answer to ENT-CRS"),
        (Fault::Silence(true), "no answer to ENT-CRS"),
        (Fault::WrongTag, "only an answer to command 0"),
    ] {
        let mut testbed = Testbed::with(Vendor::Calient, SHORT);
        testbed.inspect().unwrap();
        // both attempts
        testbed.switch.misbehave("ENT", fault.clone());
        if fault == Fault::Silence(false) {
            testbed.switch.misbehave("ENT", fault.clone());
            let why = testbed.set(1, 1).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
            assert_eq!(testbed.inspect().unwrap(), [(1, 0)].into());
            assert_eq!(testbed.switch.ours(), testbed.channels(&[]));
        } else {
            // the second connection shows the effect
            testbed.set(1, 1).unwrap();
            assert_eq!(testbed.switch.ours(), testbed.channels(&[0]));
        }
        assert_reads_first(&testbed);
    }
}

#[test]
fn change_without_contact_is_completed_or_undone_later() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        testbed.set(1, 2).unwrap();
        testbed.set(2, 1).unwrap();
        // the connection breaks, and no other can be opened
        testbed.switch.set_down(true);
        testbed.switch.misbehave("ENT", Fault::Hangup(true));
        let why = testbed.set(2, 2).unwrap_err().to_string();
        assert!(why.contains("ACT-USER"), "{why}");
        assert_eq!(testbed.switch.ours().len(), 4);
        let [one, two] = [circuit(1), circuit(2)];
        let changes = [one, two].map(|circuit| (circuit, None));
        let answers = testbed.driver().apply(&Change::list(&changes));
        assert!(answers.iter().all(Result::is_err), "{answers:?}");
        testbed.restart();
        testbed.switch.set_down(false);
        assert_eq!(testbed.inspect().unwrap(), [(1, 0), (2, 0)].into());
        assert_eq!(testbed.switch.ours(), testbed.channels(&[]));
        assert_reads_first(&testbed);
    }
}

#[test]
fn error_about_a_wrong_password_does_not_show_the_password() {
    let mut testbed = Testbed::new(Vendor::Cisco);
    testbed.write_login("ada\nguess\n");
    testbed.restart();
    let why = testbed.inspect().unwrap_err().to_string();
    assert!(why.contains("ACT-USER was denied"), "{why}");
    let shown = format!("{:?}", testbed.driver());
    assert!(!why.contains("guess") && !shown.contains("guess"));
}

#[test]
fn slow_list_and_announced_command_have_the_longer_limit() {
    let lines = "timeout = \"2s\"\nlist_timeout = \"20s\"";
    let mut testbed = Testbed::with(Vendor::Glimmerglass, lines);
    testbed.switch.misbehave("RTRV", Fault::Slow(false));
    testbed.switch.misbehave("ENT", Fault::Slow(true));
    testbed.set(1, 1).unwrap();
    testbed.switch.misbehave("RTRV", Fault::Slow(false));
    assert_eq!(testbed.inspect().unwrap(), [(1, 1)].into());
    assert!(!testbed.switch.has_faults());
    assert_eq!(testbed.switch.log().len(), 1, "one connection is enough");
}

#[test]
fn effect_of_a_slow_command_is_found_on_the_next_connection() {
    let mut testbed = Testbed::with(Vendor::Cisco, SHORT);
    testbed.inspect().unwrap();
    testbed.switch.misbehave("ENT", Fault::Slow(false));
    testbed.set(1, 1).unwrap();
    assert_eq!(testbed.switch.ours(), testbed.channels(&[0]));
    assert!(testbed.switch.log().len() >= 2);
    assert_reads_first(&testbed);
}

#[test]
fn cross_connect_of_another_client_is_kept_when_the_contact_is_lost() {
    for vendor in VENDORS {
        let rival = channel(vendor, 0);
        // lost at the look at the channel of the rival, and at the next channel
        for (verb, unsent) in [("RTRV", 1), ("ENT", 2)] {
            let mut testbed = Testbed::new(vendor);
            testbed.inspect().unwrap();
            assert!(testbed.switch.make_foreign(&rival));
            testbed.switch.misbehave(verb, Fault::Outage(false));
            assert!(testbed.set(1, 2).is_err());
            // channels that were never asked for
            assert!(testbed.switch.make_foreign(&channel(vendor, unsent)));
            testbed.inspect().unwrap();
            testbed.driver().remove(CircuitId(1)).unwrap();
            testbed.restart();
            testbed.inspect().unwrap();
            let foreign = testbed.channels(&[0, unsent]);
            assert_eq!(testbed.switch.patches(), foreign, "{verb}");
        }
        // the rival is first, and the connection is lost when the truth is read
        let mut testbed = Testbed::new(vendor);
        testbed.inspect().unwrap();
        testbed.switch.misbehave("ENT", Fault::Rival(rival.clone()));
        testbed.switch.misbehave("RTRV", Fault::Outage(true));
        assert!(testbed.set(1, 1).is_err());
        assert_eq!(testbed.inspect().unwrap(), [(1, 0)].into());
        assert_eq!(testbed.switch.patches(), [rival].into());
    }
}

#[test]
fn killed_driver_leaves_no_cross_connect_behind() {
    for vendor in VENDORS {
        let mut testbed = Testbed::new(vendor);
        testbed.set(1, 1).unwrap();
        testbed.set(2, 0).unwrap();
        testbed.switch.watch(&testbed.record());
        testbed.set(2, 2).unwrap();
        testbed.set(1, 2).unwrap();
        testbed.set(2, 1).unwrap();
        testbed.driver().remove(CircuitId(1)).unwrap();
        testbed.set(2, 3).unwrap();
        let moments = testbed.switch.take_moments();
        assert!(moments.len() >= 20, "{}", moments.len());
        for (nth, (record, patches)) in moments.into_iter().enumerate() {
            testbed.driver = None;
            fs::write(testbed.record(), &record).unwrap();
            testbed.switch.set_patches(patches);
            testbed.restart();
            let found = testbed.inspect().unwrap();
            let lit: u64 = found.values().sum();
            let ours = testbed.switch.ours();
            assert_eq!(ours.len() as u64, lit, "moment {nth}: {ours:?}");
            // all is removable, and nothing is forgotten
            for id in [1, 2] {
                testbed.driver().remove(CircuitId(id)).unwrap();
            }
            assert_eq!(testbed.switch.ours(), testbed.channels(&[]), "moment {nth}");
        }
    }
}

/// Returns the warnings about a missing record that an inspection logs.
fn warnings(testbed: &mut Testbed) -> Vec<String> {
    logged("without a record", || {
        testbed.inspect().unwrap();
        testbed.inspect().unwrap();
    })
}

#[test]
fn channels_in_use_without_a_record_are_logged_once() {
    let mut testbed = Testbed::new(Vendor::Calient);
    assert_eq!(
        warnings(&mut testbed),
        [""; 0],
        "nothing is lost at a first start"
    );
    testbed.set(1, 2).unwrap();
    testbed.restart();
    assert_eq!(warnings(&mut testbed), [""; 0]);
    testbed.driver = None;
    fs::remove_file(testbed.record()).unwrap();
    testbed.restart();
    let lines = warnings(&mut testbed);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("1.1.0") && lines[0].contains("wan.json"),
        "{lines:?}"
    );
}
