//! Agent that enforces circuits at devices: one thread with a controller and a driver for each device.
//!
//! "Maintenance of the schedules for switch reprogramming should ideally be at the switches themselves with
//! timer-based triggers" (section 3.4 of the VBLS paper): an agent has the whole vectors and needs no messages until
//! they end. A failed or slow device delays no other. A disabled agent uses no device, since another agent controls them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::{Clock, lower_timer_slack};
use lighthaul_io::host::wait::{Waker, Watch, wait};
use rustix::process::setpriority_process;

use crate::circuit::{Circuit, CircuitId};
use crate::controller::{Event, Work};
use crate::driver::{Capabilities, Change, Driver};
use crate::error::{Error, Misuse, Result, Task};
use crate::switched_controller::SwitchedController;

/// Agent for devices that are named by their interfaces. Its circuits are removed when it is dropped, unless it is
/// disabled. They stay when its process is killed, and the next agent adopts or removes them.
#[derive(Debug)]
pub struct Agent {
    clock: Clock,
    devices: BTreeMap<String, Device>,
    event_waker: Waker,
}

/// Circuit with a lease.
#[derive(Clone, Debug)]
pub struct LeasedCircuit {
    /// The circuit.
    pub circuit: Circuit,
    /// End of the lease by the agent's clock.
    pub lease_till: Instant,
}

/// Device and its thread.
#[derive(Debug)]
struct Device {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    switched: Mutex<SwitchedController>,
    capabilities: Capabilities,
    /// Raised when the controller has new work.
    waker: Waker,
    is_ending: AtomicBool,
}

impl Agent {
    /// Starts a disabled agent, and enables it for good: see [`Self::start_disabled`] and [`Self::enable`].
    pub fn start(
        clock: Clock,
        drivers: BTreeMap<String, Box<dyn Driver>>,
        wanted: Vec<LeasedCircuit>,
    ) -> Result<(Self, Vec<(CircuitId, Error)>)> {
        let agent = Self::start_disabled(clock, drivers)?;
        let refused = agent.enable(wanted, Instant::NEVER);
        Ok((agent, refused))
    }

    /// Starts a thread for each driver. No driver is called before [`Self::enable`].
    pub fn start_disabled(
        clock: Clock,
        drivers: BTreeMap<String, Box<dyn Driver>>,
    ) -> Result<Self> {
        let mut agent = Self {
            clock,
            devices: BTreeMap::new(),
            event_waker: Waker::new().map_err(Error::world(Task::Event))?,
        };
        for (interface, driver) in drivers {
            let shared = Arc::new(Shared::new(driver.capabilities())?);
            let worker = Worker {
                clock,
                driver,
                shared: Arc::clone(&shared),
                event_waker: agent.event_waker.clone(),
            };
            let thread = thread::Builder::new()
                .name(format!("circuits {interface}"))
                .spawn(move || worker.run())
                .map_err(Error::world(Task::Thread))?;
            let thread = Some(thread);
            agent.devices.insert(interface, Device { shared, thread });
        }
        Ok(agent)
    }

    /// Lets the agent use its devices until `till`. Each device is compared with `wanted` first: existing circuits
    /// continue, missing ones are created, and all others of an agent are removed. Returns refused circuits with the
    /// reasons.
    pub fn enable(&self, wanted: Vec<LeasedCircuit>, till: Instant) -> Vec<(CircuitId, Error)> {
        // a device that is still enabled would remove circuits that are not added yet
        self.disable();
        let mut refused = Vec::new();
        for LeasedCircuit {
            circuit,
            lease_till,
        } in wanted
        {
            let id = circuit.id;
            if let Err(why) = self.put(circuit, lease_till) {
                refused.push((id, why));
            }
        }
        for device in self.devices.values() {
            device.shared.switched().enable(till);
            device.shared.waker.raise();
        }
        refused
    }

    /// Lets the agent use its devices until `till`, if it is enabled. Otherwise it is disabled, and false is returned.
    pub fn extend(&self, till: Instant) -> bool {
        let now = self.clock.now();
        let mut devices = self.devices.values();
        let is_enabled = devices.all(|device| device.shared.switched().extend(now, till));
        if !is_enabled {
            self.disable();
        }
        is_enabled
    }

    /// Makes the agent forget its circuits and events, and leave the devices as they are. A call of a driver that has
    /// begun ends.
    pub fn disable(&self) {
        for device in self.devices.values() {
            device.shared.switched().disable();
        }
    }

    /// Returns the capabilities of the device at `interface`.
    pub fn capabilities(&self, interface: &str) -> Result<Capabilities> {
        self.device(interface)
            .map(|device| device.shared.capabilities)
    }

    /// Returns the names of the devices.
    pub fn interfaces(&self) -> impl Iterator<Item = &String> {
        self.devices.keys()
    }

    /// Returns true if the device at `interface` was read without circuits, and has got none since.
    pub fn is_empty(&self, interface: &str) -> bool {
        let device = self.devices.get(interface);
        device.is_some_and(|one| one.shared.switched().is_empty)
    }

    /// Adds a circuit, or replaces the vector of an existing one.
    pub fn put(&self, circuit: Circuit, lease_till: Instant) -> Result<()> {
        let shared = &self.device(&circuit.interface)?.shared;
        let now = self.clock.now();
        shared
            .switched()
            .controller()
            .put(now, circuit, lease_till)?;
        shared.waker.raise();
        Ok(())
    }

    /// Extends the lease of a circuit to `till`.
    pub fn renew(&self, interface: &str, id: CircuitId, till: Instant) -> Result<()> {
        let shared = &self.device(interface)?.shared;
        let now = self.clock.now();
        shared.switched().controller().renew(now, id, till)?;
        shared.waker.raise();
        Ok(())
    }

    /// Removes a circuit now.
    pub fn release(&self, interface: &str, id: CircuitId) -> Result<()> {
        let shared = &self.device(interface)?.shared;
        let now = self.clock.now();
        shared.switched().controller().release(now, id)?;
        shared.waker.raise();
        Ok(())
    }

    /// Returns all circuits.
    pub fn circuits(&self) -> Vec<LeasedCircuit> {
        let mut all = Vec::new();
        for device in self.devices.values() {
            let mut switched = device.shared.switched();
            all.extend(
                switched
                    .controller()
                    .circuits()
                    .map(|(circuit, lease_till)| LeasedCircuit {
                        circuit: circuit.clone(),
                        lease_till,
                    }),
            );
        }
        all
    }

    /// Returns the next event of any device, with its interface.
    pub fn poll_event(&self) -> Option<(&str, Event)> {
        self.devices.iter().find_map(|(interface, device)| {
            let event = device.shared.switched().controller().poll_event()?;
            Some((interface.as_str(), event))
        })
    }

    /// Waits for the next event until `till`.
    pub fn wait_event(&self, till: Instant) -> io::Result<Option<(&str, Event)>> {
        loop {
            self.event_waker.lower();
            let event = self.poll_event();
            if event.is_some() || till <= self.clock.now() {
                return Ok(event);
            }
            wait(
                self.clock,
                &mut [Watch::read(self.event_waker.as_raw_fd())],
                till,
            )?;
            self.event_waker.drain();
        }
    }

    fn device(&self, interface: &str) -> Result<&Device> {
        self.devices.get(interface).ok_or_else(|| {
            let known: Vec<&str> = self.devices.keys().map(String::as_str).collect();
            let known = known.join(", ");
            let interface = interface.to_owned();
            Misuse::UnknownInterface { interface, known }.into()
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        for device in self.devices.values() {
            device.shared.is_ending.store(true, Ordering::Release);
            device.shared.waker.raise();
        }
        for device in self.devices.values_mut() {
            let thread = device.thread.take();
            // a panic has been logged
            let _ = thread.map(JoinHandle::join);
        }
    }
}

impl Shared {
    fn new(capabilities: Capabilities) -> Result<Self> {
        Ok(Self {
            switched: Mutex::new(SwitchedController::new(capabilities)?),
            capabilities,
            waker: Waker::new().map_err(Error::world(Task::Event))?,
            is_ending: AtomicBool::new(false),
        })
    }

    /// Locks the controller. No thread holds the lock while a device works.
    fn switched(&self) -> MutexGuard<'_, SwitchedController> {
        self.switched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State of a thread.
struct Worker {
    clock: Clock,
    driver: Box<dyn Driver>,
    shared: Arc<Shared>,
    event_waker: Waker,
}

impl Worker {
    fn run(mut self) {
        lower_timer_slack();
        // programs on every processor may compete with it; without the priority, changes are late at times
        let _ = setpriority_process(None, PRIORITY);
        while !self.shared.is_ending.load(Ordering::Acquire) {
            self.shared.waker.lower();
            let now = self.clock.now();
            let (work, period) = self.shared.switched().poll_work(now);
            let Work::Wait(till) = work else {
                self.work(work, period);
                self.event_waker.raise();
                continue;
            };
            let mut watches = [Watch::read(self.shared.waker.as_raw_fd())];
            if wait(self.clock, &mut watches, till).is_err() {
                // poll fails for lack of memory only; the pause avoids a busy loop
                thread::park_timeout(PAUSE);
            }
            self.shared.waker.drain();
        }
        self.end();
    }

    /// Has the driver do the work of a period, and passes the result to the controller, unless it was disabled meanwhile.
    fn work(&mut self, work: Work, period: u64) {
        match work {
            Work::Apply(changes) => self.apply(&changes, period),
            Work::Remove(id) => {
                let answer = self.driver.remove(id);
                let now = self.clock.now();
                if let Some(controller) = self.shared.switched().of_period(period) {
                    controller.handle_removed(now, id, answer);
                }
            }
            Work::Inspect => {
                let answer = self.driver.inspect();
                let now = self.clock.now();
                let is_empty = answer.as_ref().is_ok_and(Vec::is_empty);
                let mut switched = self.shared.switched();
                if let Some(controller) = switched.of_period(period) {
                    controller.handle_inspected(now, answer);
                    switched.is_empty = is_empty;
                }
            }
            Work::Wait(_) => {}
        }
    }

    fn apply(&mut self, changes: &[(CircuitId, Option<Rate>)], period: u64) {
        let circuits: Vec<(Circuit, Option<Rate>, Option<Duration>)> = {
            let mut switched = self.shared.switched();
            let Some(controller) = switched.of_period(period) else {
                return;
            };
            let known = |(id, rate): &(_, _)| {
                let circuit = controller.circuit(*id)?.clone();
                Some((circuit, *rate, controller.timer(*id, *rate)))
            };
            let known = changes.iter().filter_map(known).collect();
            switched.is_empty = false;
            known
        };
        let changes = circuits.iter().map(|(circuit, rate, timer)| Change {
            circuit,
            rate: *rate,
            timer: *timer,
        });
        let changes: Vec<Change<'_>> = changes.collect();
        let mut answers = self.driver.apply(&changes).into_iter();
        let now = self.clock.now();
        let mut switched = self.shared.switched();
        let Some(controller) = switched.of_period(period) else {
            return;
        };
        for change in changes {
            let answer = answers.next().unwrap_or(Err(Error::NoAnswer));
            controller.handle_applied(now, change.circuit.id, change.rate, answer);
        }
    }

    /// Removes all circuits of the device, unless it is disabled. A failed removal is not repeated.
    fn end(&mut self) {
        let now = self.clock.now();
        self.shared.switched().controller().release_all(now);
        let mut tries = self.shared.capabilities.entries_max * 2;
        loop {
            let now = self.clock.now();
            let (work, period) = self.shared.switched().poll_work(now);
            if matches!(work, Work::Wait(_)) || tries == 0 {
                return;
            }
            self.work(work, period);
            tries -= 1;
        }
    }
}

/// Priority above other programs, and below the kernel's own threads.
const PRIORITY: i32 = -15;
/// Pause of a thread that cannot wait.
const PAUSE: Duration = Duration::from_millis(10);
