//! Link of the lab that flows share.

use std::net::Ipv4Addr;
use std::thread;
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::clock::Clock;
use lighthaul_io::wait::wait;

use super::flow::{Flow, Meter};
use crate::description::Description;
use crate::emulate::Lab;
use crate::error::{Error, Result};
use crate::settings::{LinkSettings, Settings};

/// Link from host `a` to host `b`, with equal properties in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLink {
    /// Rate of the link.
    pub rate: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Least size of its queue, in packets of 1500 bytes. The queue holds the product of rate and
    /// RTT if that is more.
    pub queue_packets_min: u32,
}

/// Running lab of two hosts.
#[derive(Debug)]
pub(crate) struct HostPair {
    pub(crate) lab: Lab,
    /// Clock that starts with the lab.
    pub(crate) clock: Clock,
}

impl SharedLink {
    /// Runs `flows` for `time`. Returns the bytes that each has carried by the end of every
    /// interval.
    pub fn run(&self, flows: &[Flow], time: Duration, interval: Duration) -> Result<Vec<Vec<u64>>> {
        let watch = |hosts: &HostPair, meters: &[Meter]| {
            let ends = time.as_nanos().div_ceil(interval.as_nanos().max(1)) as u32;
            let ends = (1..=ends).map(|nth| interval * nth);
            ends.map(|end| {
                hosts.wait(end)?;
                Ok(meters.iter().map(Meter::bytes).collect())
            })
            .collect()
        };
        self.run_beside(flows, watch)
    }

    /// Runs `flows` while `work` runs.
    pub(crate) fn run_beside<T>(
        &self,
        flows: &[Flow],
        work: impl FnOnce(&HostPair, &[Meter]) -> Result<T>,
    ) -> Result<T> {
        let hosts = HostPair::new(self.link())?;
        let meters: Vec<Meter> = flows.iter().map(|_| Meter::default()).collect();
        thread::scope(|scope| {
            let runners: Vec<_> = flows
                .iter()
                .zip(&meters)
                .map(|(flow, meter)| scope.spawn(|| flow.run(&hosts, self, meter)))
                .collect();
            let done = work(&hosts, &meters);
            meters.iter().for_each(Meter::end);
            for runner in runners {
                runner.join().unwrap_or_else(|panic| {
                    std::panic::resume_unwind(panic);
                })?;
            }
            done
        })
    }

    fn link(&self) -> LinkSettings {
        let mut link = LinkSettings {
            rtt: Some(format!("{}ns", self.rtt.as_nanos())),
            ..LinkSettings::default()
        };
        let queue = u64::from(self.queue_packets_min * WIRE_LEN);
        let queue = queue.max(self.rate.bytes_in(self.rtt));
        link.both.rate = Some(format!("{}b/s", self.rate.as_bps()));
        link.both.queue = Some(format!("{queue}B"));
        link
    }
}

impl HostPair {
    /// Starts two hosts with this link between them.
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

/// Names of the sending and the receiving host.
pub(crate) const SOURCE: &str = "a";
pub(crate) const TARGET: &str = "b";
/// Length of a packet on the wire, in bytes.
pub(crate) const WIRE_LEN: u32 = 1500;
