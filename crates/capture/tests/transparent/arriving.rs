//! Connections of other hosts.

use lighthaul_capture::kernel::error::Error;
use lighthaul_capture::settings::Transparent;

use crate::testbed::{SERVER, Testbed, call, greet, receive_greeting};

fn port_5001() -> Transparent {
    Transparent {
        device: Some("inner".to_owned()),
        prefixes: ["203.0.113.0/24", "fd03::/16"]
            .map(|text| text.parse().unwrap())
            .to_vec(),
        ports: vec!["5001".parse().unwrap()],
        ..Transparent::default()
    }
}

#[test]
fn arriving_connection_is_captured_with_its_target() {
    let Some(testbed) = Testbed::start("arriving_connection_is_captured_with_its_target") else {
        return;
    };
    let before = testbed.kernel_rules();
    let (listeners, rules) = testbed.capture(&port_5001());
    assert_ne!(testbed.kernel_rules(), before);
    let stream = call(&testbed.client, &format!("{}:5001", SERVER[0]));
    assert_eq!(
        greet(&listeners.v4),
        Some("203.0.113.7:5001".parse().unwrap())
    );
    receive_greeting(stream);
    let v6 = listeners.v6.as_ref().expect("the testbed has IPv6");
    let stream = call(&testbed.client, &format!("[{}]:5001", SERVER[1]));
    assert_eq!(greet(v6), Some("[fd03::7]:5001".parse().unwrap()));
    receive_greeting(stream);

    testbed.remove(rules);
    assert_eq!(testbed.kernel_rules(), before);
    let server = testbed.serve("203.0.113.7:5001");
    let stream = call(&testbed.client, "203.0.113.7:5001");
    greet(&server);
    receive_greeting(stream);
}

#[test]
fn other_connections_are_forwarded() {
    let Some(testbed) = Testbed::start("other_connections_are_forwarded") else {
        return;
    };
    let (_listeners, rules) = testbed.capture(&port_5001());
    for address in ["203.0.113.7:5002", "[fd03::7]:5002", "10.2.0.2:5001"] {
        let server = testbed.serve(address);
        let stream = call(&testbed.client, address);
        greet(&server);
        receive_greeting(stream);
    }
    testbed.remove(rules);
}

#[test]
fn connections_to_the_gateway_itself_are_not_captured() {
    let name = "who_calls_the_gateway_itself_reaches_it_though_everything_is_captured";
    let Some(testbed) = Testbed::start(name) else {
        return;
    };
    let (listeners, rules) = testbed.capture(&Transparent::default());
    let own = testbed
        .gateway
        .within(|| std::net::TcpListener::bind("10.1.0.1:22"))
        .unwrap();
    let stream = call(&testbed.client, "10.1.0.1:22");
    greet(&own);
    receive_greeting(stream);
    let stream = call(&testbed.client, "198.51.100.1:1");
    assert_eq!(
        greet(&listeners.v4),
        Some("198.51.100.1:1".parse().unwrap())
    );
    receive_greeting(stream);
    testbed.remove(rules);
}

#[test]
fn second_gateway_is_refused_while_the_first_runs() {
    let Some(testbed) = Testbed::start("second_gateway_is_refused_while_the_first_runs") else {
        return;
    };
    let (listeners, rules) = testbed.capture(&port_5001());
    let rules_before = testbed.kernel_rules();
    let second = testbed.install(&port_5001(), &listeners);
    assert!(matches!(second, Err(Error::Occupied(_))), "{second:?}");
    assert_eq!(
        testbed.kernel_rules(),
        rules_before,
        "the rules of the first are unchanged"
    );
    testbed.remove(rules);
    let rules = testbed.install(&port_5001(), &listeners).unwrap();
    testbed.remove(rules);
}
