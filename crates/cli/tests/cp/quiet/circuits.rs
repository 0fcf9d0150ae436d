//! A copy over a circuit that a scheduler makes at a real interface.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::far::Far;
use crate::running::{Running, becomes_true, event};
use crate::schema::assert_valid;
use crate::stage::Stage;

/// Name of the wire on the first host.
const WIRE: &str = "veth0";
const BYTES: u64 = 25_000_000;

/// Two hosts, one of which has a daemon; on the other a scheduler shapes the wire between them.
struct Shaped {
    far: Far,
    _scheduler: Running,
    token: String,
}

impl Shaped {
    fn start(name: &str) -> Option<Self> {
        let stage = Stage::pair_quiet(name, "kind = \"veth\"\nsegment = true")?;
        let far = Far::start_on(name, stage);
        let near = &far.near;
        let topology = near.at("network.toml");
        let link = "[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\ncapacity = \"500Mb/s\"\ninterfaces = [\"veth0\"]\n";
        fs::write(&topology, link).unwrap();
        let policy = near.at("policy.toml");
        fs::write(&policy, "[identity.ada]\nprefixes = [\"10.0.0.0/8\"]\n").unwrap();
        let mut token = near.lighthaul(&["token", "ada", "--role", "user", "--tokens"]);
        token.arg(near.at("tokens"));
        let token = near.run(token).assert_succeeded().out.concat();
        let shape = format!("{WIRE}=500Mb/s");
        let mut serve = near.lighthaul(&["scheduler", "--no-tls", "--shape", &shape]);
        serve.arg("--topology").arg(&topology);
        serve.arg("--policy").arg(&policy);
        serve.arg("--store").arg(near.at("books"));
        serve.arg("--key").arg(near.at("scheduler-key"));
        serve.arg("--tokens").arg(near.at("tokens"));
        let mut scheduler = Running::start(serve);
        scheduler.says("booking at ");
        Some(Self {
            far,
            _scheduler: scheduler,
            token,
        })
    }

    /// A copy of `source` with a reservation.
    fn copy(&self, source: &str) -> Command {
        let options = [
            "--book",
            "--circuit",
            WIRE,
            "--node",
            "a",
            "--far-node",
            "b",
        ];
        let more = ["--rate", "60Mb/s", "--json"];
        let target = self.far.place("copy");
        let options = [options.as_slice(), more.as_slice()].concat();
        let mut copy = self.far.copy(&options, &[source, &target]);
        copy.args(["--scheduler", URL])
            .env("LIGHTHAUL_SCHEDULER_TOKEN", &self.token);
        copy
    }

    fn on_first(&self, tool: &str, words: &[&str]) -> Command {
        let stage = self.far.near.stage.as_ref().unwrap();
        let mut command = stage.lab.command("a", tool).unwrap();
        command.args(words);
        command
    }

    /// Returns the output of `tc` for the wire.
    fn tc(&self, what: &str) -> String {
        let words = [what, "show", "dev", WIRE];
        let outcome = self.far.near.run(self.on_first("tc", &words));
        outcome.assert_succeeded().out.join("\n")
    }

    fn state(&self, id: &Value) -> Value {
        let id = id.to_string();
        let words = ["reservations", "--json", "--scheduler", URL, &id];
        let mut ask = self.far.near.lighthaul(&words);
        ask.env("LIGHTHAUL_SCHEDULER_TOKEN", &self.token);
        let outcome = self.far.near.run(ask).assert_succeeded();
        event(&outcome.out[0])["state"].clone()
    }
}

#[test]
fn booked_copy_uses_its_traffic_class_and_removes_it() {
    let name = "booked_copy_uses_its_traffic_class_and_removes_it";
    let Some(shaped) = Shaped::start(name) else {
        return;
    };
    let before = shaped.tc("qdisc");
    let source = shaped.far.near.file("source", BYTES);
    let (seen, sent) = shaped.watched(source.to_str().unwrap());
    // nothing is left
    becomes_true("the wire is as it was", || shaped.tc("qdisc") == before);
    assert_eq!(shaped.tc("class"), "");
    assert_eq!(shaped.tc("filter"), "");
    // on a busy machine a copy may miss its time, and its rest is sent by TCP
    let is_circuit = |class: &str| !["4c48:1", "4c48:ffff"].contains(&class);
    let circuit = most(&seen, ("Sent", ""), &is_circuit);
    let backlog = most(&seen, ("backlog", "b"), &is_circuit);
    println!(
        "{sent} of {BYTES} as datagrams, {circuit} through its class, which had a backlog of {backlog}"
    );
    assert!(sent > BYTES / 20, "{sent} of {BYTES} left as datagrams");
    assert!(
        circuit > sent / 10 * 9,
        "{circuit} of {sent} went through its class"
    );
    assert!(seen.iter().any(|line| line.contains("rate 60Mbit")));
    // the class counts Ethernet headers; a sender that does not is ahead of it, here by 27 kB at the end
    assert!(backlog < 8000, "{backlog} octets waited in the class");
}

impl Shaped {
    /// Copies `source`. Returns the observed classes of the wire, and the bytes that were sent as datagrams.
    fn watched(&self, source: &str) -> (Vec<String>, u64) {
        let look =
            format!("for nth in $(seq 1500); do tc -s class show dev {WIRE}; sleep 0.02; done");
        let looking = Running::start(self.on_first("sh", &["-c", &look]));
        let copy = Running::start(self.copy(source));
        let done = assert_valid(&copy.finish().assert_succeeded());
        let copied = self.far.target.join("copy");
        assert!(fs::read(&copied).unwrap() == fs::read(source).unwrap());
        let of = |kind: &str| done.iter().find(|event| event["type"] == kind).unwrap();
        assert_eq!(of("start")["protocol"], "vbtp");
        assert_eq!(self.state(&of("booked")["reservation"]), "released");
        looking.signal("TERM");
        let number = |kind: &str, name: &str| of(kind)[name].as_u64().unwrap();
        let sent = number("summary", "packets") * number("start", "packet_bytes");
        (looking.finish().out, sent)
    }
}

/// Returns the largest number behind a name in the statistics of classes.
fn most(seen: &[String], (name, unit): (&str, &str), is_meant: &dyn Fn(&str) -> bool) -> u64 {
    let mut most = 0;
    let mut meant = false;
    for line in seen {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("class"), Some("htb"), Some(class)) => meant = is_meant(class),
            (Some(first), Some(number), _) if meant && first == name => {
                let number = number.strip_suffix(unit).unwrap();
                most = most.max(number.parse().unwrap_or(u64::MAX));
            }
            _ => {}
        }
    }
    most
}

const URL: &str = "http://127.0.0.1:4811";
