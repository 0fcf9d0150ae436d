//! Cluster in which one element loses its path: its sessions continue through another.

use std::fs;
use std::io::Read;

use crate::pair::{Pair, gateway, say};
use crate::programs::{Talk, hear, tell};
use crate::running::{Running, becomes_true};
use crate::scratch::{Scratch, noise};
use crate::stage::Stage;
use crate::status::shown;

/// Programs and two elements on `a` and `c`, targets and the gateway near them on `b`.
const SITES: &str = r#"
host = [{ name = "a" }, { name = "b" }, { name = "c" }]
router = [{ name = "r" }]
link = [
    { between = ["a", "r"], rate = "200Mb/s" },
    { between = ["c", "r"], rate = "200Mb/s" },
    { between = ["b", "r"], rate = "100Mb/s", rtt = "20ms" },
]
"#;

/// The pair between `a` and `b`, and the element beside it.
fn start(name: &str) -> Option<(Pair, Running)> {
    let stage = Stage::start(name, SITES)?;
    let scratch = Scratch::new(name);
    let at = |name: &str| scratch.at(name).to_str().unwrap().to_owned();
    fs::write(scratch.at("secret"), "what only elements know").unwrap();
    let (pin, key) = (
        say(&["key", "--key", &at("b-key")]),
        say(&["key", "--key", &at("c-key")]),
    );
    say(&["allow", &key, "c", "--gateway", "--allowed", &at("allowed")]);
    let secret = at("secret");
    let together = |host: &str| {
        let words = [
            "--cluster",
            MEMBERS,
            "--cluster-key",
            &secret,
            "--cluster-listen",
            host,
        ];
        words.map(str::to_owned)
    };
    let mut command = gateway(&stage, &scratch, "c");
    command.args([
        "--peer",
        "10.77.0.2:4810",
        "--pin",
        &pin,
        "--rate",
        "90Mb/s",
    ]);
    command
        .args(["--socks", "0.0.0.0:1080"])
        .args(together("10.77.0.3:4811"));
    let ours = together("10.77.0.1:4811");
    let mut options: Vec<&str> = ours.iter().map(String::as_str).collect();
    options.extend(["--via", "10.77.0.3:1080"]);
    let pair = Pair::start_on(stage, scratch, &options, &[]);
    let mut beside = Running::start(command);
    beside.says("the link carries sessions");
    Some((pair, beside))
}

#[test]
fn sessions_continue_through_a_neighbor_gateway() {
    let name = "sessions_continue_through_a_neighbor_gateway";
    let Some((mut pair, beside)) = start(name) else {
        return;
    };
    let mut ends = pair.session();
    let talk = Talk::begin(&ends, [30_000_000, 30_000_000]);
    let mut heard = vec![0; 1_000_000];
    ends.program.read_exact(&mut heard).unwrap();
    pair.stage.block("b", "ip saddr 10.77.0.1");
    pair.ingress.says("through 10.77.0.3:1080");
    talk.finish(&mut ends.program, heard);
    assert!(
        shown(&pair.scratch, "c")["sessions"] == 1,
        "{}",
        shown(&pair.scratch, "c")
    );
    // new programs use the same path, and the link returns to the direct path when it works
    let mut ends = pair.session();
    pair.stage.unblock("b");
    becomes_true("the link is back on its own way", || {
        shown(&pair.scratch, "c")["sessions"] == 0
    });
    let said = noise(1_000_000, 8);
    let sayer = tell(&ends.program, said.clone());
    let (heard, end) = hear(&mut ends.target);
    end.unwrap();
    sayer.join().unwrap().unwrap();
    assert!(heard == said, "what arrived is not what was said");
    assert_eq!(shown(&pair.scratch, "a")["reconnections"], 2);
    drop(beside);
}

const MEMBERS: &str = "10.77.0.1:4811,10.77.0.3:4811";
