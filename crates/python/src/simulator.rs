//! Simulations in virtual time, and the equations of the RBUDP paper.

use std::time::Duration;

use lighthaul::Error;
use lighthaul_io::host::interrupt;
use lighthaul_lab::circuit_use::CircuitPlan;
use lighthaul_lab::plan::{Case, Plan};
use lighthaul_lab::shared_link_plan::SharedLinkPlan;
use lighthaul_lab::simulate::{config, seconds, simulate};
use lighthaul_lab::table::Table;
use lighthaul_lab::vector::VectorPlan;
use lighthaul_proto::rbudp::model::{self, Path};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::options::{RateOption, SizeOption, duration};
use crate::work::interruptible;

/// Names of columns, and rows with a number or nothing for each column.
type TableRecord = (Vec<String>, Vec<Vec<Option<f64>>>);

/// Simulates every point of a plan in TOML. `kind` is transfers, flows, vector or circuit.
#[pyfunction]
pub(crate) fn simulate_plan(py: Python<'_>, kind: &str, plan: &str) -> PyResult<TableRecord> {
    let simulated = match kind {
        "transfers" => Plan::parse("plan", plan).map(|plan| deferred(move || simulate(&plan))),
        "flows" => {
            SharedLinkPlan::parse("plan", plan).map(|plan| deferred(move || plan.simulate()))
        }
        "vector" => VectorPlan::parse("plan", plan).map(|plan| deferred(move || plan.simulate())),
        "circuit" => CircuitPlan::parse("plan", plan).map(|plan| deferred(move || plan.simulate())),
        _ => Err(format!("there are no plans of {kind}")),
    };
    let simulated = simulated.map_err(PyValueError::new_err)?;
    let table = interruptible(py, move || Ok::<_, Error>(simulated()))?;
    Ok((table.columns, table.rows))
}

/// Simulation of a plan, which takes a while.
type Deferred = Box<dyn FnOnce() -> Table + Send>;

fn deferred(simulated: impl FnOnce() -> Table + Send + 'static) -> Deferred {
    Box::new(simulated)
}

/// Transfer to simulate.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
// fields: one for each parameter
pub(crate) struct CaseRecord {
    size: SizeOption,
    rate: RateOption,
    link: RateOption,
    rtt: f64,
    queue: SizeOption,
    loss: f64,
    absorb: Option<RateOption>,
    socket: Option<SizeOption>,
    competitors: u32,
    nice: i8,
    feedback: bool,
    packet_len: u32,
    overhead_len: u32,
    settle: f64,
}

impl CaseRecord {
    fn case(self) -> PyResult<Case> {
        if !(0.0..1.0).contains(&self.loss) {
            return Err(PyValueError::new_err("loss is from 0 to less than 1"));
        }
        if self.absorb.is_some() != self.socket.is_some() {
            return Err(PyValueError::new_err("give both absorb and socket"));
        }
        let object_len = self.size.bytes()?;
        if object_len == 0 {
            return Err(PyValueError::new_err("the size is zero"));
        }
        // the rates of headers and payload are computed from their lengths
        let packets = 1..=PACKET_LEN_MAX;
        if !packets.contains(&self.packet_len) || self.overhead_len > PACKET_LEN_MAX {
            let text =
                format!("a packet has 1 to {PACKET_LEN_MAX} bytes, and at most as many of headers");
            return Err(PyValueError::new_err(text));
        }
        let socket = self.socket.as_ref().map_or(Ok(0), SizeOption::bytes)?;
        let case = Case {
            object_len,
            rate: self.rate.rate()?,
            link: self.link.rate()?,
            rtt: duration("rtt", Some(self.rtt))?.unwrap_or_default(),
            queue_bytes_max: self.queue.bytes()?,
            // billionths of packets, as the nanoseconds of a duration
            loss_ppb: duration("loss", Some(self.loss))?
                .map_or(0, |loss| u64::from(loss.subsec_nanos())),
            absorb: self.absorb.as_ref().map(RateOption::rate).transpose()?,
            socket_bytes_max: socket,
            competitors: self.competitors,
            nice: self.nice,
            arrival: Duration::ZERO,
            feedback: self.feedback,
            packet_len: self.packet_len,
            overhead_len: self.overhead_len,
            settle: duration("settle", Some(self.settle))?.unwrap_or_default(),
        };
        let checked = config(&case).check();
        checked.map_err(|why| PyValueError::new_err(why.to_string()))?;
        Ok(case)
    }
}

/// Returns the seconds that a transfer by RBUDP takes with each of these seeds.
#[pyfunction]
pub(crate) fn simulate_transfers(
    py: Python<'_>,
    case: CaseRecord,
    seeds: Vec<u64>,
) -> PyResult<Vec<f64>> {
    let case = case.case()?;
    interruptible(py, move || {
        let times = seeds.into_iter().map(|seed| {
            interrupt::check()?;
            Ok::<_, Error>(seconds(&case, seed))
        });
        times.collect()
    })
}

/// Path of a prediction: rate, round-trip time in seconds, bytes of a packet, and loss.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) struct PathRecord(f64, f64, f64, f64);

/// Returns the value of an equation of the RBUDP paper for a payload of `total` bytes.
#[pyfunction]
pub(crate) fn rbudp_model(name: &str, total: f64, path: PathRecord) -> PyResult<f64> {
    let PathRecord(rate, rtt, packet_len, loss) = path;
    check_positive("size", total)?;
    check_positive("rate", rate)?;
    check_positive("packet", packet_len)?;
    // near 1, the series for the number of blasts has no end
    if !(0.0..=LOSS_MAX).contains(&loss) {
        let text = format!("loss is from 0 to {LOSS_MAX}");
        return Err(PyValueError::new_err(text));
    }
    check_positive("number of packets", total / packet_len)?;
    let path = Path {
        rate,
        rtt: duration("rtt", Some(rtt))?.unwrap_or_default(),
        packet_len,
        loss,
    };
    let equation = match name {
        "goodput" => model::goodput,
        "goodput_best" => model::goodput_best,
        "time_total" => model::time_total,
        "time_expected" => model::time_expected,
        "time_ack" => model::time_ack,
        "resends" => model::resends,
        "blasts_expected" => model::blasts_expected,
        _ => {
            return Err(PyValueError::new_err(format!(
                "there is no equation {name}"
            )));
        }
    };
    Ok(equation(total, &path))
}

/// Returns `B_best / B_send` by equation 5.
#[pyfunction]
pub(crate) fn rbudp_efficiency(total: f64, rate: f64, rtt: f64) -> PyResult<f64> {
    check_positive("size", total)?;
    check_positive("rate", rate)?;
    let rtt = duration("rtt", Some(rtt))?.unwrap_or_default();
    Ok(model::efficiency(total, rate, rtt))
}

/// Returns the smallest payload that reaches an efficiency, by equation 5.
#[pyfunction]
pub(crate) fn rbudp_size_for(efficiency: f64, rate: f64, rtt: f64) -> PyResult<f64> {
    if !(0.0..1.0).contains(&efficiency) {
        return Err(PyValueError::new_err(
            "an efficiency is from 0 to less than 1",
        ));
    }
    check_positive("rate", rate)?;
    let rtt = duration("rtt", Some(rtt))?.unwrap_or_default();
    Ok(model::total_for(efficiency, rate, rtt))
}

/// Returns the sending rate for a stream of objects, by equation 11.
#[pyfunction]
pub(crate) fn rbudp_stream_rate(
    object: f64,
    objects_per_second: f64,
    rtt: f64,
    delay: f64,
) -> PyResult<f64> {
    check_positive("size", object)?;
    check_positive("rate", objects_per_second)?;
    let rtt = duration("rtt", Some(rtt))?.unwrap_or_default();
    let delay = duration("delay", Some(delay))?.unwrap_or_default();
    Ok(model::stream_rate(object, objects_per_second, rtt, delay))
}

/// Fails unless a number is finite and above zero.
fn check_positive(name: &str, value: f64) -> PyResult<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    let text = format!("the {name} is {value}: it must be above zero and finite");
    Err(PyValueError::new_err(text))
}

/// Highest loss of a prediction. With it, the mean number of blasts takes less than a million steps.
const LOSS_MAX: f64 = 0.999;
/// Maximum length of the payload of a packet, and of its headers.
const PACKET_LEN_MAX: u32 = 65535;
