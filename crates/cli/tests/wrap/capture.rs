//! Programs that are captured.

use std::io::Write;
use std::net::{TcpListener, UdpSocket};

use lighthaul_testkit::{lacks, lacks_tool};

use crate::command::{assert_curl_is_captured, run, wrap, wrap_as};
use crate::gateway::Gateway;

/// Returns the bash command that reads from a host and port.
fn hear(place: &str) -> [String; 3] {
    [
        "bash",
        "-c",
        &format!("exec 3<>/dev/tcp/{place} && cat <&3"),
    ]
    .map(str::to_owned)
}

#[test]
fn program_without_proxy_support_connects_through_the_gateway() {
    let gateway = Gateway::start(0, "hello");
    let said = run(wrap(gateway.address).args(hear("203.0.113.7/80")));
    assert_eq!(said, (Some(0), "hello".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:80");
}

#[test]
fn ipv6_sockets_reach_an_ipv4_gateway() {
    let name = "ipv6_sockets_reach_an_ipv4_gateway";
    if lacks(
        name,
        TcpListener::bind("[::1]:0").map_err(|why| format!("needs IPv6: {why}")),
    ) {
        return;
    }
    let gateway = Gateway::start(0, "hello");
    let said = run(wrap(gateway.address).args(hear("2001:db8::1/443")));
    assert_eq!(said, (Some(0), "hello".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "[2001:db8::1]:443");
}

#[test]
fn nonblocking_sockets_are_captured() {
    let name = "nonblocking_sockets_are_captured";
    if lacks_tool(name, "curl") {
        return;
    }
    assert_curl_is_captured(&[]);
}

#[test]
fn scripts_and_children_are_captured() {
    let gateway = Gateway::start(0, "hello");
    let words = hear("203.0.113.7/80");
    let said = run(wrap(gateway.address)
        .args(["sh", "-c", "\"$@\"", "sh"])
        .args(&words));
    assert_eq!(said.1, "hello", "{said:?}");
    assert_eq!(gateway.wanted(), "203.0.113.7:80");
}

#[test]
fn local_connections_are_not_captured() {
    let gateway = Gateway::start(0, "gateway");
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = own.local_addr().unwrap().to_string().replace(':', "/");
    let server = std::thread::spawn(move || own.accept().unwrap().0.write_all(b"own"));
    let said = run(wrap(gateway.address).args(hear(&place)));
    assert_eq!(said, (Some(0), "own".to_owned(), String::new()));
    server.join().unwrap().unwrap();
    assert!(gateway.is_idle());
}

#[test]
fn datagrams_are_not_captured() {
    let gateway = Gateway::start(0, "gateway");
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.set_read_timeout(Some(std::time::Duration::from_secs(20)))
        .unwrap();
    let port = own.local_addr().unwrap().port();
    let words = format!("echo hello >/dev/udp/127.0.0.1/{port}; exec 3<>/dev/udp/203.0.113.7/9");
    let said = run(wrap(gateway.address).args(["bash", "-c", &words]));
    let mut room = [0; 9];
    let len = own.recv(&mut room).unwrap();
    assert_eq!(&room[..len], b"hello\n", "{said:?}");
    assert!(gateway.is_idle(), "{said:?}");
}

#[test]
fn program_does_not_reveal_the_gateway_password() {
    let gateway = Gateway::start(0, "hello\n");
    let place = format!("alice:s@cret@{}", gateway.address);
    let said = run(wrap_as(&place).args(hear("203.0.113.7/80")));
    assert_eq!(said, (Some(0), "hello\n".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:80");
    let (code, _, err) = run(wrap_as("alice@127.0.0.1:1080").args(hear("203.0.113.7/80")));
    assert!(code == Some(1) && err.contains("NAME:PASSWORD@"), "{err}");
}

#[test]
fn refused_connection_returns_the_matching_errno() {
    for (reply, words) in [
        (2, "Permission denied"),
        (3, "Network is unreachable"),
        (4, "No route to host"),
        (5, "Connection refused"),
        (6, "Connection timed out"),
    ] {
        let gateway = Gateway::start(reply, "");
        let (code, out, err) = run(wrap(gateway.address).args(hear("203.0.113.7/80")));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(words), "{reply}: {err}");
    }
}

#[test]
fn connections_fail_without_a_gateway() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (code, _, err) = run(wrap(closed).args(hear("203.0.113.7/80")));
    assert!(
        code == Some(1) && err.contains("Connection refused"),
        "{err}"
    );
    let complaint = format!("lighthaul wrap: cannot reach the gateway {closed}");
    assert_eq!(err.matches(&complaint).count(), 1, "{err}");
}
