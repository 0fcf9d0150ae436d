//! Programs without support for gateways, whose connections a gateway captures.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use lighthaul_io::host::namespace::Namespace;

use crate::pair::{LONG, Pair, signal};

/// Host that only the egress can reach.
const FAR: &str = "203.0.113.7";

#[test]
fn transparent_capture_carries_a_program_and_removes_the_rules() {
    let name = "transparent_capture_carries_a_program_and_removes_the_rules";
    let capture = [
        "--transparent",
        "--capture-device",
        "inner",
        "--capture-ports",
        "5001",
    ];
    let allow = ["--allow", "203.0.113.7:*"];
    let Some(mut pair) = Pair::start_with(name, &capture, &allow) else {
        return;
    };
    let client = client(&pair);
    let listen = || {
        sh(&format!("ip addr add {FAR}/32 dev lo"))?;
        TcpListener::bind((FAR, 5001))
    };
    let listener = pair.stage.lab.within("b", listen).unwrap();
    let script = format!("exec 3<>/dev/tcp/{FAR}/5001; echo question >&3; cat <&3");
    let program = client
        .within(|| {
            Command::new("bash")
                .args(["-c", &script])
                .stdout(Stdio::piped())
                .spawn()
        })
        .unwrap();
    let (mut target, _) = listener.accept().unwrap();
    target.set_read_timeout(Some(LONG)).unwrap();
    let mut question = [0; 9];
    target.read_exact(&mut question).unwrap();
    assert_eq!(&question, b"question\n");
    target.write_all(b"answer").unwrap();
    drop(target);
    let output = program.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stdout == b"answer",
        "{output:?}"
    );

    assert!(tables(&pair).contains("lighthaul"), "{}", tables(&pair));
    signal(&pair.ingress, "TERM");
    pair.ingress.says("no session is left");
    assert!(!tables(&pair).contains("lighthaul"), "{}", tables(&pair));
}

/// Addresses of `b` that lead there with or without a gateway: a lab finds hosts by the last two octets.
const LISTED: &str = "203.0.0.2";
const OTHER: &str = "198.18.0.2";
/// A user without rights.
const NOBODY: u32 = 65534;

#[test]
fn capture_user_and_capture_to_limit_the_capture() {
    let name = "capture_user_and_capture_to_limit_the_capture";
    let user = NOBODY.to_string();
    let capture = [
        "--transparent",
        "--capture-user",
        &user,
        "--capture-to",
        "203.0.0.0/24",
    ];
    let allow = ["--allow", "203.0.0.2:*,198.18.0.2:*"];
    let Some(pair) = Pair::start_with(name, &capture, &allow) else {
        return;
    };
    let addresses = format!("ip addr add {LISTED}/32 dev lo && ip addr add {OTHER}/32 dev lo");
    pair.stage.lab.within("b", || sh(&addresses)).unwrap();
    let routes =
        format!("ip route add {LISTED} via 10.77.0.2 && ip route add {OTHER} via 10.77.0.2");
    pair.stage.lab.within("a", || sh(&routes)).unwrap();
    for (user, target, is_captured) in [
        (NOBODY, LISTED, true),
        (0, LISTED, false),
        (NOBODY, OTHER, false),
    ] {
        let caller = caller_of(&pair, user, target);
        assert_eq!(
            caller != "10.77.0.1",
            is_captured,
            "{user} to {target}: {caller} called"
        );
    }
}

/// Runs a program on `a` as `user` that connects to a target on `b`. Returns the peer that the target sees: `a` or the
/// egress.
fn caller_of(pair: &Pair, user: u32, target: &str) -> String {
    let listener = pair
        .stage
        .lab
        .within("b", || TcpListener::bind((target, 0)))
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("exec 3<>/dev/tcp/{target}/{port}; cat <&3");
    let program = || {
        Command::new("bash")
            .args(["-c", &script])
            .current_dir("/")
            .uid(user)
            .gid(user)
            .stdout(Stdio::piped())
            .spawn()
    };
    let program = pair.stage.lab.within("a", program).unwrap();
    let (mut stream, from) = listener.accept().unwrap();
    stream.write_all(b"answer").unwrap();
    drop(stream);
    assert_eq!(program.wait_with_output().unwrap().stdout, b"answer");
    from.ip().to_string()
}

/// A host behind `a`, which is its only route.
fn client(pair: &Pair) -> Namespace {
    let client = Namespace::create().unwrap();
    let far = client.path();
    let script = format!(
        "ip link add inner type veth peer name wire netns {} && \
         ip addr add 192.0.2.1/24 dev inner && ip link set inner up && \
         echo 1 > /proc/sys/net/ipv4/ip_forward",
        far.display()
    );
    pair.stage.lab.within("a", || sh(&script)).unwrap();
    let script = "ip addr add 192.0.2.2/24 dev wire && ip link set wire up && \
                  ip route add default via 192.0.2.1";
    client.within(|| sh(script)).unwrap();
    client
}

/// The tables of nftables on `a`.
fn tables(pair: &Pair) -> String {
    let list = || Command::new("nft").args(["list", "tables"]).output();
    let output = pair.stage.lab.within("a", list).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn sh(script: &str) -> io::Result<()> {
    let output = Command::new("sh").args(["-c", script]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{script}: {why}")))
}
