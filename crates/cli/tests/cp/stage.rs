//! Labs side by side, or alone where a test measures them, or a test that is skipped.

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_testkit::{Turn, lacks};

/// A lab of one test.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The lab.
    pub(crate) lab: Lab,
    _turn: Turn,
}

impl Stage {
    /// Hosts `a` and `b` and a link of these properties, or nothing if there can be no lab here.
    pub(crate) fn pair(test: &str, properties: &str) -> Option<Self> {
        Self::start(test, &hosts(properties))
    }

    /// The same while no other lab is there, for a test that measures rates or times.
    pub(crate) fn pair_alone(test: &str, properties: &str) -> Option<Self> {
        Self::start_in(test, &hosts(properties), Turn::alone)
    }

    /// The lab that `description` describes, or nothing if there can be none here.
    pub(crate) fn start(test: &str, description: &str) -> Option<Self> {
        Self::start_in(test, description, Turn::beside_others)
    }

    fn start_in(test: &str, description: &str, turn: fn() -> Turn) -> Option<Self> {
        if is_skipped(test) {
            return None;
        }
        let turn = turn();
        let lab = Lab::start(&Description::parse(description).unwrap()).unwrap();
        Some(Self { lab, _turn: turn })
    }

    /// Has `host` drop what `matches`, in the words of nftables, on the way in.
    pub(crate) fn block(&self, host: &str, matches: &str) {
        let script = format!(
            "nft add table inet test && \
             nft 'add chain inet test in {{ type filter hook input priority 0; }}' && \
             nft 'add rule inet test in {matches} drop'"
        );
        let status = self.lab.run(host, &["sh", "-c", &script]).unwrap();
        assert!(status.success(), "nft refused {matches:?}");
    }

    /// Has `host` take everything again.
    pub(crate) fn unblock(&self, host: &str) {
        let words = ["nft", "delete", "table", "inet", "test"];
        assert!(self.lab.run(host, &words).unwrap().success());
    }
}

/// Hosts `a` and `b` and a link of these properties.
fn hosts(properties: &str) -> String {
    let hosts = "host = [{ name = \"a\" }, { name = \"b\" }]";
    format!("{hosts}\n[[link]]\nbetween = [\"a\", \"b\"]\n{properties}")
}

/// Returns true if this machine allows no lab or no mounts.
pub(crate) fn is_skipped(test: &str) -> bool {
    lacks(test, available())
}
