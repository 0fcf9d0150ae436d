//! Connections of programs on the gateway's own host.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use lighthaul_capture::settings::Transparent;

use crate::testbed::{Testbed, call, greet, receive_greeting};

/// The user `nobody`.
const USER: u32 = 65534;

#[test]
fn only_connections_of_the_user_are_captured() {
    let Some(testbed) = Testbed::start("only_connections_of_the_user_are_captured") else {
        return;
    };
    let before = testbed.kernel_rules();
    let capture = Transparent {
        arriving: false,
        users: vec![USER],
        ..Transparent::default()
    };
    let (listeners, rules) = testbed.capture(&capture);
    let child = testbed
        .gateway
        .within(|| reader("203.0.113.7/5001"))
        .unwrap();
    assert_eq!(
        greet(&listeners.v4),
        Some("203.0.113.7:5001".parse().unwrap())
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"hello");
    let child = testbed.gateway.within(|| reader("fd03::7/5001")).unwrap();
    let v6 = listeners.v6.as_ref().expect("the testbed has IPv6");
    assert_eq!(greet(v6), Some("[fd03::7]:5001".parse().unwrap()));
    assert_eq!(child.wait_with_output().unwrap().stdout, b"hello");

    let server = testbed.serve("203.0.113.7:5001");
    let stream = call(&testbed.gateway, "203.0.113.7:5001");
    greet(&server);
    receive_greeting(stream);
    testbed.remove(rules);
    assert_eq!(testbed.kernel_rules(), before);
}

#[test]
fn direct_connection_to_the_listener_has_no_target() {
    let Some(testbed) = Testbed::start("direct_connection_to_the_listener_has_no_target") else {
        return;
    };
    let (listeners, rules) = testbed.capture(&Transparent::default());
    let address = listeners.v4.local_addr().unwrap();
    let stream = call(&testbed.gateway, &address.to_string());
    assert_eq!(greet(&listeners.v4), None);
    receive_greeting(stream);
    testbed.remove(rules);
}

/// Starts bash, which prints the data from a host and port.
fn reader(place: &str) -> io::Result<std::process::Child> {
    Command::new("bash")
        .args(["-c", &format!("exec 3<>/dev/tcp/{place}; cat <&3")])
        .current_dir("/")
        .uid(USER)
        .gid(USER)
        .stdout(Stdio::piped())
        .spawn()
}
