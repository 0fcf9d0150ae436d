//! A gateway that is killed, and its successor.

use std::path::Path;

use lighthaul_capture::rules::Rules;
use lighthaul_capture::settings::Transparent;
use lighthaul_capture::transparent::Listeners;
use lighthaul_io::host::namespace::Namespace;
use lighthaul_testkit::Holder;

use crate::testbed::{Testbed, call, greet, receive_greeting};

/// The process that is killed. It gets its namespace.
const HOLDER: Holder = Holder {
    test: "kill::holder",
    variable: "LIGHTHAUL_TEST_HOST",
};

#[test]
#[ignore = "it is the program that the other test kills"]
fn holder() {
    let Ok(host) = std::env::var(HOLDER.variable) else {
        return;
    };
    let host = Namespace::open(Path::new(&host)).unwrap();
    host.enter().unwrap();
    let listeners = Listeners::open().unwrap();
    let capture = Transparent {
        users: vec![65534],
        ..Transparent::default()
    };
    let rules = Rules::install(&capture, &listeners).unwrap();
    Holder::wait_to_be_killed(rules);
}

#[test]
fn next_gateway_removes_the_rules_of_a_killed_gateway() {
    let Some(testbed) = Testbed::start("next_gateway_removes_the_rules_of_a_killed_gateway") else {
        return;
    };
    let before = testbed.kernel_rules();
    let is_ready = HOLDER.run_and_kill(&testbed.gateway.path()).unwrap();
    assert!(is_ready, "the gateway has not installed its rules");
    assert_ne!(
        testbed.kernel_rules(),
        before,
        "the kernel has rules of capture"
    );

    // connections are forwarded where no program listens
    let server = testbed.serve("203.0.113.7:5001");
    let stream = call(&testbed.client, "203.0.113.7:5001");
    greet(&server);
    receive_greeting(stream);

    let capture = Transparent {
        ports: vec!["5001".parse().unwrap()],
        mark: 77,
        table: 78,
        ..Transparent::default()
    };
    let (listeners, rules) = testbed.capture(&capture);
    let stream = call(&testbed.client, "203.0.113.7:5001");
    assert_eq!(
        greet(&listeners.v4),
        Some("203.0.113.7:5001".parse().unwrap())
    );
    receive_greeting(stream);
    testbed.remove(rules);
    assert_eq!(testbed.kernel_rules(), before);
}
