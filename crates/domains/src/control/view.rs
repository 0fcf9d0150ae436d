//! Domain, its links and its paths as data for programs.

use std::collections::BTreeMap;

use lighthaul_domain_links::LinkStatus;
use lighthaul_io::host::wall_clock::wall_now;
use lighthaul_stargate::{DomainId, Hop, PortId, Stage, StoredReservation};
use serde::{Deserialize, Serialize};

use super::endpoint::Endpoint;
use super::path_id::PathId;
use crate::config::DomainConfig;
use crate::service::{ReservationStatus, Status};

/// Domain with its links and paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusView {
    /// Number of the domain.
    pub domain: u32,
    /// Name of the domain.
    pub name: String,
    /// Key of the domain, which neighbors pin.
    pub key: String,
    /// Number of starts with the present store.
    pub epoch: u64,
    /// Neighbors.
    pub neighbors: Vec<NeighborView>,
    /// Published links between domains.
    pub links: Vec<LinkView>,
    /// Names of end points, each with `DOMAIN:PORT`.
    pub endpoints: BTreeMap<String, String>,
    /// Paths through this domain.
    pub paths: Vec<PathView>,
    /// Requests that wait for their outcome.
    pub requests: usize,
    /// Messages that the machine ignored.
    pub ignored: u64,
}

/// Neighbor and the link to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighborView {
    /// Number of the domain.
    pub domain: u32,
    /// Name of the neighbor.
    pub name: String,
    /// True if the neighbor has authenticated itself and sent its greeting.
    pub connected: bool,
    /// Connections since the start.
    pub connections: u64,
    /// Messages to the neighbor.
    pub sent: u64,
    /// Messages from the neighbor.
    pub received: u64,
    /// Messages to the neighbor that were dropped.
    pub dropped: u64,
    /// Time in nanoseconds by which the clock of the neighbor was ahead at its last message; absent before a message.
    pub clock_offset_ns: Option<i64>,
    /// Last fault of the link.
    pub fault: Option<String>,
}

/// Published link between two domains, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkView {
    /// Border point.
    pub port: u32,
    /// Domain at the start.
    pub from: u32,
    /// Domain at the end.
    pub to: u32,
    /// Cost for path selection.
    pub cost: u32,
}

/// Path through this domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathView {
    /// ID of the request.
    pub id: PathId,
    /// Domain that requested the path.
    pub source: u32,
    /// Sequence number of the attempt.
    pub attempt: u8,
    /// Stage in this domain, as in `committed`.
    pub stage: String,
    /// Domains in order; with protection, two lists.
    pub legs: Vec<Vec<HopView>>,
    /// Rates over time; empty for a path that takes no capacity.
    pub steps: Vec<StepView>,
    /// Leg of a protected path that has failed; the other leg carries the data.
    pub lost: Option<LostLegView>,
    /// Present rates; absent if the path has no rate now.
    #[serde(default)]
    pub now: Option<NowView>,
    /// Time in which an increase carries nothing, in nanoseconds; zero in domains that did not request the path.
    pub guard_ns: u64,
}

/// Present rates of a path, in bits per second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NowView {
    /// Rate that is committed.
    pub due_bps: u64,
    /// Rates that the devices of this domain carry, one for each leg; absent if a rate is not known.
    pub carried_bps: Vec<Option<u64>>,
}

/// Leg of a protected path that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostLegView {
    /// Index of the leg.
    pub leg: u8,
    /// Reason for which the leg was lost.
    pub why: String,
}

/// Domain of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HopView {
    /// Number of the domain.
    pub domain: u32,
    /// Name of the domain, if this domain knows it.
    pub name: Option<String>,
    /// Port at which the path enters the domain; absent for domains upstream of the local domain.
    pub ingress: Option<u32>,
    /// Port at which the path leaves the domain; absent for domains upstream of the local domain.
    pub egress: Option<u32>,
}

/// Rate during a range of time, in nanoseconds since 1970 and bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepView {
    /// Start.
    pub from: u64,
    /// End.
    pub till: u64,
    /// Rate.
    pub rate_bps: u64,
}

impl StatusView {
    /// Returns the data of a status.
    pub fn new(config: &DomainConfig, status: &Status) -> Self {
        let neighbor = |(id, link): (&DomainId, &LinkStatus)| NeighborView {
            domain: id.0,
            name: name_of(config, *id).unwrap_or_default(),
            connected: link.is_connected,
            connections: link.connections,
            sent: link.sent,
            received: link.received,
            dropped: link.dropped,
            clock_offset_ns: link.clock_offset_ns,
            fault: link.fault.as_ref().map(ToString::to_string),
        };
        let links = config.topology.links().map(|link| LinkView {
            port: link.port.0,
            from: link.from.0,
            to: link.to.0,
            cost: link.cost,
        });
        let name = |(name, at): (&String, &Endpoint)| (name.clone(), at.to_string());
        let paths = status.reservations.iter();
        Self {
            domain: status.me.0,
            name: status.name.clone(),
            key: status.key.to_string(),
            epoch: status.epoch,
            neighbors: status.links.iter().map(neighbor).collect(),
            links: links.collect(),
            endpoints: config.endpoints.iter().map(name).collect(),
            paths: paths.map(|one| PathView::new(config, one)).collect(),
            requests: status.requests,
            ignored: status.ignored,
        }
    }
}

impl PathView {
    /// Returns the data of a reservation.
    pub(super) fn new(config: &DomainConfig, status: &ReservationStatus) -> Self {
        let stored = &status.stored;
        let is_open = match status.stage {
            Stage::Holding | Stage::Held | Stage::Committing | Stage::Committed => true,
            Stage::Closing | Stage::Closed => false,
        };
        let steps = stored.vector.steps().iter().filter(|_| is_open);
        let steps = steps.map(|step| StepView {
            from: step.from.as_nanos(),
            till: step.till.as_nanos(),
            rate_bps: step.rate.as_bps(),
        });
        Self {
            id: PathId(stored.key.id),
            source: stored.key.source.0,
            attempt: stored.key.attempt,
            stage: stage_name(status.stage).to_owned(),
            legs: legs(config, status),
            steps: steps.collect(),
            lost: stored.lost.map(|lost| LostLegView {
                leg: lost.leg,
                why: lost.refusal.to_string(),
            }),
            now: now_view(status),
            guard_ns: stored.guard.as_nanos() as u64,
        }
    }

    /// Returns the data of a path that could be reserved.
    pub(super) fn offered(config: &DomainConfig, planned: StoredReservation) -> Self {
        let status = ReservationStatus {
            stage: Stage::Holding,
            stored: planned,
            carried: Vec::new(),
        };
        Self {
            stage: OFFERED.to_owned(),
            ..Self::new(config, &status)
        }
    }

    /// Returns true if the path is a preview, which is not reserved.
    pub fn is_offered(&self) -> bool {
        self.stage == OFFERED
    }

    /// Returns true if the path takes capacity.
    pub fn is_held(&self) -> bool {
        !["closing", "closed", OFFERED].contains(&self.stage.as_str())
    }
}

/// Returns the present rates of a committed path that has begun and has not ended.
fn now_view(status: &ReservationStatus) -> Option<NowView> {
    let due = status.stored.vector.rate_at(wall_now());
    let due = due.filter(|_| status.stage == Stage::Committed)?;
    Some(NowView {
        due_bps: due.as_bps(),
        carried_bps: status.carried.clone(),
    })
}

/// Returns the domains of each leg, in the order of the path.
fn legs(config: &DomainConfig, status: &ReservationStatus) -> Vec<Vec<HopView>> {
    let stored = &status.stored;
    let before = stored.trace.iter().filter(|domain| **domain != config.me());
    let before = before.map(|domain| hop(config, *domain, None));
    let before: Vec<HopView> = before.collect();
    let legs = stored.segments.iter().enumerate().map(|(nth, segment)| {
        let own = hop(config, config.me(), Some((segment.ingress, segment.egress)));
        let children = stored.legs().filter(|(leg, _)| *leg == nth);
        let hops = children.flat_map(|(_, child)| &child.hops);
        let after = hops.map(|Hop { domain, segment }| {
            hop(config, *domain, Some((segment.ingress, segment.egress)))
        });
        before.iter().cloned().chain([own]).chain(after).collect()
    });
    legs.collect()
}

fn hop(config: &DomainConfig, domain: DomainId, ports: Option<(PortId, PortId)>) -> HopView {
    HopView {
        domain: domain.0,
        name: name_of(config, domain),
        ingress: ports.map(|(ingress, _)| ingress.0),
        egress: ports.map(|(_, egress)| egress.0),
    }
}

fn name_of(config: &DomainConfig, domain: DomainId) -> Option<String> {
    if domain == config.me() {
        return Some(config.name.clone());
    }
    let neighbor = config.neighbors.get(&domain);
    neighbor.map(|neighbor| neighbor.name.clone())
}

const fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Holding => "holding",
        Stage::Held => "held",
        Stage::Committing => "committing",
        Stage::Committed => "committed",
        Stage::Closing => "closing",
        Stage::Closed => "closed",
    }
}

/// Stage of a preview.
const OFFERED: &str = "offered";
