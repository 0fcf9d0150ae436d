//! Copies that change their protocol while they run.

use std::fs;

use crate::far::Far;
use crate::running::{Running, event};
use crate::schema::assert_valid;
use crate::stage::Stage;

/// Attempts to find the path clean and near, which a busy host may prevent.
const ATTEMPTS: u32 = 12;

/// Begins a push or a pull of 100 MB with the default protocol, until TCP is chosen. Returns none if no lab is possible
/// here.
fn by_tcp(pull: bool) -> Option<(Far, Running)> {
    for nth in 0..ATTEMPTS {
        let name = format!("course-{pull}-{nth}");
        let link = "rate = \"200Mb/s\"\nrtt = \"2ms\"\nqueue = \"1MB\"";
        let stage = Stage::pair_quiet(&name, link)?;
        for host in ["a", "b"] {
            // BBR does not care about single losses
            let words = ["sysctl", "-q", "-w", "net.ipv4.tcp_congestion_control=reno"];
            assert!(stage.lab.run(host, &words).unwrap().success());
        }
        let far = Far::start_on(&name, stage);
        let file = far.near.file("x", 100_000_000);
        let paths = if pull {
            fs::copy(&file, far.target.join("source")).unwrap();
            [
                far.place("source"),
                far.near.at("copy").display().to_string(),
            ]
        } else {
            [file.display().to_string(), far.place("copy")]
        };
        let options = ["--json", "--explain", "--protocol", "auto"];
        let mut copy = Running::start(far.copy(&options, &[&paths[0], &paths[1]]));
        let choice = event(&copy.prints("\"type\":\"choice\""));
        if choice["protocol"] == "tcp" {
            return Some((far, copy));
        }
    }
    panic!("TCP was not chosen in any of {ATTEMPTS} attempts");
}

#[test]
fn tcp_with_new_packet_loss_is_replaced_by_another_protocol() {
    for pull in [false, true] {
        let Some((far, mut copy)) = by_tcp(pull) else {
            return;
        };
        copy.prints("\"type\":\"progress\"");
        let stage = far.near.stage.as_ref().unwrap();
        for host in ["a", "b"] {
            stage.block(host, "meta l4proto tcp numgen random mod 50 == 0");
        }
        let outcome = copy.finish().assert_succeeded();
        let target = if pull {
            far.near.at("copy")
        } else {
            far.target.join("copy")
        };
        assert!(fs::read(target).unwrap() == fs::read(far.near.at("x")).unwrap());
        let events = assert_valid(&outcome);
        let choices = events.iter().filter(|event| event["type"] == "choice");
        let choices: Vec<_> = choices.collect();
        let names: Vec<_> = choices.iter().map(|choice| &choice["protocol"]).collect();
        assert_eq!(names, ["tcp", "sabul-swift"], "{outcome:?}");
        let why = choices[1]["why"].as_str().unwrap();
        let begin = "auto: sabul-swift from now on, because TCP carries only ";
        assert!(why.starts_with(begin) && outcome.said(why), "{outcome:?}");
        let summary = events.last().unwrap();
        // none of what TCP has carried is sent again, and few of the datagrams are lost
        let again = summary["packets_resent"].as_u64().unwrap() * 1408;
        assert!(again < 10_000_000, "{summary}");
        let moving = &summary["moving_s"];
        lighthaul_testkit::report(format_args!("pull {pull}: {moving} s; {why}"));
    }
}
