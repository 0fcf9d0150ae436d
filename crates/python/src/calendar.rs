//! Calendars of capacity. All times are nanoseconds, all rates bits a second, all sizes bytes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lighthaul::Rate;
use lighthaul_base::Instant;
use lighthaul_base::trc::Step;
use lighthaul_calendar::packet::{self, Arrival};
use lighthaul_calendar::path::shortest;
use lighthaul_calendar::{
    Config, CounterOffer, Detail, Grant, Id, Link, Need, Owner, Path, Refusal, Request, Route,
    Shape, Topology,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Start, end and rate of a step.
type StepRecord = (u64, u64, u64);

/// Links of a path, and the rates on it.
type GrantRecord = (Vec<String>, Vec<StepRecord>);

/// Calendar of the links of a network.
#[derive(Debug)]
#[pyclass(frozen, module = "lighthaul._lighthaul")]
pub(crate) struct Calendar {
    calendar: Mutex<lighthaul_calendar::Calendar>,
}

/// Link: its name, both nodes, capacity, channel, guard time and cost.
#[derive(Debug, FromPyObject)]
struct LinkRecord(String, String, String, u64, u64, u64, u32);

impl LinkRecord {
    fn link(self) -> PyResult<Link> {
        let Self(name, from, to, capacity, channel, guard, cost) = self;
        Ok(Link {
            name,
            from,
            to,
            capacity: rate(capacity)?,
            channel: rate(channel)?,
            guard: Duration::from_nanos(guard),
            cost,
        })
    }
}

/// Request for capacity.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
// fields: one for each option
struct RequestRecord {
    source: Option<String>,
    target: Option<String>,
    path: Option<Vec<String>>,
    size: Option<u64>,
    hold: Option<u64>,
    margin_ppm: u32,
    rate_max: Option<u64>,
    rate_min: Option<u64>,
    start: u64,
    by: Option<u64>,
    fixed: bool,
    rounds: bool,
    priority: u8,
    owner: u32,
}

impl RequestRecord {
    fn request(self, calendar: &lighthaul_calendar::Calendar) -> PyResult<Request> {
        let (route, capacity) = self.route(calendar.topology())?;
        let need = match (self.size, self.hold) {
            (Some(bytes), None) => Need::Size {
                bytes,
                margin_ppm: self.margin_ppm,
            },
            (None, Some(nanos)) => Need::Hold(Duration::from_nanos(nanos)),
            (Some(_), Some(_)) | (None, None) => {
                return Err(PyValueError::new_err("give either size or hold"));
            }
        };
        Ok(Request {
            owner: Owner(self.owner),
            priority: self.priority,
            route,
            need,
            rate_min: self.rate_min.map(rate).transpose()?,
            rate_max: self.rate_max.map_or(Ok(capacity), rate)?,
            from: Instant::from_nanos(self.start),
            deadline: self.by.map(Instant::from_nanos),
            shape: if self.fixed {
                Shape::Fixed
            } else {
                Shape::Varying
            },
            detail: if self.rounds {
                Detail::Rounds
            } else {
                Detail::Joined
            },
        })
    }

    /// Returns the route, and the capacity of its best path.
    fn route(&self, topology: &Topology) -> PyResult<(Route, Rate)> {
        let unknown =
            |kind: &str, name: &str| PyValueError::new_err(format!("there is no {kind} {name}"));
        if let Some(names) = &self.path {
            let link = |name: &String| topology.link(name).ok_or_else(|| unknown("link", name));
            let links = names.iter().map(link).collect::<PyResult<_>>()?;
            let path = Path::new(topology, links);
            let path = path.ok_or_else(|| PyValueError::new_err("the links are no path"))?;
            let capacity = path.capacity();
            let capacity = capacity.ok_or_else(|| PyValueError::new_err("no common channel"))?;
            return Ok((Route::Along(path), capacity));
        }
        let node = |name: &Option<String>, which: &str| {
            let name = name.as_deref();
            let name = name.ok_or_else(|| PyValueError::new_err(format!("give {which}")))?;
            topology.node(name).ok_or_else(|| unknown("node", name))
        };
        let (from, to) = (node(&self.source, "source")?, node(&self.target, "target")?);
        let paths = shortest(topology, from, to, PATHS_MAX);
        let capacity = paths.iter().filter_map(|path| path.capacity()).max();
        let none = || PyValueError::new_err("no path leads from the source to the target");
        Ok((Route::Between(from, to), capacity.ok_or_else(none)?))
    }
}

#[pymethods]
impl Calendar {
    #[new]
    fn new(links: Vec<LinkRecord>, horizon: u64, slot: u64, paths: usize) -> PyResult<Self> {
        let links = links.into_iter().map(LinkRecord::link);
        let links = links.collect::<PyResult<Vec<Link>>>()?;
        let nodes: BTreeSet<&String> = links
            .iter()
            .flat_map(|link| [&link.from, &link.to])
            .collect();
        let nodes = nodes.into_iter().cloned().collect();
        let topology = Topology::new(nodes, links).map_err(wrong)?;
        let config = Config {
            horizon: Duration::from_nanos(horizon),
            slot: Duration::from_nanos(slot),
            paths_max: paths,
            ..Config::default()
        };
        let calendar = lighthaul_calendar::Calendar::new(topology, config).map_err(wrong)?;
        Ok(Self {
            calendar: Mutex::new(calendar),
        })
    }

    /// Returns the grant that a request would get.
    fn quote(&self, py: Python<'_>, now: u64, request: RequestRecord) -> PyResult<GrantRecord> {
        let quoted = {
            let calendar = self.calendar();
            let request = request.request(&calendar)?;
            let quoted = calendar.quote(Instant::from_nanos(now), &request);
            quoted.map(|grant| granted(&calendar, &grant))
        };
        // it runs code in Python, which the calendar must not be locked for
        quoted.map_err(|refusal| refused(py, &refusal))
    }

    /// Books a request under the number `id`.
    fn book(
        &self,
        py: Python<'_>,
        now: u64,
        id: u64,
        request: RequestRecord,
    ) -> PyResult<GrantRecord> {
        let booked = {
            let mut calendar = self.calendar();
            let request = request.request(&calendar)?;
            let booked = calendar.book(Instant::from_nanos(now), Id(id), &request);
            booked.cloned().map(|grant| granted(&calendar, &grant))
        };
        booked.map_err(|refusal| refused(py, &refusal))
    }

    /// Ends a booking, and returns the steps that are free again.
    fn release(&self, py: Python<'_>, now: u64, id: u64) -> PyResult<Vec<StepRecord>> {
        let released = self.calendar().release(Instant::from_nanos(now), Id(id));
        let steps = released.map_err(|refusal| refused(py, &refusal))?;
        Ok(steps.iter().map(step).collect())
    }

    /// Returns the free capacity of a link.
    fn free(&self, link: &str, owner: u32, start: u64, end: u64) -> PyResult<Vec<StepRecord>> {
        let calendar = self.calendar();
        let id = calendar.topology().link(link);
        let id = id.ok_or_else(|| PyValueError::new_err(format!("there is no link {link}")))?;
        let (start, end) = (Instant::from_nanos(start), Instant::from_nanos(end));
        let free = calendar.free(id, Owner(owner), start, end);
        let steps = free.map(|free| (free.from.as_nanos(), free.till.as_nanos(), free.bps));
        Ok(steps.collect())
    }

    /// Returns all bookings by their numbers.
    fn bookings(&self) -> Vec<(u64, GrantRecord)> {
        let calendar = self.calendar();
        let bookings = calendar.bookings();
        let shown = bookings.map(|(id, booking)| (id.0, granted(&calendar, booking.grant())));
        shown.collect()
    }
}

impl Calendar {
    /// Locks the calendar. No code in Python must run meanwhile: another thread that has Python's lock may wait here.
    fn calendar(&self) -> MutexGuard<'_, lighthaul_calendar::Calendar> {
        self.calendar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the end of each file in a packet-switched network: in one queue, or if `is_fair` with fair shares. A file has
/// an arrival time, a size and a highest rate.
#[pyfunction]
pub(crate) fn packet_switched(
    py: Python<'_>,
    files: Vec<(u64, u64, u64)>,
    capacity: u64,
    is_fair: bool,
) -> Vec<u64> {
    let arrival = |(at, bytes, most)| Arrival {
        at: Instant::from_nanos(at),
        work: Need::bytes(bytes).work(),
        most,
    };
    py.detach(|| {
        let arrivals: Vec<Arrival> = files.into_iter().map(arrival).collect();
        let ends = if is_fair {
            packet::fair(&arrivals, capacity)
        } else {
            packet::fifo(&arrivals, capacity)
        };
        ends.into_iter().map(Instant::as_nanos).collect()
    })
}

fn rate(bps: u64) -> PyResult<Rate> {
    Rate::from_bps(bps).ok_or_else(|| PyValueError::new_err("the rate is zero"))
}

fn granted(calendar: &lighthaul_calendar::Calendar, grant: &Grant) -> GrantRecord {
    let path: &Arc<Path> = grant.path();
    let name = |link| {
        calendar
            .topology()
            .about(link)
            .map(|link| link.name.clone())
    };
    let names = path.links().iter().copied().filter_map(name);
    (names.collect(), grant.steps().iter().map(step).collect())
}

fn step(step: &Step) -> StepRecord {
    (
        step.from.as_nanos(),
        step.till.as_nanos(),
        step.rate.as_bps(),
    )
}

fn wrong(why: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// Returns the exception for a refused request, which `lighthaul.calendar` defines.
fn refused(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let mut offer = CounterOffer::default();
    if let Refusal::MissesDeadline(found) = refusal {
        offer = *found;
    }
    let (size, hold) = match offer.most {
        Some(Need::Size { bytes, .. }) => (Some(bytes), None),
        Some(Need::Hold(time)) => (None, u64::try_from(time.as_nanos()).ok()),
        None => (None, None),
    };
    let end = offer.end.map(Instant::as_nanos);
    let rate = offer.rate_max.map(Rate::as_bps);
    let made = py
        .import("lighthaul.calendar")
        .and_then(|module| module.getattr("CalendarRefused"))
        .and_then(|kind| kind.call_method1("_of", (refusal.to_string(), end, size, hold, rate)));
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// Maximum number of paths of which the capacity is compared.
const PATHS_MAX: usize = 4;
