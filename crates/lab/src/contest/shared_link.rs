//! Link of the lab that flows share.

use std::time::Duration;

use lighthaul_base::Rate;

use crate::settings::LinkSettings;

/// Link from host `a` to host `b`, with equal properties in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLink {
    /// Rate of the link.
    pub rate: Rate,
    /// Round-trip time.
    pub rtt: Duration,
    /// Minimum size of the queue, in packets of 1500 bytes. The queue holds the product of rate and RTT if that is
    /// more.
    pub queue_packets_min: u32,
}

impl SharedLink {
    /// Returns the settings of the link in a lab.
    pub(super) fn settings(&self) -> LinkSettings {
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

/// Length of a packet on the wire, in bytes.
pub(crate) const WIRE_LEN: u32 = 1500;
