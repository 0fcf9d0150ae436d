//! Conversion of requests between the REST interface and the calendar.
//!
//! [`complete`] fills in the defaults, and the completed request is stored. A reservation therefore
//! keeps its meaning when a later version has other defaults. [`read`] names the faulty field, so
//! every error tells what to change.

use std::collections::BTreeSet;
use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_booking_client::json::{self, Bps, NewReservation, Timestamp};
use lighthaul_calendar::{Calendar, Detail, Need, Path, Refusal, Request, Route, Shape, Topology};

use crate::error::{self, RequestError, StoreError, UnknownLink};

/// Fills in defaults, so that the request always means the same. The default highest rate is the
/// capacity of the best path, or `fastest` if that is lower.
pub(super) fn complete(
    new: &NewReservation,
    now: Timestamp,
    calendar: &Calendar,
    fastest: Option<Rate>,
) -> error::Result<NewReservation> {
    let mut full = new.clone();
    full.start = Some(new.start.unwrap_or(now));
    full.priority = Some(new.priority.unwrap_or(0));
    if new.size.is_some() {
        full.margin_percent = Some(new.margin_percent.unwrap_or(MARGIN_PERCENT));
    }
    if new.rate_max.is_none() {
        let limit = fastest.unwrap_or(Rate::UNLIMITED);
        // a rate above every capacity is refused with the highest one
        let fastest = Request {
            rate_max: Rate::UNLIMITED,
            ..read(
                &NewReservation {
                    rate_max: Some(Rate::UNLIMITED.into()),
                    ..full.clone()
                },
                calendar.topology(),
                lighthaul_calendar::Owner(0),
            )?
        };
        full.rate_max = match calendar.quote(now.instant(), &fastest) {
            Err(Refusal::RateTooHigh(most)) => Some(most.min(limit).into()),
            Err(why) => return Err(why.into()),
            Ok(_) => Some(limit.into()),
        };
    }
    Ok(full)
}

/// Converts a complete request.
pub(super) fn read(
    full: &NewReservation,
    topology: &Topology,
    owner: lighthaul_calendar::Owner,
) -> error::Result<Request> {
    let rate_max = rate("rate_max", full.rate_max)?.ok_or(StoreError::MissingField("rate_max"))?;
    Ok(Request {
        owner,
        priority: full.priority.unwrap_or(0),
        route: route(full, topology)?,
        need: need(full)?,
        rate_min: rate("rate_min", full.rate_min)?,
        rate_max,
        from: full
            .start
            .ok_or(StoreError::MissingField("start"))?
            .instant(),
        deadline: full.by.map(Timestamp::instant),
        shape: match full.shape {
            json::Shape::Varying => Shape::Varying,
            json::Shape::Fixed => Shape::Fixed,
        },
        detail: Detail::Joined,
    })
}

/// Returns the number of an interface at which circuits are made.
fn interface(name: &str, topology: &Topology) -> Result<lighthaul_calendar::LinkId, RequestError> {
    if let Some((id, port)) = topology.interface(name)
        && port.limits.is_some()
    {
        return Ok(id);
    }
    let known = topology.interfaces().iter();
    let known: Vec<String> = known
        .filter(|port| port.limits.is_some())
        .map(|port| port.name.clone())
        .collect();
    if known.is_empty() {
        return Err(RequestError::NoCircuits);
    }
    let interface = name.to_owned();
    Err(RequestError::NoDevice { interface, known })
}

/// Returns a path with a circuit at an interface.
fn through(
    path: &Path,
    name: &str,
    topology: &Topology,
) -> Result<std::sync::Arc<Path>, RequestError> {
    let id = interface(name, topology)?;
    let path = path.through(topology, id);
    path.ok_or_else(|| RequestError::InterfaceOffPath(name.to_owned()))
}

/// Returns the path of a reservation, with its circuit.
pub(super) fn path_of(
    reservation: &json::Reservation,
    topology: &Topology,
) -> Result<std::sync::Arc<Path>, RequestError> {
    let path = path(&reservation.path, topology)?;
    match &reservation.request.flow {
        Some(flow) => through(&path, &flow.interface, topology),
        None => Ok(path),
    }
}

/// Returns the path over the named links.
pub(super) fn path(
    names: &[String],
    topology: &Topology,
) -> Result<std::sync::Arc<Path>, RequestError> {
    if names.is_empty() {
        return Err(RequestError::EmptyPath);
    }
    let mut links = Vec::with_capacity(names.len());
    for name in names {
        let link = topology.link(name);
        links.push(link.ok_or_else(|| UnknownLink(name.clone()))?);
    }
    Path::new(topology, links).ok_or_else(|| RequestError::NotAPath(names.to_vec()))
}

/// Returns the parts of a reservation that are missing in a topology.
pub(super) fn lacks(reservation: &json::Reservation, topology: &Topology) -> Vec<String> {
    let request = &reservation.request;
    let nodes = [&request.from, &request.to].into_iter().flatten();
    let nodes = nodes.filter(|name| topology.node(name).is_none());
    let wanted = request.path.iter().flatten();
    let links: BTreeSet<&String> = reservation.path.iter().chain(wanted).collect();
    let links = links
        .into_iter()
        .filter(|name| topology.link(name).is_none());
    let nodes = nodes.map(|name| format!("host {name}"));
    let ports = request.flow.iter().map(|flow| &flow.interface);
    let ports = ports.filter(|name| interface(name, topology).is_err());
    let ports = ports.map(|name| format!("interface {name}"));
    let mut lacks: Vec<String> = nodes
        .chain(links.map(|name| format!("link {name}")))
        .chain(ports)
        .collect();
    if lacks.is_empty() && path_of(reservation, topology).is_err() {
        lacks.push(format!("the path {}", reservation.path.join(", ")));
    }
    lacks
}

/// Returns the request of a reservation with a new amount.
pub(super) fn changed(
    full: &NewReservation,
    change: &json::Change,
) -> Result<NewReservation, RequestError> {
    let mut new = full.clone();
    match (change.size, change.hold) {
        (Some(size), None) if full.size.is_some() => new.size = Some(size),
        (None, Some(hold)) if full.hold.is_some() => new.hold = Some(hold),
        _ => {
            let what = if full.size.is_some() { "size" } else { "hold" };
            return Err(RequestError::OtherAmount(what));
        }
    }
    Ok(new)
}

/// Returns the requested amount.
pub(super) fn need(full: &NewReservation) -> error::Result<Need> {
    match (full.size, full.hold) {
        (Some(size), None) => {
            let percent = full.margin_percent.unwrap_or(MARGIN_PERCENT);
            if percent > MARGIN_PERCENT_MAX {
                let most = MARGIN_PERCENT_MAX;
                return Err(RequestError::Margin { percent, most }.into());
            }
            Ok(Need::Size {
                bytes: size.0,
                margin_ppm: u32::from(percent) * 10_000,
            })
        }
        (None, Some(hold)) if hold.0 > Duration::ZERO => Ok(Need::Hold(hold.0)),
        (None, Some(_)) => Err(Refusal::Empty.into()),
        _ => Err(RequestError::Amount.into()),
    }
}

fn route(full: &NewReservation, topology: &Topology) -> Result<Route, RequestError> {
    let port = full.flow.as_ref().map(|flow| &flow.interface);
    match (&full.from, &full.to, &full.path) {
        (Some(from), Some(to), None) => {
            let node = |name: &String| {
                let node = topology.node(name);
                node.ok_or_else(|| RequestError::UnknownNode(name.clone()))
            };
            let (from, to) = (node(from)?, node(to)?);
            let port = port.map(|name| interface(name, topology)).transpose()?;
            Ok(port.map_or(Route::Between(from, to), |port| {
                Route::Through(port, from, to)
            }))
        }
        (None, None, Some(names)) => {
            let path = path(names, topology)?;
            let path = match port {
                Some(name) => through(&path, name, topology)?,
                None => path,
            };
            Ok(Route::Along(path))
        }
        _ => Err(RequestError::Route),
    }
}

fn rate(what: &'static str, bps: Option<Bps>) -> Result<Option<Rate>, RequestError> {
    let zero = RequestError::ZeroRate(what);
    bps.map(|bps| bps.rate().ok_or(zero)).transpose()
}

/// Percentage for headers and retransmissions (section 4.3 of the VBLS paper).
const MARGIN_PERCENT: u8 = 3;
const MARGIN_PERCENT_MAX: u8 = 100;
