//! Tests of commands in a lab: their host and environment, and the removal of all their processes.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_io::host::clock::Clock;
use lighthaul_lab::counters::EmulatorCounters;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;

use lighthaul_testkit::Turn;

use crate::start::{is_skipped, pair, start_beside};

#[test]
fn preferred_congestion_control_is_used_until_reset() {
    let name = "preferred_congestion_control_is_used_until_reset";
    for kind in ["wan", "veth"] {
        let Some(alone) = start_beside(name, &pair(&format!("kind = \"{kind}\""))) else {
            return;
        };
        let lab = &alone.lab;
        let said = |words: &[&str]| {
            let output = lab
                .command("a", words[0])
                .unwrap()
                .args(&words[1..])
                .output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        // the kernel marks a device whose other end has just come up a moment longer
        let routes =
            || said(&["ip", "-4", "route", "show", "table", "all"]).replace("linkdown ", "");
        let before = routes();
        assert!(!before.contains("congctl"), "{before}");

        lab.prefer("a", Some("reno")).unwrap();
        for host in ["a", "b"] {
            let address = (lab.address(host).unwrap(), 0);
            let listener = lab.within(host, || TcpListener::bind(address)).unwrap();
            let to = listener.local_addr().unwrap();
            let _tcp = lab.within("a", || TcpStream::connect(to)).unwrap();
            let socket = said(&["ss", "-tinH", "dst", &to.to_string()]);
            assert!(socket.contains(" reno "), "{kind}, to {host}: {socket}");
        }
        lab.prefer("a", Some("reno")).unwrap();
        lab.prefer("a", None).unwrap();
        lab.prefer("a", None).unwrap();
        assert_eq!(routes(), before);
        lab.prefer("a", Some("none of this name")).unwrap_err();
    }
}

#[test]
fn command_runs_in_its_host_and_returns_its_status() {
    let name = "command_runs_in_its_host_and_returns_its_status";
    let Some(alone) = start_beside(name, &pair("rtt = \"2ms\"")) else {
        return;
    };
    for (script, code) in [
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("getent hosts b | grep -q 10.77.0.2", 0),
        ("test $LIGHTHAUL_LAB_A = 10.77.0.1", 0),
        ("ip -brief address show wan | grep -q 10.77.0.1/32", 0),
        (
            "nsenter --net=$LIGHTHAUL_LAB/b ip -brief address | grep -q 10.77.0.2/32",
            0,
        ),
        // The command is a child of its cell's init.
        ("test $PPID -eq 1", 0),
    ] {
        let status = alone.lab.run("a", &["sh", "-c", script]).unwrap();
        assert_eq!(status.code(), Some(code), "{script}");
    }
    let error = alone.lab.run("c", &["true"]).unwrap_err().to_string();
    assert_eq!(error, "there is no host named \"c\" in this lab");
    let error = alone
        .lab
        .run("a", &["no-such-program"])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot run no-such-program: No such file"),
        "{error}"
    );
}

#[test]
fn orphans_of_a_command_are_killed_with_the_command() {
    let name = "orphans_of_a_command_are_killed_with_the_command";
    let Some(alone) = start_beside(name, &pair("")) else {
        return;
    };
    let orphan = "setsid sleep 271828 > /dev/null 2>&1 & echo done";
    let mut command = alone.lab.command("a", "sh").unwrap();
    let output = command.args(["-c", orphan]).output().unwrap();
    assert_eq!(output.stdout, b"done\n");
    assert!(
        becomes_true(|| !is_running("271828")),
        "an orphan process survived"
    );
}

#[test]
fn no_processes_or_namespaces_remain_after_a_killed_lab() {
    let name = "no_processes_or_namespaces_remain_after_a_killed_lab";
    if is_skipped(name) {
        return;
    }
    let _turn = Turn::beside_others();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "processes::child_holds_a_lab",
            "--ignored",
            "--nocapture",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let mut spaces = Vec::new();
    while spaces.len() < 2 {
        let line = lines.next().unwrap().unwrap();
        spaces.extend(line.find("net:[").map(|at| line[at..].to_owned()));
    }
    assert!(
        becomes_true(|| is_running("60.314159")),
        "the command did not start"
    );
    assert!(spaces.iter().all(|space| is_inhabited(space)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(
        becomes_true(|| !is_running("60.314159")),
        "a command survived"
    );
    assert!(
        becomes_true(|| !spaces.iter().any(|space| is_inhabited(space))),
        "a namespace survived"
    );
}

/// Lab in a process of its own, which the test above kills.
#[test]
#[ignore = "run by another test"]
fn child_holds_a_lab() {
    let description = Description::parse(&pair("rtt = \"2ms\"")).unwrap();
    let lab = Lab::start(&description).unwrap();
    let script = "readlink /proc/self/ns/net; exec sleep 60.314159";
    let hold = |host| {
        lab.command(host, "sh")
            .unwrap()
            .args(["-c", script])
            .spawn()
            .unwrap()
    };
    let mut commands = ["a", "b"].map(hold);
    commands[0].wait().unwrap();
}

#[test]
fn tcp_stream_survives_loss_reordering_and_duplication() {
    let harm = "rate = \"500Mb/s\"\nrtt = \"4ms\"\nloss = \"0.3%\"\nreorder = \"0.3% by 1ms\"\nduplicate = \"0.3%\"";
    let name = "tcp_stream_survives_loss_reordering_and_duplication";
    let Some(alone) = start_beside(name, &pair(harm)) else {
        return;
    };
    carry(&alone.lab);
    let counters = alone.lab.counters();
    assert!(counters.link("a", "b").unwrap().seen.dropped_loss.packets > 10);
    assert_eq!(counters.emulator, EmulatorCounters::default());
}

#[test]
fn veth_pair_carries_a_stream_with_and_without_segmentation() {
    for segment in [false, true] {
        let properties = format!("kind = \"veth\"\nsegment = {segment}\nmtu = 9000");
        let name = "veth_pair_carries_a_stream_with_and_without_segmentation";
        let Some(alone) = start_beside(name, &pair(&properties)) else {
            return;
        };
        carry(&alone.lab);
        assert_eq!(alone.lab.counters().links.len(), 0);
        let features = alone
            .lab
            .command("a", "ethtool")
            .unwrap()
            .args(["-k", "veth0"])
            .output();
        let features = String::from_utf8(features.unwrap().stdout).unwrap();
        let is_cut = features.contains("tx-udp-segmentation: off");
        assert_eq!(is_cut, segment, "{features}");
    }
}

#[test]
fn router_reports_a_smaller_mtu() {
    let description = r#"
        host = [{ name = "a" }, { name = "b" }]
        router = [{ name = "r" }, { name = "s" }]
        link = [
            { between = ["a", "r"], mtu = 9000 },
            { between = ["r", "s"], mtu = 1400 },
            { between = ["s", "b"], mtu = 9000 },
        ]
    "#;
    let Some(alone) = start_beside("router_reports_a_smaller_mtu", description) else {
        return;
    };
    carry(&alone.lab);
    assert!(alone.lab.counters().link("r", "s").unwrap().too_long > 0);
}

/// Sends 8 MiB of random bytes from `a` to `b` over TCP, and compares them.
fn carry(lab: &Lab) {
    let mut sent = vec![0; 8 << 20];
    Rng::new(1).fill(&mut sent);
    let address = (lab.address("b").unwrap(), 7000);
    let listener = lab.within("b", || TcpListener::bind(address)).unwrap();
    let received = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = lab.within("a", || TcpStream::connect(address)).unwrap();
            stream.write_all(&sent).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).unwrap();
        received
    });
    assert!(
        received == sent,
        "{} of {} bytes",
        received.len(),
        sent.len()
    );
}

/// Waits until `look` returns true, for at most five seconds. Returns its last result.
fn becomes_true(mut look: impl FnMut() -> bool) -> bool {
    let clock = Clock::start();
    while !look() {
        if clock.now().as_secs_f64() > 5.0 {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Reports whether a process of this host has `word` as an argument.
fn is_running(word: &str) -> bool {
    processes().any(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0)
            .any(|part| part == word.as_bytes())
    })
}

/// Reports whether a process of this host is in this namespace.
fn is_inhabited(space: &str) -> bool {
    processes().any(|process| {
        fs::read_link(process.join("ns/net")).is_ok_and(|link| link == Path::new(space))
    })
}

fn processes() -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(io::Result::ok);
    entries.map(|entry| entry.path()).filter(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().parse::<u32>().is_ok())
    })
}
