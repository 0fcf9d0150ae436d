//! Circuits for reservations: connects [`Agent`] with [`Books`].
//!
//! The desired state of the devices follows from the reservations at any time. It is compared with
//! the actual state, so that no step is lost in a crash, a failure or a change of the writer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Instant, Trc};
use lighthaul_booking::books::{Books, Principal, Role};
use lighthaul_booking::error::{Result, SetupError};
use lighthaul_booking_client::json::{Reservation, Timestamp};
use lighthaul_calendar::Topology;
use lighthaul_circuit::agent::{Agent, LeasedCircuit};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::{Ending, Event};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error as circuit;
use lighthaul_io::host::clock::Clock;

/// Returns the topology with the limits of the devices at its interfaces.
pub fn with_device_limits(
    mut topology: Topology,
    drivers: &BTreeMap<String, Box<dyn Driver>>,
) -> Result<Topology> {
    for (name, driver) in drivers {
        topology
            .set_limits(name, driver.capabilities().limits())
            .map_err(SetupError::Topology)?;
    }
    Ok(topology)
}

/// Devices and their circuits. [`Agent`] has real ones.
pub trait CircuitDevices {
    /// Returns the time by the clock of the devices.
    fn now(&self) -> Instant;
    /// Returns the circuits at the devices.
    fn circuits(&self) -> Vec<Circuit>;
    /// Installs a circuit, or replaces the rates of an existing one.
    fn take(&self, circuit: Circuit, lease_till: Instant) -> circuit::Result<()>;
    /// Extends the lease of a circuit.
    fn renew(&self, circuit: &Circuit, lease_till: Instant) -> circuit::Result<()>;
    /// Removes a circuit.
    fn release(&self, circuit: &Circuit) -> circuit::Result<()>;
    /// Returns the next unreported event and its interface.
    fn poll_event(&self) -> Option<(String, Event)>;
}

/// Updater that keeps the circuits at devices equal to the reservations.
#[derive(Debug)]
pub struct CircuitUpdater<P> {
    books: Arc<Books>,
    devices: P,
    /// Time at which the clock of the devices was zero, unless the clock of the host was set since.
    zero: Cell<Timestamp>,
}

/// Circuits at the devices of this host, which follow the reservations.
#[derive(Debug)]
pub struct Circuits {
    updater: CircuitUpdater<LocalDevices>,
}

/// Agent of this host, and its clock.
#[derive(Debug)]
struct LocalDevices {
    agent: Agent,
    clock: Clock,
}

impl Circuits {
    /// Takes over the devices: keeps or installs the circuits of reservations, and removes all other Lighthaul
    /// circuits. `now` is the time by the clock of the books.
    pub fn start(
        books: Arc<Books>,
        drivers: BTreeMap<String, Box<dyn Driver>>,
        clock: Clock,
        now: Timestamp,
    ) -> Result<Self> {
        let zero = Timestamp(now.0.saturating_sub(clock.now().as_nanos()));
        let desired = DesiredCircuits::of(&books, zero)?;
        let lease_till = clock.now() + LEASE;
        let wanted = desired.wanted.into_values().map(|circuit| LeasedCircuit {
            circuit,
            lease_till,
        });
        let (agent, refused) = Agent::start(clock, drivers, wanted.collect())?;
        let updater = CircuitUpdater::new(books, LocalDevices { agent, clock }, zero);
        for (id, why) in refused {
            updater.fail(id, "the agent", &why.to_string())?;
        }
        Ok(Self { updater })
    }

    /// Updates the circuits: see [`CircuitUpdater::update`].
    pub fn update(&self) -> Result<()> {
        self.updater.update()
    }

    /// Waits for an event of the devices, until a time on the clock of the agent, and reports it to the books.
    pub fn wait(&self, till: Instant) -> Result<()> {
        if let Some((interface, event)) = self.updater.devices.agent.wait_event(till)? {
            self.updater.report(interface, event)?;
        }
        Ok(())
    }

    /// Returns the clock that [`Circuits::wait`] uses.
    pub const fn clock(&self) -> Clock {
        self.updater.devices.clock
    }
}

impl CircuitDevices for LocalDevices {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn circuits(&self) -> Vec<Circuit> {
        let kept = self.agent.circuits().into_iter();
        kept.map(|wanted| wanted.circuit).collect()
    }

    fn take(&self, circuit: Circuit, lease_till: Instant) -> circuit::Result<()> {
        self.agent.put(circuit, lease_till)
    }

    fn renew(&self, circuit: &Circuit, lease_till: Instant) -> circuit::Result<()> {
        self.agent.renew(&circuit.interface, circuit.id, lease_till)
    }

    fn release(&self, circuit: &Circuit) -> circuit::Result<()> {
        self.agent.release(&circuit.interface, circuit.id)
    }

    fn poll_event(&self) -> Option<(String, Event)> {
        let (interface, event) = self.agent.poll_event()?;
        Some((interface.to_owned(), event))
    }
}

impl<P: CircuitDevices> CircuitUpdater<P> {
    /// Keeps the circuits of `books` at `devices`, whose clock was zero at `zero`.
    pub const fn new(books: Arc<Books>, devices: P, zero: Timestamp) -> Self {
        Self {
            books,
            devices,
            zero: Cell::new(zero),
        }
    }

    /// Returns the devices.
    pub const fn devices(&self) -> &P {
        &self.devices
    }

    /// Installs, extends and removes circuits as the reservations need, with a lease from now on,
    /// and reports events to the books. Call it after each change of the books or event of the
    /// devices, and several times during a lease.
    pub fn update(&self) -> Result<()> {
        while let Some((interface, event)) = self.devices.poll_event() {
            self.report(&interface, event)?;
        }
        let mut desired = DesiredCircuits::of(&self.books, self.zero())?;
        if !desired.is_writer {
            // the writer keeps the circuits, and those of this instance end with their leases
            return Ok(());
        }
        for (id, why) in desired.broken {
            self.fail(id, "the books", &why)?;
        }
        let lease_till = self.devices.now() + LEASE;
        // removes circuits first, to make room for new ones
        for circuit in self.devices.circuits() {
            match desired.wanted.get(&circuit.id) {
                Some(wanted) if is_same(wanted, &circuit, self.devices.now()) => {
                    desired.wanted.remove(&circuit.id);
                    // an event reports a circuit that ended meanwhile
                    let _ = self.devices.renew(&circuit, lease_till);
                }
                Some(_) => {}
                None => {
                    let _ = self.devices.release(&circuit);
                }
            }
        }
        let mut is_busy = false;
        for circuit in desired.wanted.values() {
            is_busy |= self.take(circuit.clone(), lease_till)?;
        }
        if is_busy {
            self.release_crossed(&desired.wanted);
        }
        Ok(())
    }

    /// Returns the time at which the clock of the devices was zero. It changes only when the clock
    /// of the host is set; small drift is ignored.
    fn zero(&self) -> Timestamp {
        let now = self.devices.now().as_nanos();
        let zero = Timestamp(self.books.now().0.saturating_sub(now));
        if zero.0.abs_diff(self.zero.get().0) > DRIFT_MAX {
            self.zero.set(zero);
        }
        self.zero.get()
    }

    /// Removes circuits that have not started and must change. Otherwise two circuits that exchange
    /// their times would wait for each other. The next call installs them again.
    fn release_crossed(&self, wanted: &BTreeMap<CircuitId, Circuit>) {
        let now = self.devices.now();
        for circuit in self.devices.circuits() {
            let wanted = wanted.get(&circuit.id);
            if circuit.trc.start() > now && wanted.is_some_and(|one| !is_same(one, &circuit, now)) {
                let _ = self.devices.release(&circuit);
            }
        }
    }

    /// Installs a circuit. Returns true if another circuit is in the way.
    fn take(&self, circuit: Circuit, lease_till: Instant) -> Result<bool> {
        if circuit.trc.check_ahead(self.devices.now()).is_err() {
            // the last step has just ended, and the books will release the reservation
            return Ok(false);
        }
        let (id, interface) = (circuit.id, circuit.interface.clone());
        match self.devices.take(circuit, lease_till) {
            Ok(()) => Ok(false),
            // the circuit in the way is about to be removed: the next call tries again
            Err(circuit::Error::Busy { .. }) => Ok(true),
            Err(why) => self.fail(id, &interface, &why.to_string()).map(|()| false),
        }
    }

    /// Reports an event of a device to the books.
    fn report(&self, interface: &str, event: Event) -> Result<()> {
        match event {
            Event::Changed {
                id,
                rate: Some(rate),
                ..
            } => {
                let why = format!("its circuit carries {rate}");
                self.books.activate(&device(interface), id.0, &why)
            }
            Event::Failed(id, why) => self.fail(id, interface, &why),
            Event::Ended(id, Ending::Expired) => self.fail(
                id,
                interface,
                "its circuit was not renewed in time: check if the scheduler was stopped or overloaded",
            ),
            Event::Created(_)
            | Event::Changed { rate: None, .. }
            | Event::Ended(..)
            | Event::Repaired(_)
            | Event::StaleRemoved(_)
            | Event::InspectFailed(_)
            | Event::Overflow(_) => Ok(()),
        }
    }

    fn fail(&self, id: CircuitId, device_name: &str, why: &str) -> Result<()> {
        self.books.fail(&device(device_name), id.0, why)
    }
}

/// Circuits that the reservations need.
struct DesiredCircuits {
    wanted: BTreeMap<CircuitId, Circuit>,
    /// Reservations without a valid circuit, and the reason.
    broken: Vec<(CircuitId, String)>,
    /// True if this instance is the writer, which keeps the circuits.
    is_writer: bool,
}

impl DesiredCircuits {
    fn of(books: &Books, zero: Timestamp) -> Result<Self> {
        let mut desired = Self {
            wanted: BTreeMap::new(),
            broken: Vec::new(),
            is_writer: false,
        };
        let Some(reservations) = books.circuits()? else {
            return Ok(desired);
        };
        desired.is_writer = true;
        for reservation in reservations {
            let id = CircuitId(reservation.id);
            match circuit(&reservation, zero) {
                Ok(Some(circuit)) => {
                    desired.wanted.insert(id, circuit);
                }
                Ok(None) => {}
                Err(why) => desired.broken.push((id, why)),
            }
        }
        Ok(desired)
    }
}

/// Returns the circuit of a reservation, with times of a clock that was zero at `zero`.
fn circuit(
    reservation: &Reservation,
    zero: Timestamp,
) -> std::result::Result<Option<Circuit>, String> {
    let Some(flow) = &reservation.request.flow else {
        return Ok(None);
    };
    let steps = reservation.steps.iter().filter_map(|step| {
        Some(lighthaul_base::trc::Step {
            from: since(step.from, zero),
            till: since(step.till, zero),
            rate: lighthaul_base::Rate::from_bps(step.rate_bps)?,
        })
    });
    // steps before the start of the clock do not matter
    let steps = steps.filter(|step| step.from < step.till).collect();
    let trc = Trc::new(steps).map_err(|why| why.to_string())?;
    Ok(Some(Circuit {
        id: CircuitId(reservation.id),
        interface: flow.interface.clone(),
        flow: flow.packets,
        trc,
    }))
}

/// Converts a time to a clock that was zero at `zero`; earlier times become zero.
const fn since(time: Timestamp, zero: Timestamp) -> Instant {
    Instant::from_nanos(time.0.saturating_sub(zero.0))
}

/// Returns true if two circuits are equal from now on.
fn is_same(wanted: &Circuit, kept: &Circuit, now: Instant) -> bool {
    let ahead = |circuit: &Circuit| {
        let steps = circuit.trc.steps().iter().filter(|step| step.till > now);
        steps.copied().collect::<Vec<_>>()
    };
    wanted.flow == kept.flow && wanted.interface == kept.interface && ahead(wanted) == ahead(kept)
}

fn device(name: &str) -> Principal {
    Principal::new(name, Role::Device)
}

/// Tolerated drift between the clocks of books and devices, in nanoseconds.
const DRIFT_MAX: u64 = 1_000_000_000;
/// Time after which circuits end if they are not renewed.
const LEASE: Duration = Duration::from_mins(1);
