//! Requests of unauthenticated clients, and the memory that they use.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::test_server::TestServer;

/// Returns the number of series that Prometheus reads.
fn series(test_server: &TestServer) -> usize {
    let (status, _, text) = test_server.raw("GET", "/metrics", "ada", "");
    assert_eq!(status, 200);
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn unknown_methods_do_not_add_metric_series() {
    let test_server = TestServer::new();
    let mut tcp = TcpStream::connect(test_server.address).unwrap();
    tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // an authenticated client is not paced
    let mut ask = |method: &str| {
        let head = format!(
            "{method} /v1/reservations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ada\r\n\r\n"
        );
        tcp.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut some = [0; 4096];
        while !is_whole(&answer) {
            let len = tcp.read(&mut some).unwrap();
            assert!(len > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend(&some[..len]);
        }
    };
    ask("GET");
    ask("ODD");
    series(&test_server);
    let before = series(&test_server);
    (0..1000).for_each(|nth| ask(&format!("ODD{nth}")));
    assert_eq!(series(&test_server), before);
}

/// Returns true if the body of an answer is complete.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    body.len() >= length.unwrap_or(0_usize)
}
