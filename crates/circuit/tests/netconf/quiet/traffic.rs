//! Packets through a device that has the circuits of the running configuration.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_io::host::wait::pause;
use lighthaul_testkit::{lacks, lacks_tool};

use crate::client::{Client, all, one};
use crate::sending::{OFFERED, send};
use crate::testbed::{Testbed, circuit, set};

/// Bridge between two hosts, whose output to the right host follows a configuration.
struct Bridge {
    left: Namespace,
    right: Namespace,
    middle: Namespace,
}

impl Bridge {
    fn create() -> Self {
        let bridge = Self {
            left: Namespace::create().unwrap(),
            right: Namespace::create().unwrap(),
            middle: Namespace::create().unwrap(),
        };
        bridge.run("ip", "link add br0 type bridge");
        bridge.run("ip", "link set br0 up");
        for (host, port, number) in [(&bridge.left, "pl", 1), (&bridge.right, "pr", 2)] {
            let path = host.path();
            let path = path.display();
            let words = format!("link add {port} type veth peer name wire netns {path}");
            bridge.run("ip", &words);
            bridge.run("ip", &format!("link set {port} master br0 up"));
            run(host, "ip", &format!("addr add 10.9.0.{number}/24 dev wire"));
            run(host, "ip", "link set wire up");
        }
        bridge
    }

    fn run(&self, tool: &str, words: &str) {
        run(&self.middle, tool, words);
    }

    /// Follows the running configuration, as the agent of a router does: a class for each scheduler, and a filter for
    /// each term with a port. Ends when `is_over` is true.
    fn follow(&self, client: &mut Client, is_over: &AtomicBool, turns: &AtomicBool) {
        let mut before = String::new();
        while !is_over.load(Ordering::Relaxed) {
            let running = client.running();
            if running != before {
                self.apply(&running);
                before = running;
            }
            turns.store(true, Ordering::Relaxed);
            pause(Duration::from_millis(20));
        }
    }

    fn apply(&self, running: &str) {
        // it may be the first
        let _ = command(&self.middle, "tc", "qdisc del dev pr root");
        self.run("tc", "qdisc add dev pr root handle 1: htb default 9");
        self.run(
            "tc",
            "class add dev pr parent 1: classid 1:9 htb rate 1gbit",
        );
        for scheduler in all(one(running, "scheduler-policies"), "scheduler") {
            let (minor, queue) = (one(scheduler, "sequence"), one(scheduler, "queue"));
            let rate = one(scheduler, "cir");
            if rate.is_empty() {
                continue;
            }
            let minor: u32 = minor.parse().unwrap();
            self.run(
                "tc",
                &format!("class add dev pr parent 1: classid 1:{minor:x} htb rate {rate}bit ceil {rate}bit burst 4k cburst 4k"),
            );
            let classifiers = all(one(running, "classifiers"), "classifier");
            let open = classifiers
                .iter()
                .filter(|text| one(text, "name") == "lighthaul-ipv4");
            for term in open.flat_map(|text| all(text, "term")) {
                if one(term, "target-group") == queue {
                    let port = one(term, "destination-port");
                    self.run(
                        "tc",
                        &format!("filter add dev pr parent 1: protocol ip u32 match ip dport {port} 0xffff flowid 1:{minor:x}"),
                    );
                }
            }
        }
    }
}

/// Ends the agent, also if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn command(host: &Namespace, tool: &str, words: &str) -> Result<(), String> {
    let mut command = Command::new(tool);
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(words.split_whitespace());
    let output = host.within(|| command.output()).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(complaint)
}

fn run(host: &Namespace, tool: &str, words: &str) {
    let done = command(host, tool, words);
    assert_eq!(done, Ok(()), "{tool} {words}");
}

#[test]
fn packets_of_a_circuit_get_the_committed_rate() {
    let test = "packets_of_a_circuit_get_the_committed_rate";
    if lacks(
        test,
        check().map_err(|why| format!("needs namespaces: {why}")),
    ) || lacks_tool(test, "tc")
    {
        return;
    }
    let Some(testbed) = Testbed::quiet(test) else {
        return;
    };
    let bridge = Bridge::create();
    let (mut driver, mut client) = (testbed.driver("server", "").unwrap(), testbed.client());
    let wanted = circuit(1, "udp 10.9.0.2 5001");
    let (is_over, has_turned) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| bridge.follow(&mut client, &is_over, &has_turned));
        let _end = End(&is_over);
        for mbps in [5, 0, 8] {
            set(&mut driver, &wanted, mbps).unwrap();
            // the second look begins after the commit
            for _ in 0..2 {
                has_turned.store(false, Ordering::Relaxed);
                let clock = Clock::start();
                while !has_turned.load(Ordering::Relaxed) {
                    assert!(clock.now().since(Instant::ZERO) < Duration::from_mins(1));
                    pause(Duration::from_millis(5));
                }
            }
            let found = send([&bridge.left, &bridge.right], &[5001, 5002]);
            println!(
                "circuit at {mbps} Mb/s, offered {OFFERED}: Mb/s, lost datagrams: {found:.2?}"
            );
            let expected = if mbps == 0 { OFFERED } else { mbps };
            let inside = found[0].0 / expected as f64;
            let outside = found[1].0 / OFFERED as f64;
            assert!((0.9..1.1).contains(&inside), "{found:?}");
            assert!((0.9..1.1).contains(&outside), "{found:?}");
        }
    });
}
