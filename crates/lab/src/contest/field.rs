//! A link of the lab while flows share it.

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

/// The link: from host `a` to host `b`, and the same back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its rate.
    pub rate: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Packets that its queue holds at least; what rate and RTT multiply to, if that is more.
    pub queue_packets_min: u32,
}

/// Two hosts that are there.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) lab: Lab,
    /// Began with it.
    pub(crate) clock: Clock,
}

impl Field {
    /// Runs `flows` for `time`; answers what each had carried by the end of every interval, in bytes.
    pub fn run(&self, flows: &[Flow], time: Duration, interval: Duration) -> Result<Vec<Vec<u64>>> {
        let watch = |site: &Site, meters: &[Meter]| {
            let ends = time.as_nanos().div_ceil(interval.as_nanos().max(1)) as u32;
            let ends = (1..=ends).map(|nth| interval * nth);
            ends.map(|end| {
                site.wait(end)?;
                Ok(meters.iter().map(Meter::bytes).collect())
            })
            .collect()
        };
        self.run_beside(flows, watch)
    }

    /// Runs `flows` for as long as `work` takes.
    pub(crate) fn run_beside<T>(
        &self,
        flows: &[Flow],
        work: impl FnOnce(&Site, &[Meter]) -> Result<T>,
    ) -> Result<T> {
        let site = Site::new(self.link())?;
        let meters: Vec<Meter> = flows.iter().map(|_| Meter::default()).collect();
        thread::scope(|scope| {
            let runners: Vec<_> = flows
                .iter()
                .zip(&meters)
                .map(|(flow, meter)| scope.spawn(|| flow.run(&site, self, meter)))
                .collect();
            let done = work(&site, &meters);
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

impl Site {
    /// Two hosts with this link between them.
    pub(crate) fn new(link: LinkSettings) -> Result<Self> {
        Ok(Self {
            lab: Lab::start(&Description::new(&Settings::pair(link, None))?)?,
            clock: Clock::start(),
        })
    }

    /// Waits until `time` after the beginning.
    pub(crate) fn wait(&self, time: Duration) -> Result<()> {
        wait(self.clock, &mut [], Instant::ZERO + time).map_err(Error::world("wait"))
    }

    /// The address of the host that receives.
    pub(crate) fn target(&self) -> Result<Ipv4Addr> {
        self.lab.address(TARGET)
    }
}

/// The hosts that send and receive.
pub(crate) const SOURCE: &str = "a";
pub(crate) const TARGET: &str = "b";
/// A packet on the wire.
pub(crate) const WIRE_LEN: u32 = 1500;
