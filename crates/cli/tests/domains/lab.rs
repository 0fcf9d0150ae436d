//! Three domains in a chain between two hosts, each with another kind of device.
//!
//! ```text
//!  a --veth0-- one --veth1-- two --veth2-- three --veth3-- b
//!              HTB at veth1  TL1 switch    program: TBF at veth3
//! ```
//!
//! Packets pass `two` only while its switch has a cross-connect, and `three` only while its program has a circuit.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{Turn, lacks_tool};
use serde_json::Value;

use crate::emulator::{Emulator, Vendor};
use crate::far::Far;
use crate::running::{Outcome, Running, becomes_true, event};
use crate::stage::Stage;
use crate::transcript::Transcript;

/// Names of the hosts of the domains.
pub(crate) const DOMAINS: [&str; 3] = ["one", "two", "three"];

/// Running domains, the hosts at both ends, and a daemon on the second one.
pub(crate) struct Domains {
    pub(crate) services: Vec<Running>,
    pub(crate) switch: Emulator,
    pub(crate) gate: Gate,
    pub(crate) far: Far,
    pub(crate) transcript: Transcript,
}

/// Light of the switch: it lets packets of `two` pass while there is a cross-connect.
pub(crate) struct Gate {
    stop: Arc<AtomicBool>,
    closings: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Domains {
    /// Starts everything, or returns `None` if this machine allows no lab.
    pub(crate) fn start(name: &str) -> Option<Self> {
        Self::start_in(name, Turn::beside_others)
    }

    /// Does the same while only quiet tests run.
    pub(crate) fn start_quiet(name: &str) -> Option<Self> {
        Self::start_in(name, Turn::quiet)
    }

    fn start_in(name: &str, turn: fn() -> Turn) -> Option<Self> {
        if lacks_tool(name, "jq") || lacks_tool(name, "tc") {
            return None;
        }
        let beside = CHAIN.map(|host| MANAGEMENT.replace("HOST", host));
        let stage = Stage::start_in(name, &(LAB.to_owned() + &beside.concat()), turn)?;
        route(&stage);
        let switch = stage
            .lab
            .within("two", || Ok(Emulator::start(Vendor::Calient)));
        let switch = switch.unwrap();
        let gate = stage
            .lab
            .within("two", || Ok(Gate::start(&switch)))
            .unwrap();
        let mut domains = Self {
            services: Vec::new(),
            far: Far::start_on(name, stage),
            switch,
            gate,
            transcript: Transcript::default(),
        };
        domains.configure();
        for host in DOMAINS {
            let service = domains.launch(host);
            domains.services.push(service);
        }
        becomes_true("all neighbors are connected", || {
            DOMAINS.iter().all(|host| {
                let neighbors = domains.status(host)["neighbors"].clone();
                let neighbors = neighbors.as_array().unwrap();
                neighbors.iter().all(|one| one["connected"] == true)
            })
        });
        Some(domains)
    }

    /// Starts the service of a domain, and waits until it is ready.
    pub(crate) fn launch(&self, host: &str) -> Running {
        let near = &self.far.near;
        let lab = &near.stage.as_ref().unwrap().lab;
        let mut serve = lab.command(host, env!("CARGO_BIN_EXE_lighthaul")).unwrap();
        serve.args(["domains", "serve", "--config"]);
        serve.arg(near.at(&format!("{host}.toml")));
        serve.arg("--socket").arg(self.socket(host));
        let mut service = Running::start(serve);
        service.says("answering `lighthaul path`");
        service
    }

    /// Returns the socket of the service of a domain.
    pub(crate) fn socket(&self, host: &str) -> PathBuf {
        self.far.near.at(&format!("{host}.sock"))
    }

    /// Runs `lighthaul` with words for the service of a domain.
    pub(crate) fn ask(&self, host: &str, words: &[&str]) -> Outcome {
        let near = &self.far.near;
        let mut command = near.lighthaul(words);
        command.arg("--socket").arg(self.socket(host));
        near.run(command)
    }

    /// Runs a command of the first domain, prints both and returns the output.
    pub(crate) fn show(&self, words: &[&str]) -> Vec<String> {
        let command = format!("$ lighthaul {}", words.join(" "));
        self.transcript.say(&command);
        self.show_output("one", words)
    }

    /// Does the same for another domain.
    pub(crate) fn show_at(&self, host: &str, words: &[&str]) -> Vec<String> {
        let command = format!("$ lighthaul {} --socket {host}.sock", words.join(" "));
        self.transcript.say(&command);
        self.show_output(host, words)
    }

    fn show_output(&self, host: &str, words: &[&str]) -> Vec<String> {
        let out = self.ask(host, words).assert_succeeded().out;
        self.transcript.say(&out.join("\n"));
        out
    }

    /// Returns the status of a domain.
    pub(crate) fn status(&self, host: &str) -> Value {
        let outcome = self.ask(host, &["domains", "status", "--json"]);
        event(&outcome.assert_succeeded().out[0])
    }

    /// Returns the paths that take capacity in a domain: ID, stage and rates over time of each.
    pub(crate) fn book(&self, host: &str) -> Vec<Value> {
        let paths = self.status(host)["paths"].as_array().unwrap().clone();
        let is_held =
            |path: &Value| !["closing", "closed"].contains(&path["stage"].as_str().unwrap());
        let held = paths.into_iter().filter(is_held);
        let entry = |path: Value| serde_json::json!([path["id"], path["stage"], path["steps"]]);
        held.map(entry).collect()
    }

    /// Runs a tool on a host of the lab, and returns its output.
    pub(crate) fn on(&self, host: &str, tool: &str, words: &[&str]) -> Outcome {
        let lab = &self.far.near.stage.as_ref().unwrap().lab;
        let mut command = lab.command(host, tool).unwrap();
        command.args(words);
        self.far.near.run(command)
    }

    /// Returns true if a packet from `a` reaches `b` and an answer comes back.
    pub(crate) fn is_open(&self) -> bool {
        let script = "exec 3<>/dev/tcp/\"$0\"/\"$1\"";
        let port = self.far.port.to_string();
        let words = ["1", "bash", "-c", script, "b", &port];
        self.on("a", "timeout", &words).code == Some(0)
    }

    /// Returns the rates in bits per second that the program of `three` has.
    pub(crate) fn program_rates(&self) -> Vec<u64> {
        let text = fs::read_to_string(self.far.near.at("driver.json")).unwrap_or_default();
        let circuits: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        circuits
            .iter()
            .map(|one| one["rate_bps"].as_u64().unwrap())
            .collect()
    }

    /// Writes the configurations of all domains, the switch and the program.
    fn configure(&self) {
        let near = &self.far.near;
        let lab = &near.stage.as_ref().unwrap().lab;
        let address = |host: &str| lab.address(host).unwrap().to_string();
        let write = |name: &str, text: &str| fs::write(near.at(name), text).unwrap();
        for host in DOMAINS {
            write("key.toml", &format!("key = \"{host}.key\"\n"));
            let mut key = near.lighthaul(&["domains", "serve", "--show-key", "--config"]);
            key.arg(near.at("key.toml"));
            write(host, &near.run(key).assert_succeeded().out.concat());
        }
        write("login", "ada\nsecret\n");
        let records = near.folder("records");
        let pairs = (0..4).map(|nth| format!("[\"1.1.{nth}\", \"2.1.{nth}\"]"));
        let pairs: Vec<String> = pairs.collect();
        let switch = format!(
            "address = \"{}\"\ndialect = \"calient\"\ndirection = \"two-way\"\nlogin = \"{}\"\nrecords = \"{}\"\n\
             channel_rate = \"20Mb/s\"\nreconfiguration = \"10ms\"\n[interfaces]\nwan = [{}]\n",
            self.switch.address(),
            near.at("login").display(),
            records.display(),
            pairs.join(", ")
        );
        write("switch.toml", &switch);
        write("driver.sh", DRIVER);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(near.at("driver.sh"), mode).unwrap();
        let program = near.at("driver.sh");
        let devices = [
            "interface = \"veth1\"\ncapacity = \"100Mb/s\"".to_owned(),
            "interface = \"wan\"\nswitch = \"switch.toml\"".to_owned(),
            format!("interface = \"1/1/3\"\nprogram = \"{}\"", program.display()),
        ];
        for (nth, device) in devices.iter().enumerate() {
            let (me, host) = (nth + 1, DOMAINS[nth]);
            let mut text = format!(
                "domain = {me}\nname = \"{host}\"\nlisten = \"0.0.0.0:7450\"\nkey = \"{host}.key\"\nstore = \"{host}.db\"\n\
                 {TIMING}\n[[device]]\n{device}\n"
            );
            let ports = [[101, 12], [12, 23], [23, 103]][nth];
            for port in ports {
                let channel = if me == 2 { "20Mb/s" } else { "1Mb/s" };
                write!(text, "[[port]]\nnumber = {port}\nnode = \"core\"\ncapacity = \"80Mb/s\"\nchannel = \"{channel}\"\n").unwrap();
            }
            let interface = device.split('"').nth(1).unwrap();
            let (ingress, egress) = (ports[0], ports[1]);
            let flow = format!("{}/32", address("b"));
            write!(text, "[[circuit]]\ningress = {ingress}\negress = {egress}\ninterface = \"{interface}\"\nflow = \"{flow}\"\n").unwrap();
            for (other, neighbor) in DOMAINS.iter().enumerate() {
                if other.abs_diff(nth) == 1 {
                    let key = fs::read_to_string(near.at(neighbor)).unwrap();
                    let (number, address) = (other + 1, address(neighbor));
                    write!(text, "[[neighbor]]\ndomain = {number}\nname = \"{neighbor}\"\nkey = \"{key}\"\naddress = \"{address}:7450\"\n").unwrap();
                }
            }
            text += LINKS;
            write(&format!("{host}.toml"), &text);
        }
    }
}

/// Sends SIGTERM to a service on a host of the lab: the grandchild of the process that keeps its host.
pub(crate) fn terminate(service: &Running) {
    let child = child_of(&child_of(&service.id().to_string()));
    let status = Command::new("kill").args(["-s", "TERM", &child]).status();
    assert!(status.unwrap().success());
}

fn child_of(parent: &str) -> String {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut children = processes.filter_map(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        // after the name: state and parent
        let is_it = stat.rsplit(')').next()?.split_whitespace().nth(1) == Some(parent);
        is_it.then(|| process.file_name().to_string_lossy().into_owned())
    });
    children
        .next()
        .unwrap_or_else(|| panic!("process {parent} has no child"))
}

/// Makes each host reach all others along the chain.
fn route(stage: &Stage) {
    let address = |host: &str| stage.lab.address(host).unwrap();
    for (nth, host) in CHAIN.iter().enumerate() {
        let mut script =
            "for f in all default; do echo 0 > /proc/sys/net/ipv4/conf/$f/rp_filter; done; "
                .to_owned();
        for (other, far) in CHAIN.iter().enumerate() {
            if other.abs_diff(nth) < 2 {
                continue;
            }
            let (next, link) = if other > nth {
                (nth + 1, nth)
            } else {
                (nth - 1, nth - 1)
            };
            let (far, next, own) = (address(far), address(CHAIN[next]), address(host));
            write!(
                script,
                "ip route replace {far}/32 via {next} dev veth{link} src {own} && "
            )
            .unwrap();
        }
        // the devices of two and three decide what passes there
        let forwards = u8::from(*host == "one");
        write!(script, "echo {forwards} > /proc/sys/net/ipv4/ip_forward").unwrap();
        assert!(
            stage
                .lab
                .run(host, &["sh", "-c", &script])
                .unwrap()
                .success()
        );
    }
}

impl Gate {
    /// Starts the thread, in the namespace of the caller.
    fn start(switch: &Emulator) -> Self {
        let (stop, closings) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, closed, switch) = (Arc::clone(&stop), Arc::clone(&closings), switch.clone());
        let thread = thread::spawn(move || {
            let mut was_open = false;
            while !stopped.load(Ordering::Relaxed) {
                let is_open = !switch.patches().is_empty();
                if is_open != was_open {
                    let text = if is_open { "1" } else { "0" };
                    fs::write("/proc/sys/net/ipv4/ip_forward", text).unwrap();
                    closed.fetch_add(u64::from(was_open), Ordering::Relaxed);
                    was_open = is_open;
                }
                pause(Duration::from_millis(5));
            }
        });
        Self {
            stop,
            closings,
            thread: Some(thread),
        }
    }

    /// Returns the number of times that the light went out.
    pub(crate) fn closings(&self) -> u64 {
        self.closings.load(Ordering::Relaxed)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

const CHAIN: [&str; 5] = ["a", "one", "two", "three", "b"];
const LAB: &str = r#"
host = [{ name = "a" }, { name = "one" }, { name = "two" }, { name = "three" }, { name = "b" }]
router = [{ name = "management" }]
[[link]]
between = ["a", "one"]
kind = "veth"
[[link]]
between = ["one", "two"]
kind = "veth"
segment = true
[[link]]
between = ["two", "three"]
kind = "veth"
[[link]]
between = ["three", "b"]
kind = "veth"
segment = true
"#;
/// Network beside the chain: a lab requires that all hosts reach each other. The routes of the chain take precedence.
const MANAGEMENT: &str =
    "[[link]]\nbetween = [\"HOST\", \"management\"]\nrate = \"100Mb/s\"\nrtt = \"1ms\"\n";
const LINKS: &str = r#"
[[endpoint]]
name = "a"
domain = 1
port = 101
[[endpoint]]
name = "b"
domain = 3
port = 103
[[domain_link]]
port = 12
from = 1
to = 2
both = true
[[domain_link]]
port = 23
from = 2
to = 3
both = true
"#;
/// Short timers, so that a path starts soon. A loaded machine keeps them.
const TIMING: &str = "[timing]\nquery = \"1s\"\nhold = \"2s\"\ndecide = \"1s\"\nretry = \"100ms\"\nrefresh = \"1s\"\nlinger = \"6s\"";
/// Driver that keeps circuits in a file, lets packets pass while there are some, and limits their rate.
const DRIVER: &str = r#"#!/bin/sh
file=${0%.sh}.json; [ -s "$file" ] || echo '[]' > "$file"
enforce() {
    mv "$file.new" "$file"
    rate=$(jq 'map(.rate_bps) | add // 0' "$file")
    if [ "$rate" -gt 0 ]; then
        tc qdisc replace dev veth3 root tbf rate "${rate}bit" burst 100kb latency 200ms
        echo 1 > /proc/sys/net/ipv4/ip_forward
    else
        echo 0 > /proc/sys/net/ipv4/ip_forward
        tc qdisc del dev veth3 root 2> /dev/null || true
    fi
}
while read -r request; do
    case $(echo "$request" | jq -r .verb) in
    hello)
        content='"version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":1000000000,
            "granularity_bps":1000000,"reconfiguration_ns":10000000,"settling_ns":0,"circuits_max":96,
            "counted":{"layer":"ip","overhead_bytes":38}}' ;;
    apply)
        echo "$request" | jq --slurpfile old "$file" '.changes | map({id, flow, rate_bps}) as $new
            | ($old[0] | map(select(.id as $id | $new | all(.id != $id)))) + $new' > "$file.new"
        enforce; content="\"results\":$(echo "$request" | jq -c '[.changes[] | null]')" ;;
    remove)
        jq --argjson id "$(echo "$request" | jq .id)" 'map(select(.id != $id))' "$file" > "$file.new"
        enforce; content='"results":[null]' ;;
    inspect)
        content="\"circuits\":$(jq -c . "$file")" ;;
    esac
    echo "{\"seq\":$(echo "$request" | jq .seq),$content}" | jq -c .
done
"#;
