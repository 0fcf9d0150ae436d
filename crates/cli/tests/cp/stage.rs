//! Labs of tests: several at a time, or few for a test that measures rates.

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
    /// Returns hosts `a` and `b` with a link of these properties, or `None` if no lab is possible here.
    pub(crate) fn pair(test: &str, properties: &str) -> Option<Self> {
        Self::start(test, &hosts(properties))
    }

    /// Does the same while only quiet tests run, for a test that measures rates or times.
    pub(crate) fn pair_quiet(test: &str, properties: &str) -> Option<Self> {
        Self::start_in(test, &hosts(properties), Turn::quiet)
    }

    /// Returns the lab that `description` describes, or `None` if no lab is possible here.
    pub(crate) fn start(test: &str, description: &str) -> Option<Self> {
        Self::start_in(test, description, Turn::beside_others)
    }

    /// Does the same with a turn of this kind.
    pub(crate) fn start_in(test: &str, description: &str, turn: fn() -> Turn) -> Option<Self> {
        if is_skipped(test) {
            return None;
        }
        let turn = turn();
        let lab = Lab::start(&Description::parse(description).unwrap()).unwrap();
        Some(Self { lab, _turn: turn })
    }

    /// Makes `host` drop arriving packets that match the nftables expression `matches`.
    pub(crate) fn block(&self, host: &str, matches: &str) {
        let script = format!(
            "nft add table inet test && \
             nft 'add chain inet test in {{ type filter hook input priority 0; }}' && \
             nft 'add rule inet test in {matches} drop'"
        );
        let status = self.lab.run(host, &["sh", "-c", &script]).unwrap();
        assert!(status.success(), "nft refused {matches:?}");
    }

    /// Makes `host` accept all packets again.
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
