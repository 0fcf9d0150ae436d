//! Driver for Lighthaul with a device in memory. The protocol is complete: edit [`Device`] and [`capabilities`].
//!
//! Usage: `skeleton [FILE]`
//!
//! FILE keeps the device, so that it outlives this program. The conformance suite looks at it, and puts faults there.
//! Lines are described in `crates/circuit/schema/driver.v1.json`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, process, thread};

use serde_json::{Map, Value, json};

fn main() -> io::Result<()> {
    let mut device = Device {
        path: env::args_os().nth(1).map(PathBuf::from),
        state: json!({"circuits": {}, "others": {}, "faults": []}),
    };
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        let mut line = Vec::new();
        let mut bounded = input.by_ref().take(LINE_MAX);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let request: Value = serde_json::from_slice(&line)?;
        let mut answer = answer(&mut device, &request)?;
        answer["seq"] = request["seq"].clone();
        let mut output = io::stdout().lock();
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
}

/// Capabilities of the device.
fn capabilities() -> Value {
    json!({
        // slowest circuit
        "rate_min_bps": RATE_MIN,
        // fastest circuit, and all circuits together
        "rate_max_bps": RATE_MAX,
        // rates are multiples of this
        "granularity_bps": GRANULARITY,
        // longest time of a change
        "reconfiguration_ns": 10_000_000,
        // time after that until packets pass reliably
        "settling_ns": 0,
        "circuits_max": CIRCUITS_MAX,
        // "payload", "ip" or "link", and more for each packet
        "counted": {"layer": "link", "overhead_bytes": 24},
        // longest timer with which the device closes a circuit; leave it out if it has none
        "timer_max_ms": TIMER_MAX_MS,
    })
}

/// Reason for which a change was not made.
enum Fault {
    /// The device says no: the change can be made later at best.
    Refused(String),
    /// The device does not answer: it is not known whether the change was made.
    Unreachable(String),
    /// This program cannot continue.
    Program(io::Error),
}

/// Replace this type by one for your device. Every call can be repeated, and a change that is in force succeeds.
struct Device {
    path: Option<PathBuf>,
    state: Value,
}

impl Device {
    /// Sets the rate of a circuit, which is created if it does not exist. Zero: it exists, and takes no packets.
    /// After `timer_ms` milliseconds without another change, the device itself sets the rate to zero.
    fn set(&mut self, change: &Value) -> Result<(), Fault> {
        let fault = self.begin()?;
        let rate = change["rate_bps"].as_u64().unwrap_or_default();
        let key = change["id"].to_string();
        check_rate(rate)?;
        let circuits = self.circuits();
        if !circuits.contains_key(&key) && circuits.len() >= CIRCUITS_MAX {
            return Err(Fault::Refused("it has its maximum of circuits".to_owned()));
        }
        let others = circuits.iter().filter(|(other, _)| **other != key);
        let others: u64 = others.filter_map(|(_, one)| one["rate_bps"].as_u64()).sum();
        if others.saturating_add(rate) > RATE_MAX {
            return Err(Fault::Refused(
                "the sum of all rates is too high".to_owned(),
            ));
        }
        let timer = change["timer_ms"].as_u64().map(Duration::from_millis);
        let closes_at = timer.map(|timer| (unix_time() + timer).as_secs_f64());
        let circuit = json!({"flow": change["flow"], "rate_bps": rate, "closes_at": closes_at});
        circuits.insert(key, circuit);
        self.end(&fault)
    }

    /// Removes a circuit. It succeeds if there is none.
    fn remove(&mut self, id: &Value) -> Result<(), Fault> {
        let fault = self.begin()?;
        self.circuits().remove(&id.to_string());
        self.end(&fault)
    }

    /// Returns the circuits that a driver of Lighthaul made, and not those of others, as the device has them.
    fn list(&mut self) -> Result<Vec<Value>, Fault> {
        self.load()?;
        self.store()?;
        let circuits = self.circuits().iter().map(|(key, one)| {
            let id: u64 = key.parse().unwrap_or_default();
            json!({"id": id, "flow": one["flow"], "rate_bps": one["rate_bps"]})
        });
        Ok(circuits.collect())
    }

    /// Reads the device, and takes the next fault.
    fn begin(&mut self) -> Result<String, Fault> {
        self.load()?;
        let faults = self.state["faults"].as_array_mut();
        let fault = faults.filter(|faults| !faults.is_empty());
        let fault = fault.map(|faults| faults.remove(0));
        let fault = fault.as_ref().and_then(Value::as_str).unwrap_or_default();
        let fault = fault.to_owned();
        self.store()?;
        let reason = "simulated fault".to_owned();
        match fault.as_str() {
            "refuse" => return Err(Fault::Refused(reason)),
            "unreachable" => return Err(Fault::Unreachable(reason)),
            "silent" => thread::park_timeout(Duration::from_hours(1)),
            "die" => process::exit(1),
            _ => {}
        }
        Ok(fault)
    }

    fn end(&self, fault: &str) -> Result<(), Fault> {
        self.store()?;
        if fault == "lost" {
            process::exit(1);
        }
        Ok(())
    }

    fn circuits(&mut self) -> &mut Map<String, Value> {
        let circuits = &mut self.state["circuits"];
        if !circuits.is_object() {
            *circuits = json!({});
        }
        circuits.as_object_mut().expect("it is an object now")
    }

    fn load(&mut self) -> Result<(), Fault> {
        if let Some(path) = &self.path
            && path.exists()
        {
            let text = fs::read(path).map_err(Fault::Program)?;
            self.state = serde_json::from_slice(&text).map_err(|why| Fault::Program(why.into()))?;
        }
        // a real device closes the circuit by itself
        let now = unix_time().as_secs_f64();
        for one in self.circuits().values_mut() {
            if one["closes_at"].as_f64().is_some_and(|at| at <= now) {
                (one["rate_bps"], one["closes_at"]) = (json!(0), Value::Null);
            }
        }
        Ok(())
    }

    fn store(&self) -> Result<(), Fault> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let next = path.with_extension("new");
        let written = fs::write(&next, self.state.to_string());
        written
            .and_then(|()| fs::rename(&next, path))
            .map_err(Fault::Program)
    }
}

/// Returns the time since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "Lighthaul itself has another clock"
)]
fn unix_time() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Refuses a rate that the device cannot set. The scheduler asks for none if the capabilities are right.
fn check_rate(rate: u64) -> Result<(), Fault> {
    let can = (RATE_MIN..=RATE_MAX).contains(&rate) && rate.is_multiple_of(GRANULARITY);
    if rate > 0 && !can {
        return Err(Fault::Refused(format!(
            "it cannot set a rate of {rate} b/s"
        )));
    }
    Ok(())
}

/// Returns the answer to a request, without its number.
fn answer(device: &mut Device, request: &Value) -> io::Result<Value> {
    let error = |why: &str| Ok(json!({"error": why}));
    match request["verb"].as_str().unwrap_or_default() {
        "hello" => {
            let versions = request["versions"].as_array();
            if versions.is_none_or(|all| !all.contains(&json!(VERSION))) {
                return error("this driver speaks version 1 only");
            }
            Ok(json!({"version": VERSION, "capabilities": capabilities()}))
        }
        "apply" => {
            let mut results = Vec::new();
            for change in request["changes"].as_array().into_iter().flatten() {
                results.push(result(device.set(change))?);
            }
            Ok(json!({"results": results}))
        }
        "remove" => Ok(json!({"results": [result(device.remove(&request["id"]))?]})),
        "inspect" => match device.list() {
            Ok(circuits) => Ok(json!({"circuits": circuits})),
            Err(Fault::Refused(why) | Fault::Unreachable(why)) => error(&why),
            Err(Fault::Program(why)) => Err(why),
        },
        _ => error("this verb is unknown"),
    }
}

/// Returns the result of one change: null, or a fault with its reason.
fn result(done: Result<(), Fault>) -> io::Result<Value> {
    match done {
        Ok(()) => Ok(Value::Null),
        Err(Fault::Refused(why)) => Ok(json!({"fault": "refused", "reason": why})),
        Err(Fault::Unreachable(why)) => Ok(json!({"fault": "unreachable", "reason": why})),
        Err(Fault::Program(why)) => Err(why),
    }
}

const VERSION: u32 = 1;
const RATE_MIN: u64 = 1_000_000;
const RATE_MAX: u64 = 10_000_000_000;
const GRANULARITY: u64 = 1_000_000;
const CIRCUITS_MAX: usize = 96;
const TIMER_MAX_MS: u64 = 3_600_000;
const LINE_MAX: u64 = 16 << 20;
