//! Programs that connect with TCP Fast Open.

use lighthaul_testkit::{lacks_tool, skip};

use crate::command::{assert_curl_is_captured, run, wrap};
use crate::gateway::Gateway;

/// Runs a Python program whose `s` is a socket and `far` another host. It prints the data that it receives.
fn run_python(gateway: &Gateway, connect: &str) -> (Option<i32>, String, String) {
    let script = format!(
        "import socket\n\
         s = socket.socket()\n\
         far = ('203.0.113.7', 80)\n\
         {connect}\n\
         print(s.recv(99).decode(), end='')"
    );
    run(wrap(gateway.address).args(["python3", "-c", &script]))
}

#[test]
fn every_fast_open_call_connects_through_the_gateway() {
    if lacks_tool(
        "every_fast_open_call_connects_through_the_gateway",
        "python3",
    ) {
        return;
    }
    for connect in [
        "assert s.sendto(b'question', socket.MSG_FASTOPEN, far) == 8",
        "assert s.sendmsg([b'ques', b'tion'], [], socket.MSG_FASTOPEN, far) == 8",
        "s.setblocking(False); assert s.sendto(b'question', socket.MSG_FASTOPEN, far) == 8; s.setblocking(True)",
        // TCP_FASTOPEN_CONNECT
        "s.setsockopt(socket.IPPROTO_TCP, 30, 1); s.connect(far); s.sendall(b'question')",
    ] {
        let gateway = Gateway::start(0, "hello");
        let said = run_python(&gateway, connect);
        assert_eq!(
            said,
            (Some(0), "hello".to_owned(), String::new()),
            "{connect}"
        );
        assert_eq!(gateway.wanted(), "203.0.113.7:80", "{connect}");
        assert_eq!(gateway.heard(), b"question", "{connect}");
    }
}

#[test]
fn sendmmsg_with_fast_open_connects_through_the_gateway() {
    let name = "sendmmsg_with_fast_open_connects_through_the_gateway";
    if lacks_tool(name, "python3") {
        return;
    }
    if cfg!(not(all(
        target_arch = "x86_64",
        target_pointer_width = "64"
    ))) {
        return skip(name, "the program below knows messages of x86-64");
    }
    let gateway = Gateway::start(0, "hello");
    let said = run_python(
        &gateway,
        "import ctypes, struct\n\
         to = ctypes.create_string_buffer(struct.pack('=H', 2) + struct.pack('>H', 80) + socket.inet_aton(far[0]) + bytes(8))\n\
         text = ctypes.create_string_buffer(b'question', 8)\n\
         part = ctypes.create_string_buffer(struct.pack('PL', ctypes.addressof(text), 8))\n\
         head = ctypes.create_string_buffer(struct.pack('PIPLPLiI', ctypes.addressof(to), 16, ctypes.addressof(part), 1, 0, 0, 0, 0) + bytes(8))\n\
         assert ctypes.CDLL(None).sendmmsg(s.fileno(), head, 1, socket.MSG_FASTOPEN) == 1",
    );
    assert_eq!(said, (Some(0), "hello".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:80");
    assert_eq!(gateway.heard(), b"question");
}

#[test]
fn curl_with_fast_open_connects_through_the_gateway() {
    if lacks_tool("curl_with_fast_open_connects_through_the_gateway", "curl") {
        return;
    }
    assert_curl_is_captured(&["--tcp-fastopen"]);
}

#[test]
fn fast_open_reports_an_unreachable_target() {
    if lacks_tool("fast_open_reports_an_unreachable_target", "python3") {
        return;
    }
    let gateway = Gateway::start(2, "");
    let (code, _, err) = run_python(&gateway, "s.sendto(b'x', socket.MSG_FASTOPEN, far)");
    assert!(code == Some(1) && err.contains("PermissionError"), "{err}");
}
