//! Run of flows that share a link.

use std::thread;
use std::time::Duration;

use super::flow::{Flow, FlowProtocol};
use super::host_pair::HostPair;
use super::meter::Meter;
use super::shared_link::SharedLink;
use super::{machines, tcp};
use crate::error::Result;

/// Runs `flows` over a link for `time`. Returns the bytes that each has carried by the end of every
/// interval.
pub fn run(
    link: &SharedLink,
    flows: &[Flow],
    time: Duration,
    interval: Duration,
) -> Result<Vec<Vec<u64>>> {
    let watch = |hosts: &HostPair, meters: &[Meter]| {
        let ends = time.as_nanos().div_ceil(interval.as_nanos().max(1)) as u32;
        let ends = (1..=ends).map(|nth| interval * nth);
        ends.map(|end| {
            hosts.wait(end)?;
            Ok(meters.iter().map(Meter::bytes).collect())
        })
        .collect()
    };
    run_beside(link, flows, watch)
}

/// Runs `flows` over a link while `work` runs.
pub(crate) fn run_beside<T>(
    link: &SharedLink,
    flows: &[Flow],
    work: impl FnOnce(&HostPair, &[Meter]) -> Result<T>,
) -> Result<T> {
    let hosts = HostPair::new(link.settings())?;
    let meters: Vec<Meter> = flows.iter().map(|_| Meter::default()).collect();
    thread::scope(|scope| {
        let runners: Vec<_> = flows
            .iter()
            .zip(&meters)
            .map(|(flow, meter)| scope.spawn(|| run_flow(flow, &hosts, link, meter)))
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

/// Runs a flow until `meter` signals its end.
fn run_flow(flow: &Flow, hosts: &HostPair, link: &SharedLink, meter: &Meter) -> Result<()> {
    hosts.wait(flow.start)?;
    if meter.is_over() {
        return Ok(());
    }
    match &flow.protocol {
        FlowProtocol::Sabul(mode) => machines::sabul(hosts, link, *mode, meter),
        FlowProtocol::Tcp(congestion) => tcp::run(hosts, congestion, meter),
    }
}
