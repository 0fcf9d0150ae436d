//! The threads that keep circuits: one for each device, which has a controller and a driver.
//!
//! "Maintenance of the schedules for switch reprogramming should ideally be at the switches themselves with
//! timer-based triggers" (section 3.4 of the VBLS paper): an agent has the whole vectors and needs nobody while they
//! last. A device that fails or is slow holds up nobody but itself.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lighthaul_base::{Instant, Rate};
use lighthaul_io::host::clock::{Clock, lower_timer_slack};
use lighthaul_io::host::wait::{Sign, Watch, wait};
use rustix::process::setpriority_process;

use crate::circuit::{Circuit, CircuitId};
use crate::controller::{Controller, Event, Work};
use crate::driver::{Capabilities, Change, Driver};
use crate::error::{Error, Result};

/// Keeps circuits at devices, each called by its interface. When it is dropped its circuits go with it; when its process
/// is killed they stay as they are, and the next agent takes them over or away.
#[derive(Debug)]
pub struct Agent {
    clock: Clock,
    devices: BTreeMap<String, Device>,
    event_sign: Sign,
}

/// A circuit and how long it may last without being renewed.
#[derive(Clone, Debug)]
pub struct LeasedCircuit {
    /// The circuit.
    pub circuit: Circuit,
    /// The end of its lease, by the agent's clock.
    pub lease_till: Instant,
}

/// One device and the thread at it.
#[derive(Debug)]
struct Device {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    controller: Mutex<Controller>,
    capabilities: Capabilities,
    /// There is something new for the thread.
    sign: Sign,
    is_ending: AtomicBool,
}

impl Agent {
    /// Starts a thread for each driver. What stands at the devices is compared with `wanted` first: what is in both
    /// goes on, what is missing is made, and what carries our mark and is not wanted goes. What cannot be taken is
    /// answered with the reason.
    pub fn start(
        clock: Clock,
        drivers: BTreeMap<String, Box<dyn Driver>>,
        wanted: Vec<LeasedCircuit>,
    ) -> Result<(Self, Vec<(CircuitId, Error)>)> {
        let mut agent = Self {
            clock,
            devices: BTreeMap::new(),
            event_sign: Sign::new().map_err(Error::world("make an event"))?,
        };
        let mut idle = Vec::new();
        for (interface, driver) in drivers {
            let shared = Arc::new(Shared::new(driver.capabilities())?);
            idle.push((interface.clone(), driver, Arc::clone(&shared)));
            let device = Device {
                shared,
                thread: None,
            };
            agent.devices.insert(interface, device);
        }
        let mut refused = Vec::new();
        for LeasedCircuit {
            circuit,
            lease_till,
        } in wanted
        {
            let id = circuit.id;
            if let Err(why) = agent.put(circuit, lease_till) {
                refused.push((id, why));
            }
        }
        for (interface, driver, shared) in idle {
            let worker = Worker {
                clock,
                driver,
                shared,
                event_sign: agent.event_sign.clone(),
            };
            let thread = thread::Builder::new()
                .name(format!("circuits {interface}"))
                .spawn(move || worker.run())
                .map_err(Error::world("start a thread"))?;
            if let Some(device) = agent.devices.get_mut(&interface) {
                device.thread = Some(thread);
            }
        }
        Ok((agent, refused))
    }

    /// What the device behind an interface can do.
    pub fn capabilities(&self, interface: &str) -> Result<Capabilities> {
        self.device(interface)
            .map(|device| device.shared.capabilities)
    }

    /// Keeps a circuit, or gives one that is kept another vector.
    pub fn put(&self, circuit: Circuit, lease_till: Instant) -> Result<()> {
        let shared = &self.device(&circuit.interface)?.shared;
        shared
            .controller()
            .put(self.clock.now(), circuit, lease_till)?;
        shared.sign.raise();
        Ok(())
    }

    /// Lets a circuit last till `till`.
    pub fn renew(&self, interface: &str, id: CircuitId, till: Instant) -> Result<()> {
        let shared = &self.device(interface)?.shared;
        shared.controller().renew(self.clock.now(), id, till)?;
        shared.sign.raise();
        Ok(())
    }

    /// Ends a circuit now.
    pub fn release(&self, interface: &str, id: CircuitId) -> Result<()> {
        let shared = &self.device(interface)?.shared;
        shared.controller().release(self.clock.now(), id)?;
        shared.sign.raise();
        Ok(())
    }

    /// All circuits that are kept.
    pub fn circuits(&self) -> Vec<LeasedCircuit> {
        let mut all = Vec::new();
        for device in self.devices.values() {
            let controller = device.shared.controller();
            all.extend(
                controller
                    .circuits()
                    .map(|(circuit, lease_till)| LeasedCircuit {
                        circuit: circuit.clone(),
                        lease_till,
                    }),
            );
        }
        all
    }

    /// What happened at some device and was not told yet, with its interface.
    pub fn poll_event(&self) -> Option<(&str, Event)> {
        self.devices.iter().find_map(|(interface, device)| {
            let event = device.shared.controller().poll_event()?;
            Some((interface.as_str(), event))
        })
    }

    /// What has happened next, for which it waits till `till`.
    pub fn wait_event(&self, till: Instant) -> io::Result<Option<(&str, Event)>> {
        loop {
            self.event_sign.lower();
            let event = self.poll_event();
            if event.is_some() || till <= self.clock.now() {
                return Ok(event);
            }
            wait(
                self.clock,
                &mut [Watch::read(self.event_sign.as_raw_fd())],
                till,
            )?;
            self.event_sign.drain();
        }
    }

    fn device(&self, interface: &str) -> Result<&Device> {
        self.devices.get(interface).ok_or_else(|| {
            let known: Vec<&str> = self.devices.keys().map(String::as_str).collect();
            let known = known.join(", ");
            Error::Misuse(format!(
                "no driver is set up for the interface {interface}, only for: {known}"
            ))
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        for device in self.devices.values() {
            device.shared.is_ending.store(true, Ordering::Release);
            device.shared.sign.raise();
        }
        for device in self.devices.values_mut() {
            let thread = device.thread.take();
            // a thread that panicked has said so
            let _ = thread.map(JoinHandle::join);
        }
    }
}

impl Shared {
    fn new(capabilities: Capabilities) -> Result<Self> {
        Ok(Self {
            controller: Mutex::new(Controller::new(capabilities)?),
            capabilities,
            sign: Sign::new().map_err(Error::world("make an event"))?,
            is_ending: AtomicBool::new(false),
        })
    }

    /// Nobody holds it while a device works.
    fn controller(&self) -> MutexGuard<'_, Controller> {
        self.controller
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread has.
struct Worker {
    clock: Clock,
    driver: Box<dyn Driver>,
    shared: Arc<Shared>,
    event_sign: Sign,
}

impl Worker {
    fn run(mut self) {
        lower_timer_slack();
        // what it keeps in bounds wants every processor; where that may not be, it is late at times
        let _ = setpriority_process(None, PRIORITY);
        while !self.shared.is_ending.load(Ordering::Acquire) {
            self.shared.sign.lower();
            let now = self.clock.now();
            let work = self.shared.controller().poll_work(now);
            let Work::Wait(till) = work else {
                self.work(work);
                self.event_sign.raise();
                continue;
            };
            let mut watches = [Watch::read(self.shared.sign.as_raw_fd())];
            if wait(self.clock, &mut watches, till).is_err() {
                // poll fails for want of memory alone; not to spin is all that can be done
                thread::park_timeout(PAUSE);
            }
            self.shared.sign.drain();
        }
        self.end();
    }

    /// Has the device do what is due, and tells the controller what it answered.
    fn work(&mut self, work: Work) {
        match work {
            Work::Apply(changes) => self.apply(&changes),
            Work::Remove(id) => {
                let answer = self.driver.remove(id);
                let now = self.clock.now();
                self.shared.controller().handle_removed(now, id, answer);
            }
            Work::Inspect => {
                let answer = self.driver.inspect();
                let now = self.clock.now();
                self.shared.controller().handle_inspected(now, answer);
            }
            Work::Wait(_) => {}
        }
    }

    fn apply(&mut self, changes: &[(CircuitId, Option<Rate>)]) {
        let circuits: Vec<(Circuit, Option<Rate>)> = {
            let controller = self.shared.controller();
            let known = |(id, rate): &(_, _)| Some((controller.circuit(*id)?.clone(), *rate));
            changes.iter().filter_map(known).collect()
        };
        let changes: Vec<Change<'_>> = circuits
            .iter()
            .map(|(circuit, rate)| Change {
                circuit,
                rate: *rate,
            })
            .collect();
        let mut answers = self.driver.apply(&changes).into_iter();
        let now = self.clock.now();
        let mut controller = self.shared.controller();
        for change in changes {
            let answer = answers.next().unwrap_or_else(|| {
                let why = "it did not answer for every change that it was told".to_owned();
                Err(Error::Device(why))
            });
            controller.handle_applied(now, change.circuit.id, change.rate, answer);
        }
    }

    /// Leaves nothing at the device; one that fails is not asked again.
    fn end(&mut self) {
        let now = self.clock.now();
        self.shared.controller().release_all(now);
        let mut tries = self.shared.capabilities.entries_max * 2;
        loop {
            let now = self.clock.now();
            let work = self.shared.controller().poll_work(now);
            if matches!(work, Work::Wait(_)) || tries == 0 {
                return;
            }
            self.work(work);
            tries -= 1;
        }
    }
}

/// Ahead of others, but not of the kernel's own.
const PRIORITY: i32 = -15;
/// How long a thread rests that cannot wait.
const PAUSE: Duration = Duration::from_millis(10);
