//! Programs that know no gateway, behind one that captures their connections.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use lighthaul_io::namespace::Namespace;

use crate::pair::{LONG, Pair, signal};

/// A host that nobody but the egress can reach.
const FAR: &str = "203.0.113.7";

#[test]
fn an_unmodified_program_gets_where_it_wants_and_no_rule_is_left() {
    let name = "an_unmodified_program_gets_where_it_wants_and_no_rule_is_left";
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

/// A host behind `a`, whose only way leads through there.
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
