//! Connections of other hosts.

use lighthaul_gateway::capture::settings::Transparent;
use lighthaul_gateway::kernel::error::Error;

use crate::testbed::{SERVER, Testbed, call, greet, hear};

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
fn a_connection_that_arrives_is_captured_with_its_target() {
    let Some(testbed) = Testbed::start("a_connection_that_arrives_is_captured_with_its_target")
    else {
        return;
    };
    let before = testbed.told();
    let (listeners, rules) = testbed.capture(&port_5001());
    assert_ne!(testbed.told(), before);
    let stream = call(&testbed.client, &format!("{}:5001", SERVER[0]));
    assert_eq!(
        greet(&listeners.v4),
        Some("203.0.113.7:5001".parse().unwrap())
    );
    hear(stream);
    let v6 = listeners.v6.as_ref().expect("the testbed has IPv6");
    let stream = call(&testbed.client, &format!("[{}]:5001", SERVER[1]));
    assert_eq!(greet(v6), Some("[fd03::7]:5001".parse().unwrap()));
    hear(stream);

    testbed.remove(rules);
    assert_eq!(testbed.told(), before);
    let server = testbed.serve("203.0.113.7:5001");
    let stream = call(&testbed.client, "203.0.113.7:5001");
    greet(&server);
    hear(stream);
}

#[test]
fn what_is_not_to_be_captured_goes_its_way() {
    let Some(testbed) = Testbed::start("what_is_not_to_be_captured_goes_its_way") else {
        return;
    };
    let (_listeners, rules) = testbed.capture(&port_5001());
    for address in ["203.0.113.7:5002", "[fd03::7]:5002", "10.2.0.2:5001"] {
        let server = testbed.serve(address);
        let stream = call(&testbed.client, address);
        greet(&server);
        hear(stream);
    }
    testbed.remove(rules);
}

#[test]
fn who_calls_the_gateway_itself_reaches_it_though_everything_is_captured() {
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
    hear(stream);
    let stream = call(&testbed.client, "198.51.100.1:1");
    assert_eq!(
        greet(&listeners.v4),
        Some("198.51.100.1:1".parse().unwrap())
    );
    hear(stream);
    testbed.remove(rules);
}

#[test]
fn a_second_gateway_is_refused_while_the_first_lives() {
    let Some(testbed) = Testbed::start("a_second_gateway_is_refused_while_the_first_lives") else {
        return;
    };
    let (listeners, rules) = testbed.capture(&port_5001());
    let told = testbed.told();
    let second = testbed.install(&port_5001(), &listeners);
    assert!(matches!(second, Err(Error::Occupied(_))), "{second:?}");
    assert_eq!(testbed.told(), told, "the first goes on");
    testbed.remove(rules);
    let rules = testbed.install(&port_5001(), &listeners).unwrap();
    testbed.remove(rules);
}
