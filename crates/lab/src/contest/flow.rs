//! One flow of a contest, and what it has carried.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lighthaul_proto::sabul::Mode;

use super::field::{Field, Site};
use super::{machines, tcp};
use crate::error::Result;

/// Who carries a flow from the first host to the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SABUL's machines, by these rules.
    Sabul(Mode),
    /// The kernel's TCP, with the congestion control of this name.
    Tcp(String),
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Who carries it.
    pub kind: Kind,
    /// When it begins.
    pub start: Duration,
}

/// What a flow has carried so far, and whether it shall end.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sabul" => Ok(Self::Sabul(Mode::Paper)),
            "sabul-swift" => Ok(Self::Sabul(Mode::Swift)),
            "reno" | "bbr" | "cubic" => Ok(Self::Tcp(text.into())),
            other => Err(format!(
                "{other:?} carries no flow; sabul, sabul-swift, reno, bbr and cubic do"
            )),
        }
    }
}

impl Flow {
    /// Runs until `meter` says that it is over.
    pub(crate) fn run(&self, site: &Site, field: &Field, meter: &Meter) -> Result<()> {
        site.wait(self.start)?;
        if meter.is_over() {
            return Ok(());
        }
        match &self.kind {
            Kind::Sabul(mode) => machines::sabul(site, field, *mode, meter),
            Kind::Tcp(congestion) => tcp::run(site, congestion, meter),
        }
    }
}

impl Meter {
    /// Notes what has come by now.
    pub(crate) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    /// Notes what has come more.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// What has come so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Lets the flow end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether the flow shall end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }
}
