//! Commands in a lab: where they run, what they find there, and that nothing of them is left.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lighthaul_base::Rng;
use lighthaul_io::clock::Clock;
use lighthaul_lab::counters::Troubles;
use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::Lab;

use lighthaul_testkit::Turn;

use crate::alone::{is_skipped, pair, start_beside};

#[test]
fn a_host_sends_by_the_congestion_control_that_is_preferred_and_by_its_default_again() {
    let name = "a_host_sends_by_the_congestion_control_that_is_preferred_and_by_its_default_again";
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
        let routes = || said(&["ip", "-4", "route", "show", "table", "all"]);
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
fn a_command_runs_in_its_host_and_its_status_comes_back() {
    let name = "a_command_runs_in_its_host_and_its_status_comes_back";
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
        // it is the child of the init of its cell
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
fn what_a_command_left_behind_dies_with_it() {
    let name = "what_a_command_left_behind_dies_with_it";
    let Some(alone) = start_beside(name, &pair("")) else {
        return;
    };
    let orphan = "setsid sleep 271828 > /dev/null 2>&1 & echo done";
    let mut command = alone.lab.command("a", "sh").unwrap();
    let output = command.args(["-c", orphan]).output().unwrap();
    assert_eq!(output.stdout, b"done\n");
    assert!(becomes_true(|| !is_running("271828")), "an orphan lives on");
}

#[test]
fn nothing_is_left_of_a_lab_that_was_killed() {
    let name = "nothing_is_left_of_a_lab_that_was_killed";
    if is_skipped(name) {
        return;
    }
    let _turn = Turn::beside_others();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cell::hold_a_lab", "--ignored", "--nocapture"])
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
        "no command started"
    );
    assert!(spaces.iter().all(|space| is_inhabited(space)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(
        becomes_true(|| !is_running("60.314159")),
        "a command lives on"
    );
    assert!(
        becomes_true(|| !spaces.iter().any(|space| is_inhabited(space))),
        "a namespace lives on"
    );
}

/// Run by the test above in a process of its own, and killed.
#[test]
#[ignore = "a part of another test"]
fn hold_a_lab() {
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
fn a_stream_survives_a_link_that_cuts_trains_to_pieces() {
    let harm = "rate = \"500Mb/s\"\nrtt = \"4ms\"\nloss = \"0.3%\"\nreorder = \"0.3% by 1ms\"\nduplicate = \"0.3%\"";
    let name = "a_stream_survives_a_link_that_cuts_trains_to_pieces";
    let Some(alone) = start_beside(name, &pair(harm)) else {
        return;
    };
    carry(&alone.lab);
    let counters = alone.lab.counters();
    assert!(counters.link("a", "b").unwrap().seen.dropped_loss.packets > 10);
    assert_eq!(counters.troubles, Troubles::default());
}

#[test]
fn a_plain_pair_carries_a_stream_whole_or_cut() {
    for segment in [false, true] {
        let properties = format!("kind = \"veth\"\nsegment = {segment}\nmtu = 9000");
        let name = "a_plain_pair_carries_a_stream_whole_or_cut";
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
fn a_router_tells_of_a_narrow_link() {
    let description = r#"
        host = [{ name = "a" }, { name = "b" }]
        router = [{ name = "r" }, { name = "s" }]
        [[link]]
        between = ["a", "r"]
        mtu = 9000
        [[link]]
        between = ["r", "s"]
        mtu = 1400
        [[link]]
        between = ["s", "b"]
        mtu = 9000
    "#;
    let Some(alone) = start_beside("a_router_tells_of_a_narrow_link", description) else {
        return;
    };
    carry(&alone.lab);
    assert!(alone.lab.counters().link("r", "s").unwrap().too_long > 0);
}

/// Moves some megabytes of chance from `a` to `b` and compares them.
fn carry(lab: &Lab) {
    let mut rng = Rng::new(1);
    let sent: Vec<u8> = (0..1 << 20)
        .flat_map(|_| rng.next_u64().to_ne_bytes())
        .collect();
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

/// Looks until it is so, five seconds at most.
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

/// Whether any process of the machine has this word in its command line.
fn is_running(word: &str) -> bool {
    processes().any(|process| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0)
            .any(|part| part == word.as_bytes())
    })
}

/// Whether any process of the machine is in this namespace.
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
