//! One lab at a time, or a test that is skipped by name.

use std::fs::{File, OpenOptions};

use lighthaul_lab::description::Description;
use lighthaul_lab::emulate::{Lab, available};
use lighthaul_testkit::lacks;

/// A lab that no other test runs beside.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The lab.
    pub(crate) lab: Lab,
    _turn: File,
}

impl Stage {
    /// Hosts `a` and `b` and a link of these properties, or nothing if there can be no lab here.
    pub(crate) fn pair(test: &str, properties: &str) -> Option<Self> {
        let hosts = "host = [{ name = \"a\" }, { name = \"b\" }]";
        Self::start(
            test,
            &format!("{hosts}\n[[link]]\nbetween = [\"a\", \"b\"]\n{properties}"),
        )
    }

    /// The lab that `description` describes, or nothing if there can be none here.
    pub(crate) fn start(test: &str, description: &str) -> Option<Self> {
        if is_skipped(test) {
            return None;
        }
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/lab.lock");
        let turn = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        turn.lock().unwrap();
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

/// Whether there can be no lab here, or no mounts.
pub(crate) fn is_skipped(test: &str) -> bool {
    lacks(test, available())
}
