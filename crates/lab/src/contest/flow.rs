//! Flow of a contest, and the meter of its bytes.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use lighthaul_proto::sabul::Mode;

use super::shared_link::{HostPair, SharedLink};
use super::{machines, tcp};
use crate::error::Result;

/// Protocol of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowProtocol {
    /// SABUL's machines in this mode.
    Sabul(Mode),
    /// The kernel's TCP with this congestion control.
    Tcp(String),
}

/// Flow from the first host to the second.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Protocol of the flow.
    pub protocol: FlowProtocol,
    /// Start time of the flow.
    pub start: Duration,
}

/// Bytes that a flow has carried, and its signal to end.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    is_over: AtomicBool,
}

impl FromStr for FlowProtocol {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "sabul" => Ok(Self::Sabul(Mode::Paper)),
            "sabul-swift" => Ok(Self::Sabul(Mode::Swift)),
            "reno" | "bbr" | "cubic" => Ok(Self::Tcp(text.into())),
            other => Err(format!(
                "unknown protocol {other:?}: use sabul, sabul-swift, reno, bbr or cubic"
            )),
        }
    }
}

impl Flow {
    /// Runs the flow until `meter` signals its end.
    pub(crate) fn run(&self, hosts: &HostPair, link: &SharedLink, meter: &Meter) -> Result<()> {
        hosts.wait(self.start)?;
        if meter.is_over() {
            return Ok(());
        }
        match &self.protocol {
            FlowProtocol::Sabul(mode) => machines::sabul(hosts, link, *mode, meter),
            FlowProtocol::Tcp(congestion) => tcp::run(hosts, congestion, meter),
        }
    }
}

impl Meter {
    /// Sets the total of bytes received.
    pub(crate) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    /// Adds bytes received.
    pub(crate) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the total of bytes received.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Signals the flow to end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Reports whether the flow must end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }
}
