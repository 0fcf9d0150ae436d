//! The command, and the library beside it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, OnceLock};

use crate::gateway::Gateway;
use crate::library;

pub(crate) const LIGHTHAUL: &str = env!("CARGO_BIN_EXE_lighthaul");

/// `lighthaul wrap` with this gateway.
pub(crate) fn wrap(gateway: SocketAddr) -> Command {
    wrap_as(&gateway.to_string())
}

/// Does the same for a gateway with a password.
pub(crate) fn wrap_as(gateway: &str) -> Command {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| library::build(Path::new(LIGHTHAUL)));
    let mut command = Command::new(LIGHTHAUL);
    command
        .args(["wrap", "--socks", gateway, "--"])
        .env("LC_ALL", "C");
    command
}

/// The library, which [`wrap`] has built.
pub(crate) static LIBRARY: LazyLock<PathBuf> =
    LazyLock::new(|| Path::new(LIGHTHAUL).with_file_name("liblighthaul_wrap.so"));

/// Runs it and returns its output.
pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Asserts that curl with these options reaches its target through a gateway.
pub(crate) fn assert_curl_is_captured(options: &[&str]) {
    let gateway = Gateway::start(0, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let mut curl = wrap(gateway.address);
    curl.args(["curl", "--silent", "--show-error", "--noproxy", "*"])
        .args(options)
        .arg("http://203.0.113.7:8080/x");
    assert_eq!(run(&mut curl), (Some(0), "hello".to_owned(), String::new()));
    assert_eq!(gateway.wanted(), "203.0.113.7:8080");
}
