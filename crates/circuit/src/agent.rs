//! The threads that keep circuits: one for each device, which has a keeper and a driver.
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
use crate::driver::{Capabilities, Change, Driver};
use crate::error::{Error, Result};
use crate::keeper::{Event, Keeper, Work};

/// Keeps circuits at devices, each called by its interface. When it is dropped its circuits go with it; when its process
/// is killed they stay as they are, and the next agent takes them over or away.
#[derive(Debug)]
pub struct Agent {
    clock: Clock,
    posts: BTreeMap<String, Post>,
    news: Sign,
}

/// A circuit and how long it may last without being renewed.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The circuit.
    pub circuit: Circuit,
    /// The end of its lease, by the agent's clock.
    pub lease_till: Instant,
}

/// One device and the thread at it.
#[derive(Debug)]
struct Post {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    keeper: Mutex<Keeper>,
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
        wanted: Vec<Wanted>,
    ) -> Result<(Self, Vec<(CircuitId, Error)>)> {
        let mut agent = Self {
            clock,
            posts: BTreeMap::new(),
            news: Sign::new().map_err(Error::world("make an event"))?,
        };
        let mut idle = Vec::new();
        for (interface, driver) in drivers {
            let shared = Arc::new(Shared::new(driver.capabilities())?);
            idle.push((interface.clone(), driver, Arc::clone(&shared)));
            let post = Post {
                shared,
                thread: None,
            };
            agent.posts.insert(interface, post);
        }
        let mut refused = Vec::new();
        for Wanted {
            circuit,
            lease_till,
        } in wanted
        {
            let id = circuit.id;
            if let Err(why) = agent.take(circuit, lease_till) {
                refused.push((id, why));
            }
        }
        for (interface, driver, shared) in idle {
            let worker = Worker {
                clock,
                driver,
                shared,
                news: agent.news.clone(),
            };
            let thread = thread::Builder::new()
                .name(format!("circuits {interface}"))
                .spawn(move || worker.run())
                .map_err(Error::world("start a thread"))?;
            if let Some(post) = agent.posts.get_mut(&interface) {
                post.thread = Some(thread);
            }
        }
        Ok((agent, refused))
    }

    /// What the device behind an interface can do.
    pub fn capabilities(&self, interface: &str) -> Result<Capabilities> {
        self.post(interface).map(|post| post.shared.capabilities)
    }

    /// Keeps a circuit, or gives one that is kept another vector.
    pub fn take(&self, circuit: Circuit, lease_till: Instant) -> Result<()> {
        let shared = &self.post(&circuit.interface)?.shared;
        shared
            .keeper()
            .take(self.clock.now(), circuit, lease_till)?;
        shared.sign.raise();
        Ok(())
    }

    /// Lets a circuit last till `till`.
    pub fn renew(&self, interface: &str, id: CircuitId, till: Instant) -> Result<()> {
        let shared = &self.post(interface)?.shared;
        shared.keeper().renew(self.clock.now(), id, till)?;
        shared.sign.raise();
        Ok(())
    }

    /// Ends a circuit now.
    pub fn release(&self, interface: &str, id: CircuitId) -> Result<()> {
        let shared = &self.post(interface)?.shared;
        shared.keeper().release(self.clock.now(), id)?;
        shared.sign.raise();
        Ok(())
    }

    /// All circuits that are kept.
    pub fn circuits(&self) -> Vec<Wanted> {
        let mut all = Vec::new();
        for post in self.posts.values() {
            let keeper = post.shared.keeper();
            all.extend(keeper.circuits().map(|(circuit, lease_till)| Wanted {
                circuit: circuit.clone(),
                lease_till,
            }));
        }
        all
    }

    /// What happened at some device and was not told yet, with its interface.
    pub fn poll_event(&self) -> Option<(&str, Event)> {
        self.posts.iter().find_map(|(interface, post)| {
            let event = post.shared.keeper().poll_event()?;
            Some((interface.as_str(), event))
        })
    }

    /// What has happened next, for which it waits till `till`.
    pub fn wait_event(&self, till: Instant) -> io::Result<Option<(&str, Event)>> {
        loop {
            self.news.lower();
            let event = self.poll_event();
            if event.is_some() || till <= self.clock.now() {
                return Ok(event);
            }
            wait(self.clock, &mut [Watch::read(self.news.as_raw_fd())], till)?;
            self.news.drain();
        }
    }

    fn post(&self, interface: &str) -> Result<&Post> {
        self.posts.get(interface).ok_or_else(|| {
            let known: Vec<&str> = self.posts.keys().map(String::as_str).collect();
            let known = known.join(", ");
            Error::Misuse(format!(
                "no driver is set up for the interface {interface}, only for: {known}"
            ))
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        for post in self.posts.values() {
            post.shared.is_ending.store(true, Ordering::Release);
            post.shared.sign.raise();
        }
        for post in self.posts.values_mut() {
            let thread = post.thread.take();
            // a thread that panicked has said so
            let _ = thread.map(JoinHandle::join);
        }
    }
}

impl Shared {
    fn new(capabilities: Capabilities) -> Result<Self> {
        Ok(Self {
            keeper: Mutex::new(Keeper::new(capabilities)?),
            capabilities,
            sign: Sign::new().map_err(Error::world("make an event"))?,
            is_ending: AtomicBool::new(false),
        })
    }

    /// Nobody holds it while a device works.
    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a thread has.
struct Worker {
    clock: Clock,
    driver: Box<dyn Driver>,
    shared: Arc<Shared>,
    news: Sign,
}

impl Worker {
    fn run(mut self) {
        lower_timer_slack();
        // what it keeps in bounds wants every processor; where that may not be, it is late at times
        let _ = setpriority_process(None, PRIORITY);
        while !self.shared.is_ending.load(Ordering::Acquire) {
            self.shared.sign.lower();
            let now = self.clock.now();
            let work = self.shared.keeper().poll_work(now);
            let Work::Wait(till) = work else {
                self.work(work);
                self.news.raise();
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

    /// Has the device do what is due, and tells the keeper what it answered.
    fn work(&mut self, work: Work) {
        match work {
            Work::Apply(changes) => self.apply(&changes),
            Work::Remove(id) => {
                let answer = self.driver.remove(id);
                let now = self.clock.now();
                self.shared.keeper().handle_removed(now, id, answer);
            }
            Work::Inspect => {
                let answer = self.driver.inspect();
                let now = self.clock.now();
                self.shared.keeper().handle_inspected(now, answer);
            }
            Work::Wait(_) => {}
        }
    }

    fn apply(&mut self, changes: &[(CircuitId, Option<Rate>)]) {
        let circuits: Vec<(Circuit, Option<Rate>)> = {
            let keeper = self.shared.keeper();
            let known = |(id, rate): &(_, _)| Some((keeper.circuit(*id)?.clone(), *rate));
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
        let mut keeper = self.shared.keeper();
        for change in changes {
            let answer = answers.next().unwrap_or_else(|| {
                let why = "it did not answer for every change that it was told".to_owned();
                Err(Error::Device(why))
            });
            keeper.handle_applied(now, change.circuit.id, change.rate, answer);
        }
    }

    /// Leaves nothing at the device; one that fails is not asked again.
    fn end(&mut self) {
        let now = self.clock.now();
        self.shared.keeper().release_all(now);
        let mut tries = self.shared.capabilities.entries_max * 2;
        loop {
            let now = self.clock.now();
            let work = self.shared.keeper().poll_work(now);
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
