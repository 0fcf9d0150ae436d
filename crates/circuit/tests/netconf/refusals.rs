//! Refusals of the device and of the driver, and their sentences.

use std::fs;
use std::path::{Path, PathBuf};

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::CircuitId;
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::Cause;
use lighthaul_circuit::exec::Exec;
use lighthaul_testkit::lacks_tool;

use crate::testbed::{Testbed, circuit, open, set};

#[test]
fn lock_of_another_session_is_refused_with_its_number() {
    let test = "lock_of_another_session_is_refused_with_its_number";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let mut driver = testbed.driver("server", "--timeout 6 --confirm 1").unwrap();
    let wanted = circuit(1, "udp 10.0.0.2 5000");
    set(&mut driver, &wanted, 5).unwrap();
    for datastore in ["running", "candidate"] {
        let mut client = testbed.client();
        client.must(&format!("<lock><target><{datastore}/></target></lock>"));
        let why = set(&mut driver, &wanted, 6).unwrap_err();
        assert_eq!(why.cause(), Cause::Refused, "{why}");
        // the commit needs the running configuration, of which only another client is known
        let part = match datastore {
            "running" => "another client uses its configuration",
            _ => "of the device holds the lock",
        };
        assert!(why.to_string().contains(part), "{why}");
        // the circuits can be read all the same
        let found = driver.inspect().unwrap();
        assert_eq!(found[0].rate, Some(Rate::from_mbps(5)));
        drop(client);
        set(&mut driver, &wanted, 5).unwrap();
    }
    // a candidate with the changes of an operator is neither committed nor discarded
    let mut client = testbed.client();
    client.must(
        "<edit-config><target><candidate/></target><config><qos xmlns=\"http://openconfig.net/yang/qos\"><queues><queue>\
         <name>theirs</name><config><name>theirs</name></config></queue></queues></qos></config></edit-config>",
    );
    let why = set(&mut driver, &wanted, 6).unwrap_err();
    assert_eq!(why.cause(), Cause::Refused, "{why}");
    assert!(!client.running().contains("theirs"));
    client.must("<commit/>");
    assert!(client.running().contains("theirs"));
    set(&mut driver, &wanted, 6).unwrap();
}

#[test]
fn commit_that_the_device_refuses_changes_only_the_other_circuits() {
    let test = "commit_that_the_device_refuses_changes_only_the_other_circuits";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let mut driver = testbed.driver("server", "").unwrap();
    let (first, second) = (
        circuit(1, "udp 10.0.0.2 5000"),
        circuit(2, "udp 10.0.0.2 5001"),
    );
    set(&mut driver, &first, 5).unwrap();
    // an operator refers to the circuit's forwarding group, so the device does not let it go
    let mut client = testbed.client();
    client.edit(
        "candidate",
        "<classifiers><classifier><name>lighthaul-ipv4</name><terms><term><id>900-mine</id><config><id>900-mine</id></config>\
         <actions><config><target-group>lighthaul-1</target-group></config></actions></term></terms></classifier></classifiers>",
    );
    let why = driver.remove(CircuitId(1)).unwrap_err();
    assert_eq!(why.cause(), Cause::Refused, "{why}");
    let text = why.to_string();
    assert!(text.contains("the device refused edit-config"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let found = driver.inspect().unwrap();
    assert_eq!(found[0].rate, Some(Rate::from_mbps(5)));
    set(&mut driver, &second, 5).unwrap();
    // a commit that is refused as a whole is tried for each change, and leaves no candidate behind
    client.must("<lock><target><running/></target></lock>");
    let changes = [&first, &second].map(|circuit| Change {
        circuit,
        rate: Some(Rate::from_mbps(7)),
        timer: None,
    });
    for result in driver.apply(&changes) {
        let why = result.unwrap_err();
        assert_eq!(why.cause(), Cause::Refused, "{why}");
        assert!(why.to_string().contains("refused commit"), "{why}");
    }
    client.must("<unlock><target><running/></target></unlock>");
    let rates = driver.inspect().unwrap();
    let rates = rates.iter().map(|one| one.rate).collect::<Vec<_>>();
    assert_eq!(rates, [Some(Rate::from_mbps(5)); 2]);
    for result in driver.apply(&changes) {
        result.unwrap();
    }
}

#[test]
fn circuit_without_a_place_at_an_interface_is_refused() {
    let test = "circuit_without_a_place_at_an_interface_is_refused";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    for (words, part) in [
        ("--scheduler-policy other", "the scheduler policy other"),
        ("--classifier-ipv4 other", "the classifier other"),
    ] {
        let mut driver = testbed.driver("server", words).unwrap();
        // without a rate, it needs none
        let wanted = circuit(1, "udp 10.0.0.2 5000");
        set(&mut driver, &wanted, 0).unwrap();
        let why = set(&mut driver, &wanted, 5).unwrap_err();
        assert_eq!(why.cause(), Cause::Refused, "{why}");
        assert!(why.to_string().contains(part), "{why}");
        driver.remove(CircuitId(1)).unwrap();
    }
}

#[test]
fn sum_of_rates_above_the_maximum_is_refused() {
    let Some(testbed) = Testbed::start("sum_of_rates_above_the_maximum_is_refused", "candidate")
    else {
        return;
    };
    let mut driver = testbed.driver("server", "").unwrap();
    let all = [1, 2, 3].map(|id| circuit(id, &format!("udp {id}")));
    let changes = all.each_ref().map(|circuit| Change {
        circuit,
        rate: Some(Rate::from_mbps(400)),
        timer: None,
    });
    let results = driver.apply(&changes);
    let refused = results.iter().map(Result::is_err).collect::<Vec<_>>();
    assert_eq!(refused, [false, false, true], "{results:?}");
    assert_eq!(driver.inspect().unwrap().len(), 2);
}

#[test]
fn device_that_cannot_be_reached_is_named_with_the_reason_of_ssh() {
    let test = "device_that_cannot_be_reached_is_named_with_the_reason_of_ssh";
    let Some(testbed) = Testbed::start(test, "candidate") else {
        return;
    };
    let mut driver = testbed.driver("server", "").unwrap();
    // another host key
    let known = testbed.path("known_hosts");
    let right = fs::read_to_string(&known).unwrap();
    let user = fs::read_to_string(testbed.path("user.pub")).unwrap();
    fs::write(&known, format!("device {user}")).unwrap();
    let wanted = circuit(1, "udp 10.0.0.2 5000");
    let why = set(&mut driver, &wanted, 5).unwrap_err();
    assert_eq!(why.cause(), Cause::NoAnswer, "{why}");
    assert!(
        why.to_string().contains("Host key verification failed"),
        "{why}"
    );
    fs::write(&known, right).unwrap();
    set(&mut driver, &wanted, 5).unwrap();
}

/// Opens the driver with a program as device, which says this whatever it is asked.
fn pretend(folder: &Path, says: &str) -> Exec {
    let (said, script) = (folder.join("said"), folder.join("device"));
    fs::write(&said, says).unwrap();
    // it stays until the driver ends the session
    let waits = if says.is_empty() {
        ""
    } else {
        "timeout 20 cat >/dev/null"
    };
    fs::write(&script, format!("cat {}\n{waits}\n", said.display())).unwrap();
    let command = format!("sh {}", script.display());
    open(&["--command", &command]).unwrap()
}

/// Returns a reply as one chunk.
fn reply(id: u32, content: &str) -> String {
    let text = format!("<rpc-reply xmlns='{BASE}' message-id='{id}'>{content}</rpc-reply>");
    format!("\n#{}\n{text}\n##\n", text.len())
}

/// Returns a directory that the test removes at its end.
fn scratch(test: &str) -> Option<PathBuf> {
    let name = format!("lh-nc-{test}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).unwrap();
    (!lacks_tool(test, "python3")).then_some(folder)
}

#[test]
fn wrong_server_is_an_unreachable_device() {
    let Some(folder) = scratch("wrong_server_is_an_unreachable_device") else {
        return;
    };
    for (says, part) in [
        ("", "closed the connection"),
        ("Welcome to the router>]]>]]>", "no XML"),
        ("<hello/>]]>]]>", "hello of NETCONF"),
        (
            "<!DOCTYPE x [<!ENTITY a 'b'>]><hello>&a;</hello>]]>]]>",
            "document type",
        ),
        (&format!("{HELLO}\n#9999999999\nx"), "16 MiB"),
        (&format!("{HELLO}\n#x9\nabcdefghijklmnop"), "valid length"),
        (
            &format!("{HELLO}\n#5\n<a/>\n\n##\n"),
            "something else than its reply",
        ),
        (&format!("{HELLO}\n#4\n<a>b\n##\n"), "no XML"),
    ] {
        let mut driver = pretend(&folder, says);
        let why = driver.inspect().unwrap_err().to_string();
        assert!(why.contains(part), "{says}: {why}");
        let change = set(&mut driver, &circuit(1, "udp 1"), 5).unwrap_err();
        assert_eq!(change.cause(), Cause::NoAnswer, "{change}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn device_that_complains_without_end_is_silent() {
    let Some(folder) = scratch("device_that_complains_without_end_is_silent") else {
        return;
    };
    let script = folder.join("device");
    fs::write(&script, "exec yes noise 3>&1 >&2\n").unwrap();
    let command = format!("sh {}", script.display());
    let mut driver = open(&["--command", &command, "--timeout", "2", "--confirm", "0"]).unwrap();
    let why = driver.inspect().unwrap_err().to_string();
    assert!(why.contains("did not answer hello in time"), "{why}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn session_that_begins_with_silence_is_replaced_in_time() {
    let Some(folder) = scratch("session_that_begins_with_silence_is_replaced_in_time") else {
        return;
    };
    let says = [
        HELLO.to_owned(),
        reply(1, "<data/>"),
        reply(2, "<ok/>"),
        reply(3, "<data/>"),
        reply(4, "<ok/>"),
    ];
    fs::write(folder.join("said"), says.concat()).unwrap();
    let script = "if mkdir $1/first 2>/dev/null; then exec sleep 60; fi\ncat $1/said\nexec timeout 20 cat >/dev/null\n";
    fs::write(folder.join("device"), script).unwrap();
    let command = format!("sh {0}/device {0}", folder.display());
    let mut driver = open(&["--command", &command]).unwrap();
    assert_eq!(driver.inspect().unwrap(), []);
    assert!(folder.join("first").exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn device_with_a_malformed_configuration_is_refused() {
    let Some(folder) = scratch("device_with_a_malformed_configuration_is_refused") else {
        return;
    };
    let configuration = "<data><qos xmlns='http://openconfig.net/yang/qos'><scheduler-policies><scheduler-policy>\
        <name>lighthaul</name><schedulers><scheduler><sequence>\u{1b}[2Jfirst</sequence></scheduler></schedulers>\
        </scheduler-policy></scheduler-policies></qos></data>"
        .replace('\u{1b}', "&#x85;");
    let says = [
        HELLO.to_owned(),
        reply(1, "<data/>"),
        reply(2, "<ok/>"),
        reply(3, &configuration),
        reply(4, "<ok/>"),
    ];
    let mut driver = pretend(&folder, &says.concat());
    let why = set(&mut driver, &circuit(1, "udp 1"), 5).unwrap_err();
    assert_eq!(why.cause(), Cause::Refused, "{why}");
    let text = why.to_string();
    assert!(text.contains("does not follow openconfig-qos"), "{text}");
    assert!(!text.contains('\u{85}'), "{text:?}");
    fs::remove_dir_all(&folder).unwrap();
}

const BASE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
const HELLO: &str = "<hello xmlns='urn:ietf:params:xml:ns:netconf:base:1.0'><capabilities><capability>\
                     urn:ietf:params:netconf:base:1.1</capability></capabilities></hello>]]>]]>";
