//! Findings of the doctor on sound and faulty paths.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::far::{ClosedPort, Far, PROGRAM};
use crate::running::Outcome;
use crate::stage::{Stage, is_skipped};

/// Runs the doctor on the daemon, with `options`.
fn look(far: &Far, options: &[&str]) -> Outcome {
    let mut command = far.near.lighthaul(&["doctor", "--json", &host(far)]);
    command
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key())
        .args(options);
    far.near.run(command)
}

fn host(far: &Far) -> String {
    let host = if far.near.stage.is_some() {
        "b"
    } else {
        "127.0.0.1"
    };
    format!("{host}:{}", far.port)
}

/// The steps of this name.
fn steps(outcome: &Outcome, name: &str) -> Vec<Value> {
    let events = outcome.events();
    let steps = events.iter().filter(|event| event["name"] == name);
    steps.cloned().collect()
}

/// Returns the text and the advice of the only step with this name and outcome.
fn step(outcome: &Outcome, name: &str, went: &str) -> (String, String) {
    let steps = steps(outcome, name);
    assert_eq!(steps.len(), 1, "{name}: {outcome:?}");
    assert_eq!(steps[0]["outcome"], went, "{name}: {outcome:?}");
    let words = |key| steps[0][key].as_str().unwrap_or("").to_owned();
    (words("text"), words("advice"))
}

fn assert_has(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?}: {text}");
}

#[test]
fn doctor_prints_one_line_per_check() {
    let far = Far::start("doctor", &[]);
    // datagrams may reach a busy host too late
    let mut outcomes = (0..5).map(|_| look(&far, &["--rate", "10Mb/s"]));
    let passes = |outcome: &Outcome| steps(outcome, "udp")[0]["outcome"] == "ok";
    let outcome = outcomes.find(passes).unwrap().assert_succeeded();
    for name in [
        "name", "tcp", "tls", "key", "allowed", "version", "clock", "udp", "rtt",
    ] {
        step(&outcome, name, "ok");
    }
    assert_eq!(outcome.events().last().unwrap()["type"], "diagnosis");
    // without --json, the same is printed as lines
    let mut command = far
        .near
        .lighthaul(&["doctor", &host(&far), "--pin", &far.pin]);
    command.arg("--key").arg(far.near.key());
    let outcome = far.near.run(command).assert_succeeded();
    assert!(
        outcome.out[0].starts_with("ok    name     127.0.0.1 is "),
        "{outcome:?}"
    );
}

#[test]
fn doctor_distinguishes_name_port_key_and_access_faults() {
    let far = Far::start("doctor-ports", &[]);
    let run = |words: &[&str]| far.near.run(far.near.lighthaul(words));
    let outcome = run(&["doctor", "--json", "no-such-host.invalid"]);
    assert_eq!(outcome.code, Some(10));
    assert_has(
        &step(&outcome, "name", "fail").0,
        "no-such-host.invalid cannot be resolved",
    );
    let closed = ClosedPort::new();
    let port = closed.number();
    let outcome = run(&["doctor", "--json", &format!("127.0.0.1:{port}")]);
    assert_eq!(outcome.code, Some(10));
    let (text, advice) = step(&outcome, "tcp", "fail");
    assert_has(&text, "connection refused");
    assert_has(&advice, "start `lighthaul serve` there");
    // an unknown key is reported with the command to accept it, and this user's key is not allowed
    let outcome = run(&["doctor", "--json", &host(&far)]);
    assert_eq!(outcome.code, Some(13), "{outcome:?}");
    assert_has(
        &step(&outcome, "key", "warn").1,
        &format!("lighthaul trust {} {}", host(&far), far.pin),
    );
    assert_has(
        &step(&outcome, "allowed", "fail").0,
        "lighthaul allow sha256:",
    );
    // a changed key ends the checks
    let other = format!("sha256:{}", "0".repeat(64));
    let outcome = run(&["doctor", "--json", &host(&far), "--pin", &other]);
    assert_eq!(outcome.code, Some(13), "{outcome:?}");
    assert_has(
        &step(&outcome, "key", "fail").1,
        "another host may be answering in its place",
    );
    assert!(steps(&outcome, "allowed").is_empty());
    // something else listens there
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = listener.local_addr().unwrap().to_string();
    let talk = std::thread::spawn(move || {
        // the first address is only connected to
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"SSH-2.0-OpenSSH_9.9\r\n").unwrap();
        std::io::Read::read_to_end(&mut stream, &mut Vec::new()).ok();
    });
    let outcome = run(&["doctor", "--json", &other]);
    talk.join().unwrap();
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    assert_has(&step(&outcome, "tls", "fail").1, "listens on port");
}

#[test]
fn doctor_names_the_direction_in_which_udp_is_blocked() {
    let name = "doctor_names_the_direction_in_which_udp_is_blocked";
    for (hosts, words, advice) in [
        (&["b"][..], "but none reaches it", "allow UDP to"),
        (&["a"], "answers do not arrive", "to this host"),
        (&["a", "b"], "passes in either direction", "and replies"),
    ] {
        let Some(stage) = Stage::pair(name, "rtt = \"4ms\"") else {
            return;
        };
        for host in hosts {
            stage.block(host, "meta l4proto udp");
        }
        let far = Far::start_on("doctor-udp", stage);
        let outcome = look(&far, &[]);
        let outcome = outcome.assert_succeeded();
        let (text, to_do) = step(&outcome, "udp", "warn");
        assert_has(&text, words);
        assert_has(&text, "TCP takes over");
        let diagnosis = outcome.events().pop().unwrap();
        assert_eq!(diagnosis["text"], "copies work, but could be faster");
        assert_has(&to_do, advice);
        assert_has(&to_do, &far.port.to_string());
    }
}

#[test]
fn doctor_detects_a_small_path_mtu() {
    let name = "doctor_detects_a_small_path_mtu";
    let description = r#"
        host = [{ name = "a" }, { name = "b" }]
        router = [{ name = "r" }, { name = "s" }]
        link = [
            { between = ["a", "r"], mtu = 9000 },
            { between = ["r", "s"], mtu = 1400 },
            { between = ["s", "b"], mtu = 9000 },
        ]
    "#;
    let Some(stage) = Stage::start(name, description) else {
        return;
    };
    let far = Far::start_on("doctor-mtu", stage);
    let outcome = look(&far, &[]).assert_succeeded();
    let (text, advice) = step(&outcome, "mtu", "warn");
    assert_has(
        &text,
        "packets of 1400 bytes pass, but this host's interface has an MTU of 9000",
    );
    assert_has(&advice, "mtu 1400");
}

#[test]
fn doctor_prints_the_sysctl_for_small_buffers() {
    let name = "doctor_prints_the_sysctl_for_small_buffers";
    let Some(stage) = Stage::pair(name, "rtt = \"40ms\"") else {
        return;
    };
    let far = Far::start_on("doctor-buffers", stage);
    // root may have any buffer, others what the system grants
    let mut command = far
        .near
        .stage
        .as_ref()
        .unwrap()
        .lab
        .command("a", "setpriv")
        .unwrap();
    command
        .args([
            "--bounding-set=-net_admin",
            "--inh-caps=-net_admin",
            PROGRAM,
        ])
        .args(["doctor", "--json", &host(&far), "--rate", "10Gb/s"])
        .args(["--pin", &far.pin, "--key"])
        .arg(far.near.key());
    let limit: u64 = fs::read_to_string("/proc/sys/net/core/rmem_max")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let outcome = far.near.run(command).assert_succeeded();
    let found = steps(&outcome, "buffers");
    assert_eq!(found.len(), 2, "{outcome:?}");
    // 10 Gb/s for 40 ms are 50 MB
    let went = if limit < 50_000_000 { "warn" } else { "ok" };
    assert_eq!(found[0]["outcome"], went, "{outcome:?}");
    if went == "warn" {
        let advice = found[0]["advice"].as_str().unwrap();
        assert_has(
            advice,
            "here: `sysctl -w net.core.rmem_max=67108864 net.core.wmem_max=67108864`",
        );
    }
    assert_eq!(found[1]["outcome"], "ok", "{outcome:?}");
    let text = step(&outcome, "rtt", "ok").0;
    assert_has(&text, "at 10.000 Gb/s");
}

/// A user that is not root gets small buffers. That matters only if they overflow.
#[test]
fn copy_without_loss_does_not_mention_a_small_receive_buffer() {
    let far = Far::start("scarce", &[]);
    fs::write(far.target.join("x"), vec![7; 100_000]).unwrap();
    let back = far.near.at("back").to_str().unwrap().to_owned();
    for state in ["new", "up to date"] {
        let mut command = Command::new("setpriv");
        // 40 Gb/s fill 50 MB in 10 ms
        command
            .args([
                "--bounding-set=-net_admin",
                "--inh-caps=-net_admin",
                PROGRAM,
            ])
            .args(["cp", "--json", "--rate", "40Gb/s", "--pin", &far.pin])
            .arg("--key")
            .arg(far.near.key())
            .args([&far.place("x"), &back]);
        let outcome = far.near.run(command).assert_succeeded();
        let events = outcome.events();
        let summary = events.iter().find(|event| event["type"] == "summary");
        let drops = summary.unwrap()["buffer_drops"].as_u64().unwrap();
        let warns = outcome.out.concat().contains("net.core.rmem_max");
        assert_eq!(warns, drops > 0, "{state}: {outcome:?}");
    }
}

#[test]
fn doctor_shows_the_last_hop_before_a_blocked_port() {
    let name = "doctor_shows_the_last_hop_before_a_blocked_port";
    if is_skipped(name) {
        return;
    }
    let description = r#"
        host = [{ name = "a" }, { name = "r" }, { name = "b" }]
        # the lab needs a link between all hosts; the routes below lead past the last one
        link = [
            { between = ["a", "r"], kind = "veth" },
            { between = ["r", "b"], kind = "veth" },
            { between = ["a", "b"] },
        ]
    "#;
    let Some(stage) = Stage::start(name, description) else {
        return;
    };
    let on = |host: &str, script: &str| {
        let status = stage.lab.run(host, &["sh", "-c", script]).unwrap();
        assert!(status.success(), "{host}: {script}");
    };
    on("r", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    on(
        "a",
        "ip route add 10.77.0.3/32 via 10.77.0.2 dev veth0 onlink",
    );
    on(
        "b",
        "ip route add 10.77.0.1/32 via 10.77.0.2 dev veth1 onlink",
    );
    stage.block("b", "meta l4proto { tcp, udp }");
    let near = crate::far::Near::new("doctor-hops", Some(stage));
    let outcome = near.run(near.lighthaul(&["doctor", "--json", "b:4810"]));
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    let (text, advice) = step(&outcome, "tcp", "fail");
    assert_has(&text, "cannot reach 10.77.0.3:4810");
    assert_has(
        &advice,
        "the last hop that answers is 10.77.0.2, 1 hops away",
    );
}

#[test]
fn doctor_help_has_its_documented_example() {
    let help = Command::new(PROGRAM)
        .args(["doctor", "--help"])
        .output()
        .unwrap();
    assert_has(
        &String::from_utf8(help.stdout).unwrap(),
        "lighthaul doctor far.example.org",
    );
}
