//! Circuits for reservations: connects [`Agent`] with [`Books`].
//!
//! The desired state of the devices follows from the reservations at any time. It is compared with
//! the actual state, so that no step is lost in a crash, a failure or a change of the writer.
//!
//! Only the writer of the books uses the devices. Another instance leaves them as they are, since the writer may control
//! the same devices. So does an instance that does not know which one is the writer.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Instant, Trc};
use lighthaul_booking::books::{Books, Principal};
use lighthaul_booking::error::{Error, Result, SetupError};
use lighthaul_booking::store::Writer;
use lighthaul_booking_client::json::{Reservation, Timestamp};
use lighthaul_booking_client::role::Role;
use lighthaul_calendar::Topology;
use lighthaul_circuit::agent::{Agent, LeasedCircuit};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::{Ending, Event};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error as circuit;
use lighthaul_io::host::clock::Clock;
use tracing::{info, warn};

use crate::device_record::DeviceRecord;

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
    /// Returns the names of the devices.
    fn names(&self) -> BTreeSet<String>;
    /// Returns the names of the devices that were read without circuits, and have none since.
    fn empty(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }
    /// Returns the circuits at the devices.
    fn circuits(&self) -> Vec<Circuit>;
    /// Installs a circuit, or replaces the rates of an existing one.
    fn take(&self, circuit: Circuit, lease_till: Instant) -> circuit::Result<()>;
    /// Extends the lease of a circuit.
    fn renew(&self, circuit: &Circuit, lease_till: Instant) -> circuit::Result<()>;
    /// Removes a circuit.
    fn release(&self, circuit: &Circuit) -> circuit::Result<()>;
    /// Keeps the devices enabled until `till`. Returns false if they are disabled: they have no circuits then.
    fn extend(&self, _till: Instant) -> bool {
        true
    }
    /// Enables the devices until `till`. Each is compared with `wanted` before it is changed. Returns refused circuits.
    fn enable(
        &self,
        _wanted: Vec<LeasedCircuit>,
        _till: Instant,
    ) -> Vec<(CircuitId, circuit::Error)> {
        Vec::new()
    }
    /// Leaves the devices as they are, and forgets their circuits and events, until they are enabled.
    fn disable(&self) {}
    /// Returns the next unreported event and its interface.
    fn poll_event(&self) -> Option<(String, Event)>;
}

/// Updater that keeps the circuits at devices equal to the reservations.
#[derive(Debug)]
pub struct CircuitUpdater<P> {
    books: Arc<Books>,
    devices: P,
    /// True if no other instance can be the writer of the books.
    is_exclusive: bool,
    /// Time at which the clock of the devices was zero, unless the clock of the host was set since.
    zero: Cell<Timestamp>,
    record: RefCell<DeviceRecord>,
    /// Last faults of devices that could not be read.
    unread: RefCell<BTreeMap<String, String>>,
    /// Event that the books could not note yet, since their store fails.
    unnoted: RefCell<Option<(String, Event)>>,
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
    /// Takes over the devices if this instance is the writer: keeps or installs the circuits of reservations, and removes
    /// all other Lighthaul circuits. Otherwise [`Self::update`] takes them over once it is. `now` is the time by the
    /// clock of the books. The record gets the devices with reservations first.
    pub fn start(
        books: Arc<Books>,
        drivers: BTreeMap<String, Box<dyn Driver>>,
        clock: Clock,
        now: Timestamp,
        mut record: DeviceRecord,
    ) -> Result<Self> {
        note_used(&mut record, &books, &drivers.keys().cloned().collect())?;
        let zero = Timestamp(now.0.saturating_sub(clock.now().as_nanos()));
        let agent = Agent::start_disabled(clock, drivers)?;
        let updater = CircuitUpdater {
            record: RefCell::new(record),
            ..CircuitUpdater::new(books, LocalDevices { agent, clock }, zero)
        };
        let circuits = Self { updater };
        circuits.update()?;
        Ok(circuits)
    }

    /// Updates the circuits: see [`CircuitUpdater::update`].
    pub fn update(&self) -> Result<()> {
        self.updater.update()
    }

    /// Waits for an event of the devices, until a time on the clock of the agent, and reports it to the books.
    pub fn wait(&self, till: Instant) -> Result<()> {
        // the next event waits until the books have this one
        self.updater.report_unnoted()?;
        if let Some((interface, event)) = self.updater.devices.agent.wait_event(till)? {
            self.updater.report(interface.to_owned(), event)?;
        }
        Ok(())
    }

    /// Returns the clock that [`Circuits::wait`] uses.
    pub const fn clock(&self) -> Clock {
        self.updater.devices.clock
    }
}

impl Drop for Circuits {
    /// Leaves the circuits of a shared store at the devices, for the next writer.
    fn drop(&mut self) {
        if !self.updater.is_exclusive {
            self.updater.devices.agent.disable();
        }
    }
}

impl CircuitDevices for LocalDevices {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn names(&self) -> BTreeSet<String> {
        self.agent.interfaces().cloned().collect()
    }

    fn empty(&self) -> BTreeSet<String> {
        let empty = self
            .agent
            .interfaces()
            .filter(|one| self.agent.is_empty(one));
        empty.cloned().collect()
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

    fn extend(&self, till: Instant) -> bool {
        self.agent.extend(till)
    }

    fn enable(
        &self,
        wanted: Vec<LeasedCircuit>,
        till: Instant,
    ) -> Vec<(CircuitId, circuit::Error)> {
        self.agent.enable(wanted, till)
    }

    fn disable(&self) {
        self.agent.disable();
    }

    fn poll_event(&self) -> Option<(String, Event)> {
        let (interface, event) = self.agent.poll_event()?;
        Some((interface.to_owned(), event))
    }
}

impl<P: CircuitDevices> CircuitUpdater<P> {
    /// Keeps the circuits of `books` at `devices`, whose clock was zero at `zero`.
    pub fn new(books: Arc<Books>, devices: P, zero: Timestamp) -> Self {
        Self {
            is_exclusive: books.is_exclusive(),
            books,
            devices,
            zero: Cell::new(zero),
            record: RefCell::default(),
            unread: RefCell::default(),
            unnoted: RefCell::default(),
        }
    }

    /// Returns the devices.
    pub const fn devices(&self) -> &P {
        &self.devices
    }

    /// Installs, extends and removes circuits as the reservations need, with a lease from now on,
    /// and reports events to the books. Call it after each change of the books or event of the
    /// devices, and several times during a lease.
    ///
    /// A fault of the store is returned, and ends no circuit: events wait, and the circuits stay as they are stored. If
    /// another instance is the writer, or may be, the devices stay as they are, until this instance is the writer.
    pub fn update(&self) -> Result<()> {
        let reported = self.report_all();
        let desired = DesiredCircuits::of(&self.books, self.zero());
        if desired.is_err() && self.is_exclusive {
            self.renew_all();
        }
        if !self.is_exclusive && !desired.as_ref().is_ok_and(|desired| desired.is_writer) {
            // the writer installs circuits that have failed again, and notes their state
            self.devices.disable();
            self.unnoted.take();
        }
        let desired = desired?;
        if !desired.is_writer {
            return reported;
        }
        // circuits of devices that were noted before do not depend on the disk
        let noted = self.note_devices();
        let mut done = reported;
        for (id, why) in &desired.broken {
            let noted = self.fail(*id, "the books", why);
            done = done.and(noted);
        }
        if !self.devices.extend(self.enabled_till()) {
            // a device that is not noted may have circuits of the writer before, which must stay
            let enabled = noted.and_then(|()| self.enable(desired.wanted));
            return done.and(enabled);
        }
        let installed = self.install(desired.wanted, noted.is_ok());
        done.and(installed).and(noted)
    }

    /// Returns the time until which the devices may be used without another look at the books.
    fn enabled_till(&self) -> Instant {
        if self.is_exclusive {
            Instant::NEVER
        } else {
            self.devices.now() + ENABLED
        }
    }

    /// Takes over the devices.
    fn enable(&self, wanted: BTreeMap<CircuitId, Circuit>) -> Result<()> {
        let now = self.devices.now();
        let lease_till = now + LEASE;
        // the books will release a reservation whose last step has just ended
        let ahead = wanted
            .into_values()
            .filter(|one| one.trc.check_ahead(now).is_ok());
        let ahead = ahead.map(|circuit| LeasedCircuit {
            circuit,
            lease_till,
        });
        let refused = self.devices.enable(ahead.collect(), self.enabled_till());
        let mut done = Ok(());
        for (id, why) in refused {
            let noted = self.fail(id, "the agent", &why.to_string());
            done = done.and(noted);
        }
        done
    }

    /// Extends the leases of all circuits.
    fn renew_all(&self) {
        let lease_till = self.devices.now() + LEASE;
        for circuit in self.devices.circuits() {
            // an event reports a circuit that ended meanwhile
            let _ = self.devices.renew(&circuit, lease_till);
        }
    }

    /// Makes the circuits at the devices equal to the wanted ones. Without `is_noted`, only devices of the record get
    /// circuits. Returns the first fault of the books.
    fn install(&self, mut wanted_all: BTreeMap<CircuitId, Circuit>, is_noted: bool) -> Result<()> {
        let lease_till = self.devices.now() + LEASE;
        // removes circuits first, to make room for new ones
        for circuit in self.devices.circuits() {
            match wanted_all.get(&circuit.id) {
                Some(wanted) if is_same(wanted, &circuit, self.devices.now()) => {
                    wanted_all.remove(&circuit.id);
                    // an event reports a circuit that ended meanwhile
                    let _ = self.devices.renew(&circuit, lease_till);
                }
                Some(_) => {}
                None => {
                    let _ = self.devices.release(&circuit);
                }
            }
        }
        let (mut is_busy, mut done) = (false, Ok(()));
        for circuit in wanted_all.values() {
            let is_known = || self.record.borrow().names().contains(&circuit.interface);
            if is_noted || is_known() {
                match self.take(circuit.clone(), lease_till) {
                    Ok(is_in_way) => is_busy |= is_in_way,
                    Err(why) => done = done.and(Err(why)),
                }
            }
        }
        if is_busy {
            self.release_crossed(&wanted_all);
        }
        done
    }

    /// Reports all events of the devices to the books.
    fn report_all(&self) -> Result<()> {
        self.report_unnoted()?;
        while let Some((interface, event)) = self.devices.poll_event() {
            self.report(interface, event)?;
        }
        Ok(())
    }

    /// Reports the event again that the books could not note.
    fn report_unnoted(&self) -> Result<()> {
        let unnoted = self.unnoted.borrow_mut().take();
        unnoted.map_or(Ok(()), |(interface, event)| self.report(interface, event))
    }

    /// Reports an event of a device to the books. It is kept if their store fails.
    fn report(&self, interface: String, event: Event) -> Result<()> {
        let noted = self.note(&interface, event.clone());
        if let Err(Error::Store(_) | Error::Io(_)) = &noted {
            *self.unnoted.borrow_mut() = Some((interface, event));
        }
        noted
    }

    /// Adds devices with reservations to the record, before they get circuits, and removes those without any.
    fn note_devices(&self) -> Result<()> {
        let mut record = self.record.borrow_mut();
        let used = note_used(&mut record, &self.books, &self.devices.names())?;
        if record.names().is_subset(&used) {
            return Ok(());
        }
        let empty = self.devices.empty();
        let unused = empty.difference(&used).cloned().collect();
        Ok(record.remove(&unused)?)
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

    /// Notes an event of a device in the books.
    fn note(&self, interface: &str, event: Event) -> Result<()> {
        match event {
            Event::Changed {
                id,
                rate: Some(rate),
                ..
            }
            | Event::Adopted(id, Some(rate)) => {
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
            | Event::Adopted(_, None)
            | Event::Ended(..)
            | Event::Repaired(_)
            | Event::StaleRemoved(_) => Ok(()),
            Event::Inspected => {
                if self.unread.borrow_mut().remove(interface).is_some() {
                    info!(interface, "a device can be read again");
                }
                Ok(())
            }
            Event::InspectFailed(why) => {
                let before = self.unread.borrow_mut().insert(interface.to_owned(), why.clone());
                // a fault that is repeated is logged once
                if before.as_ref() != Some(&why) {
                    warn!(
                        interface,
                        why,
                        "a device cannot be read; its circuits stay, and it is not known if they carry data"
                    );
                }
                Ok(())
            }
            Event::Overflow(count) => {
                warn!("{count} reports of devices were lost, since too many waited for the store");
                Ok(())
            }
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

/// Adds those of these devices to the record that have reservations, and returns them.
fn note_used(
    record: &mut DeviceRecord,
    books: &Books,
    devices: &BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    let mut used = books.circuit_interfaces()?;
    used.retain(|name| devices.contains(name));
    record.add(&used)?;
    Ok(used)
}

/// Fails the reservations with circuits at a device that is given up. Returns their numbers; none if another instance
/// is the writer.
pub fn give_up(books: &Books, name: &str) -> Result<Vec<u64>> {
    let ids = match books.writer()? {
        Writer::This => books.circuits_at(name)?,
        Writer::Other(_) => Vec::new(),
    };
    for id in &ids {
        books.fail(&device(name), *id, "its device is given up")?;
    }
    Ok(ids)
}

fn device(name: &str) -> Principal {
    Principal::new(name, Role::Device)
}

/// Tolerated drift between the clocks of books and devices, in nanoseconds.
const DRIFT_MAX: u64 = 1_000_000_000;
/// Time after which the devices of a shared store are left as they are, if the books have not answered. Another instance
/// may be the writer then. It is longer than a look at a server that answers slowly.
const ENABLED: Duration = Duration::from_secs(10);
/// Time after which circuits end if they are not renewed.
const LEASE: Duration = Duration::from_mins(1);
