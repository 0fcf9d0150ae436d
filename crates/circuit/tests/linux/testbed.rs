//! Two hosts and a wire.

use std::process::Command;

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::Result;
use lighthaul_circuit::linux::Shaper;
use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_testkit::{Turn, lacks};

/// Two hosts that nobody else uses; the left one has [`INTERFACE`].
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    _turn: Turn,
}

/// The interface at which circuits are kept.
pub(crate) const INTERFACE: &str = "wire";

impl Testbed {
    /// Sets it up, or skips the test.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::beside_others)
    }

    /// Sets it up while no other is there, for a test that measures rates or times, or skips the test.
    pub(crate) fn alone(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::alone)
    }

    fn start_in(test: &str, turn: fn() -> Turn) -> Option<Self> {
        if lacks(
            test,
            check().map_err(|why| format!("needs namespaces: {why}")),
        ) {
            return None;
        }
        let testbed = Self {
            left: Namespace::create().unwrap(),
            right: Namespace::create().unwrap(),
            _turn: turn(),
        };
        let far = testbed.right.path();
        let far = far.display();
        run(
            &testbed.left,
            "ip",
            &format!("link add {INTERFACE} type veth peer name {INTERFACE} netns {far}"),
        );
        for (host, number) in [(&testbed.left, 1), (&testbed.right, 2)] {
            run(
                host,
                "ip",
                &format!("addr add 10.9.0.{number}/24 dev {INTERFACE}"),
            );
            run(
                host,
                "ip",
                &format!("addr add fd09::{number}/64 dev {INTERFACE} nodad"),
            );
            run(host, "ip", &format!("link set {INTERFACE} up"));
        }
        Some(testbed)
    }

    /// A driver of the left host's interface.
    pub(crate) fn shaper(&self, capacity: u64) -> Result<Shaper> {
        self.open(INTERFACE, capacity)
    }

    /// A driver of any of its interfaces.
    #[expect(
        clippy::unwrap_in_result,
        reason = "the namespace is there, or the test is none"
    )]
    pub(crate) fn open(&self, interface: &str, capacity: u64) -> Result<Shaper> {
        let open = || Ok(Shaper::open(interface, Rate::from_mbps(capacity)));
        self.left.within(open).unwrap()
    }

    /// What `tc` says of the left host's interface.
    pub(crate) fn tc(&self, words: &str) -> String {
        run(&self.left, "tc", words)
    }
}

/// A circuit for TCP to this port, as far into the future as `trc` says.
pub(crate) fn circuit(port: u64, trc: &str) -> Circuit {
    Circuit {
        id: CircuitId(port),
        interface: INTERFACE.to_owned(),
        flow: format!("tcp 10.9.0.2 {port}").parse().unwrap(),
        trc: trc.parse().unwrap(),
    }
}

/// Has `driver` give a circuit this many Mb/s; zero is none.
pub(crate) fn apply(driver: &mut dyn Driver, circuit: &Circuit, mbps: u64) -> Result<()> {
    let rate = Rate::from_bps(mbps * 1_000_000);
    driver.apply(&[Change { circuit, rate }]).pop().unwrap()
}

/// Runs a tool in a host and returns what it says.
pub(crate) fn run(host: &Namespace, tool: &str, words: &str) -> String {
    let mut command = Command::new(tool);
    command
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(words.split_whitespace());
    let output = host.within(|| command.output()).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {words}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}
