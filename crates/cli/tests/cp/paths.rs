//! Copies over paths that lose packets, block UDP, have a small MTU or fail.

use std::path::Path;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use serde_json::Value;

use crate::far::Far;
use crate::running::{Outcome, Running, becomes_true};
use crate::scratch::{look, names};
use crate::stage::Stage;
use lighthaul_testkit::allowance;

/// Begins a push or a pull between hosts `a` and `b`.
fn begin(far: &Far, file: &Path, pull: bool, options: &[&str]) -> Running {
    let (here, there) = (far.near.at("copy"), far.place("copy"));
    let paths = if pull {
        std::fs::copy(file, far.target.join("source")).unwrap();
        [far.place("source"), here.to_str().unwrap().to_owned()]
    } else {
        [file.to_str().unwrap().to_owned(), there]
    };
    let options = [&["--json"], options].concat();
    Running::start(far.copy(&options, &[&paths[0], &paths[1]]))
}

/// Makes a push or a pull whose data are carried by datagrams.
fn by_datagrams(far: &Far, file: &Path, pull: bool, options: &[&str]) -> Outcome {
    far.by_datagrams(|| {
        for copy in [far.near.at("copy"), far.target.join("copy")] {
            std::fs::remove_file(copy).ok();
        }
        begin(far, file, pull, options).finish()
    })
}

/// Asserts that the copy is complete. Returns its first and its last event.
fn assert_whole(
    far: &Far,
    file: &Path,
    pull: bool,
    outcome: Outcome,
) -> (Value, Value, Vec<String>) {
    let outcome = outcome.assert_succeeded();
    let copy = if pull {
        far.near.at("copy")
    } else {
        far.target.join("copy")
    };
    assert!(
        std::fs::read(copy).unwrap() == std::fs::read(file).unwrap(),
        "it is not the same"
    );
    let events = outcome.events();
    let start = events
        .iter()
        .find(|event| event["type"] == "start")
        .unwrap()
        .clone();
    (start, events.last().unwrap().clone(), outcome.err)
}

fn falls_back(err: &[String]) -> bool {
    err.iter().any(|line| line.contains("TCP carries the data"))
}

#[test]
fn lossy_reordering_duplicating_path_delivers_all_data() {
    let name = "lossy_reordering_duplicating_path_delivers_all_data";
    let harm = "rate = \"200Mb/s\"\nrtt = \"20ms\"\nloss = \"2%\"\nreorder = \"1% by 3ms\"\nduplicate = \"1%\"";
    let Some(stage) = Stage::pair(name, harm) else {
        return;
    };
    let far = Far::start_on("harm", stage);
    let file = far.near.file("x", 10_000_001);
    for pull in [false, true] {
        let outcome = by_datagrams(&far, &file, pull, &["--rate", "150Mb/s"]);
        let (_, summary, _) = assert_whole(&far, &file, pull, outcome);
        assert!(
            summary["packets_resent"].as_u64().unwrap() > 20,
            "{summary}"
        );
        assert!(summary["rounds"].as_u64().unwrap() > 1, "{summary}");
    }
}

#[test]
fn rate_above_the_link_capacity_delivers_all_data() {
    let name = "rate_above_the_link_capacity_delivers_all_data";
    let Some(stage) = Stage::pair(name, "rate = \"100Mb/s\"\nrtt = \"10ms\"") else {
        return;
    };
    let far = Far::start_on("above-the-link", stage);
    let file = far.near.file("x", 8_000_000);
    for pull in [false, true] {
        let outcome = begin(&far, &file, pull, &["--rate", "1Gb/s"]).finish();
        assert_whole(&far, &file, pull, outcome);
    }
}

#[test]
fn blocked_udp_falls_back_to_tcp_with_a_warning() {
    let name = "blocked_udp_falls_back_to_tcp_with_a_warning";
    for (host, pull) in [("b", false), ("b", true), ("a", false), ("a", true)] {
        let Some(stage) = Stage::pair(name, "rate = \"200Mb/s\"\nrtt = \"20ms\"") else {
            return;
        };
        stage.block(host, "meta l4proto udp");
        let far = Far::start_on("udp-blocked", stage);
        let file = far.near.file("x", 3_000_000);
        let outcome = begin(&far, &file, pull, &[]).finish();
        let (start, _, err) = assert_whole(&far, &file, pull, outcome);
        // the path of the data is blocked, or that of the replies
        let is_way_of_data = (host == "b") != pull;
        assert!(
            falls_back(&err) || !is_way_of_data,
            "{host} {pull}: {err:?}"
        );
        let startup = start["startup_s"].as_f64().unwrap();
        assert!(
            startup < allowance(3).as_secs_f64(),
            "{host} {pull}: TCP took over after {startup} s"
        );
    }
}

#[test]
fn udp_blocked_during_a_copy_falls_back_to_tcp() {
    let name = "udp_blocked_during_a_copy_falls_back_to_tcp";
    for pull in [false, true] {
        let Some(stage) = Stage::pair(name, "rate = \"100Mb/s\"\nrtt = \"20ms\"") else {
            return;
        };
        let far = Far::start_on("udp-blocked-halfway", stage);
        let file = far.near.file("x", 20_000_000);
        let mut copy = begin(&far, &file, pull, &["--rate", "40Mb/s"]);
        copy.prints("\"type\":\"progress\"");
        let stage = far.near.stage.as_ref().unwrap();
        stage.block(if pull { "a" } else { "b" }, "meta l4proto udp");
        let (_, summary, err) = assert_whole(&far, &file, pull, copy.finish());
        // a remote sender reports it there
        assert!(falls_back(&err) || pull, "{err:?}");
        // at 40 Mb/s the rest alone would have taken three seconds more
        let moving = summary["moving_s"].as_f64().unwrap();
        assert!(moving < allowance(40).as_secs_f64(), "{summary}");
    }
}

#[test]
fn path_mtu_below_the_device_mtu_is_detected() {
    let name = "path_mtu_below_the_device_mtu_is_detected";
    let description = |narrow: u32| {
        format!(
            "host = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             router = [{{ name = \"r\" }}, {{ name = \"s\" }}]\n\
             link = [\n\
             {{ between = [\"a\", \"r\"], mtu = 9000, rate = \"200Mb/s\", rtt = \"5ms\" }},\n\
             {{ between = [\"r\", \"s\"], mtu = {narrow}, rate = \"200Mb/s\", rtt = \"5ms\" }},\n\
             {{ between = [\"s\", \"b\"], mtu = 9000, rate = \"200Mb/s\", rtt = \"5ms\" }},\n]"
        )
    };
    for (narrow, silent, packet) in [
        (9000, false, 8000..9000),
        (1500, false, 1350..1460),
        (1400, true, 1200..1400),
    ] {
        let Some(stage) = Stage::start(name, &description(narrow)) else {
            return;
        };
        if silent {
            // routers whose answers never arrive; the handshake of TCP limits its segments
            for host in ["a", "b"] {
                stage.block(host, "icmp type destination-unreachable");
                let probing = "sysctl -qw net.ipv4.tcp_mtu_probing=2 net.ipv4.tcp_base_mss=1024";
                let status = stage.lab.run(host, &["sh", "-c", probing]).unwrap();
                assert!(status.success());
            }
        }
        let far = Far::start_on("narrow", stage);
        let file = far.near.file("x", 3_000_000);
        for pull in [false, true] {
            let outcome = by_datagrams(&far, &file, pull, &[]);
            let (start, ..) = assert_whole(&far, &file, pull, outcome);
            let len = start["packet_bytes"].as_u64().unwrap();
            assert!(
                packet.contains(&len),
                "{narrow} and {pull}: packets of {len} bytes"
            );
        }
    }
}

#[test]
fn path_mtu_below_the_minimum_falls_back_to_tcp() {
    let name = "path_mtu_below_the_minimum_falls_back_to_tcp";
    let Some(stage) = Stage::pair(name, "mtu = 1000\nrate = \"200Mb/s\"\nrtt = \"5ms\"") else {
        return;
    };
    let far = Far::start_on("tiny-packets", stage);
    let file = far.near.file("x", 1_000_000);
    for pull in [false, true] {
        let outcome = begin(&far, &file, pull, &[]).finish();
        let (_, _, err) = assert_whole(&far, &file, pull, outcome);
        assert!(falls_back(&err), "{err:?}");
    }
}

/// A copy remembers the path. The next one must notice that long datagrams, or all, no longer pass.
#[test]
fn remembered_path_that_has_changed_is_explored_again() {
    let name = "remembered_path_that_has_changed_is_explored_again";
    for (blocked, packet, uses_tcp) in [
        ("meta length 1350-65535 meta l4proto udp", 1100..1350, false),
        ("meta l4proto udp", 0..usize::MAX as u64, true),
    ] {
        let Some(stage) = Stage::pair(name, "rate = \"200Mb/s\"\nrtt = \"20ms\"") else {
            return;
        };
        let far = Far::start_on("remembered-path", stage);
        let file = far.near.file("x", 8_000_000);
        let push = |name: &str| {
            let outcome = far.push(&["--json"], &[&file], name).assert_succeeded();
            assert!(
                look(&far.target.join(name)) == look(&file),
                "{name} differs"
            );
            let events = outcome.events();
            let start = events.iter().find(|event| event["type"] == "start");
            (start.unwrap().clone(), outcome)
        };
        let (before, _) = push("before");
        assert!(before["packet_bytes"].as_u64().unwrap() > 1350, "{before}");
        let known = std::fs::read_to_string(far.near.at("cache/lighthaul/paths"));
        assert_eq!(known.unwrap().lines().count(), 1, "the path is remembered");
        let stage = far.near.stage.as_ref().unwrap();
        stage.block("b", blocked);
        let (after, outcome) = push("after");
        assert_eq!(falls_back(&outcome.err), uses_tcp, "{outcome:?}");
        let len = after["packet_bytes"].as_u64().unwrap();
        assert!(packet.contains(&len), "{blocked}: packets of {len} bytes");
        let startup = after["startup_s"].as_f64().unwrap();
        assert!(
            startup < allowance(3).as_secs_f64(),
            "{blocked}: {startup} s"
        );
    }
}

#[test]
fn path_mtu_that_shrinks_during_a_copy_falls_back_to_tcp() {
    let name = "path_mtu_that_shrinks_during_a_copy_falls_back_to_tcp";
    let Some(stage) = Stage::pair(name, "rate = \"100Mb/s\"\nrtt = \"20ms\"") else {
        return;
    };
    let far = Far::start_on("mtu-shrinks", stage);
    let file = far.near.file("x", 20_000_000);
    let mut copy = begin(&far, &file, false, &["--rate", "40Mb/s"]);
    copy.prints("\"type\":\"progress\"");
    let stage = far.near.stage.as_ref().unwrap();
    stage.block("b", "meta length 1100-65535 meta l4proto udp");
    let (_, summary, err) = assert_whole(&far, &file, false, copy.finish());
    assert!(falls_back(&err), "{err:?}");
    // at 40 Mb/s all of it takes four seconds
    let moving = summary["moving_s"].as_f64().unwrap();
    assert!(moving < allowance(15).as_secs_f64(), "{moving} s");
}

#[test]
fn silent_path_times_out_and_leaves_no_files() {
    let name = "silent_path_times_out_and_leaves_no_files";
    let Some(stage) = Stage::pair(name, "rate = \"100Mb/s\"\nrtt = \"20ms\"") else {
        return;
    };
    let mut far = Far::start_on("silent-path", stage);
    let file = far.near.file("x", 40_000_000);
    // of 8 MiB and more, what has arrived is kept for a later copy
    let mut copy = begin(&far, &file, false, &["--rate", "5Mb/s"]);
    copy.prints("\"type\":\"progress\"");
    becomes_true("something has arrived", || !names(&far.target).is_empty());
    let stage = far.near.stage.as_ref().unwrap();
    let clock = Clock::start();
    for host in ["a", "b"] {
        stage.block(host, "ip saddr 10.77.0.0/16");
    }
    let outcome = copy.finish();
    let silent = clock.now().since(Instant::ZERO);
    assert_eq!(outcome.code, Some(30), "{outcome:?}");
    // all lanes move to TCP, which is said once
    let warnings = outcome
        .err
        .iter()
        .filter(|line| line.ends_with("TCP carries the data from now on"));
    assert_eq!(warnings.count(), 1, "{outcome:?}");
    // a silent peer is given up after twenty seconds, unless --stall-timeout is given
    let limits = Duration::from_secs(18)..allowance(30);
    assert!(limits.contains(&silent), "given up after {silent:?}");
    far.daemon.says("no data from the sender for");
    becomes_true("nothing is left", || names(&far.target).is_empty());
    // the host can no longer be reached
    let outcome = begin(&far, &file, false, &[]).finish();
    outcome.assert_failed(10, "cannot reach");
}
