//! Programs that are captured.

use std::io::Write;
use std::net::{TcpListener, UdpSocket};

use lighthaul_testkit::{lacks, lacks_tool};

use crate::gateway::Gateway;
use crate::wrapping::{run, wrap, wrap_as};

/// What bash does to hear what a host and port say.
fn hear(place: &str) -> [String; 3] {
    [
        "bash",
        "-c",
        &format!("exec 3<>/dev/tcp/{place} && cat <&3"),
    ]
    .map(str::to_owned)
}

#[test]
fn a_program_that_knows_no_proxy_goes_through_the_gateway() {
    let gateway = Gateway::start(0, "hello");
    let said = run(wrap(gateway.address).args(hear("203.0.113.7/80")));
    assert_eq!(said, (Some(0), "hello".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:80");
}

#[test]
fn sockets_of_ipv6_reach_a_gateway_of_ipv4() {
    let name = "sockets_of_ipv6_reach_a_gateway_of_ipv4";
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
fn a_program_whose_sockets_do_not_block_is_captured_too() {
    let name = "a_program_whose_sockets_do_not_block_is_captured_too";
    if lacks_tool(name, "curl") {
        return;
    }
    let gateway = Gateway::start(0, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let words = [
        "curl",
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "http://203.0.113.7:8080/x",
    ];
    let said = run(wrap(gateway.address).args(words));
    assert_eq!(said, (Some(0), "hello".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:8080");
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
fn what_stays_on_this_host_is_left_alone() {
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
fn datagrams_are_left_alone() {
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
fn a_program_says_nothing_of_the_gateways_password() {
    let gateway = Gateway::start(0, "hello\n");
    let place = format!("alice:s@cret@{}", gateway.address);
    let said = run(wrap_as(&place).args(hear("203.0.113.7/80")));
    assert_eq!(said, (Some(0), "hello\n".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:80");
    let (code, _, err) = run(wrap_as("alice@127.0.0.1:1080").args(hear("203.0.113.7/80")));
    assert!(code == Some(1) && err.contains("NAME:PASSWORD@"), "{err}");
}

#[test]
fn a_program_hears_why_it_cannot_go_there() {
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
fn without_a_gateway_nothing_goes_past_it() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let (code, _, err) = run(wrap(closed).args(hear("203.0.113.7/80")));
    assert!(
        code == Some(1) && err.contains("Connection refused"),
        "{err}"
    );
    let complaint = format!("lighthaul wrap: the gateway {closed} cannot be reached");
    assert_eq!(err.matches(&complaint).count(), 1, "{err}");
}
