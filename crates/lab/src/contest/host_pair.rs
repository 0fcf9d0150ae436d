//! Two hosts of a running lab.

use std::net::Ipv4Addr;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::wait;

use crate::description::Description;
use crate::emulate::Lab;
use crate::error::{Error, Result};
use crate::settings::{LinkSettings, Settings};

/// Running lab of two hosts.
#[derive(Debug)]
pub(crate) struct HostPair {
    pub(crate) lab: Lab,
    /// Clock that starts with the lab.
    pub(crate) clock: Clock,
}

impl HostPair {
    /// Starts two hosts that `link` connects.
    pub(crate) fn new(link: LinkSettings) -> Result<Self> {
        Ok(Self {
            lab: Lab::start(&Description::new(&Settings::pair(link, None))?)?,
            clock: Clock::start(),
        })
    }

    /// Waits until `time` after the start.
    pub(crate) fn wait(&self, time: Duration) -> Result<()> {
        wait(self.clock, &mut [], Instant::ZERO + time).map_err(Error::world("wait"))
    }

    /// Returns the address of the receiving host.
    pub(crate) fn target(&self) -> Result<Ipv4Addr> {
        self.lab.address(TARGET)
    }
}

/// Name of the sending host.
pub(crate) const SOURCE: &str = "a";
/// Name of the receiving host.
pub(crate) const TARGET: &str = "b";
