//! Two hosts and a link between them.

use std::process::Command;

use lighthaul_base::Rate;
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::{Change, Driver};
use lighthaul_circuit::error::Result;
use lighthaul_circuit::linux::Shaper;
use lighthaul_io::host::namespace::{Namespace, check};
use lighthaul_testkit::{Turn, lacks};

/// Two hosts of one test; the left one has [`INTERFACE`].
#[derive(Debug)]
pub(crate) struct Testbed {
    pub(crate) left: Namespace,
    pub(crate) right: Namespace,
    _turn: Turn,
}

/// Interface of the circuits.
pub(crate) const INTERFACE: &str = "wire";

impl Testbed {
    /// Creates the hosts, or skips the test.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::beside_others)
    }

    /// Creates the hosts while no other test runs, for a test that measures rates or times, or skips the test.
    pub(crate) fn alone(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::alone)
    }

    /// Creates the hosts while only quiet tests run, or skips the test.
    pub(crate) fn quiet(test: &str) -> Option<Self> {
        Self::start_in(test, Turn::quiet)
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

    /// Opens a driver of the left host's interface.
    pub(crate) fn shaper(&self, capacity: u64) -> Result<Shaper> {
        self.open(INTERFACE, capacity)
    }

    /// Opens a driver of any interface of the left host.
    #[expect(
        clippy::unwrap_in_result,
        reason = "the namespace exists for the whole test"
    )]
    pub(crate) fn open(&self, interface: &str, capacity: u64) -> Result<Shaper> {
        let open = || Ok(Shaper::open(interface, Rate::from_mbps(capacity)));
        self.left.within(open).unwrap()
    }

    /// Returns the output of `tc` for the left host's interface.
    pub(crate) fn tc(&self, words: &str) -> String {
        run(&self.left, "tc", words)
    }
}

/// Returns a circuit for TCP to this port, with the vector `trc`.
pub(crate) fn circuit(port: u64, trc: &str) -> Circuit {
    Circuit {
        id: CircuitId(port),
        interface: INTERFACE.to_owned(),
        flow: format!("tcp 10.9.0.2 {port}").parse().unwrap(),
        trc: trc.parse().unwrap(),
    }
}

/// Sets the rate of a circuit in Mb/s; zero closes it.
pub(crate) fn apply(driver: &mut dyn Driver, circuit: &Circuit, mbps: u64) -> Result<()> {
    let rate = Rate::from_bps(mbps * 1_000_000);
    driver
        .apply(&[Change {
            circuit,
            rate,
            timer: None,
        }])
        .pop()
        .unwrap()
}

/// Runs a tool in a host and returns its output.
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
