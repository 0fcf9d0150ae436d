//! Circuits for what the books have promised: introduces [`Agent`] to [`Books`].
//!
//! What should stand at the devices follows from the books at any moment, so it is compared with what stands rather than
//! told step by step: nothing is missed after a crash, a failure or a change of the writer.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Instant, Trc};
use lighthaul_calendar::{Limits, Topology};
use lighthaul_circuit::agent::{Agent, LeasedCircuit};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::controller::{Ending, Event};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::error as circuit;
use lighthaul_io::host::clock::Clock;

use crate::books::{Books, Role, Who};
use crate::error::{Error, Result};
use crate::word::{Moment, Reservation};

/// A topology that knows what the devices at its interfaces keep.
pub fn equip(
    mut topology: Topology,
    drivers: &BTreeMap<String, Box<dyn Driver>>,
) -> Result<Topology> {
    for (name, driver) in drivers {
        let can = driver.capabilities();
        let limits = Limits {
            capacity: can.rate_max,
            channel: can.granularity,
            least: can.rate_min,
            guard: can.guard,
            circuits_max: can.entries_max,
        };
        let equipped = topology.equip(name, limits);
        equipped.map_err(|why| Error::Misuse(why.to_string()))?;
    }
    Ok(topology)
}

/// Devices, and what is kept at them. [`Agent`] has real ones.
pub trait Posts {
    /// Time by the clock of the devices.
    fn now(&self) -> Instant;
    /// Circuits that are kept.
    fn circuits(&self) -> Vec<Circuit>;
    /// Keeps a circuit, or gives one that is kept another vector.
    fn take(&self, circuit: Circuit, lease_till: Instant) -> circuit::Result<()>;
    /// Lets a circuit last longer.
    fn renew(&self, circuit: &Circuit, lease_till: Instant) -> circuit::Result<()>;
    /// Ends a circuit.
    fn release(&self, circuit: &Circuit) -> circuit::Result<()>;
    /// Returns what has happened at some interface and was not told yet.
    fn poll_event(&self) -> Option<(String, Event)>;
}

/// Keeps the circuits of the books at devices.
#[derive(Debug)]
pub struct Tender<P> {
    books: Arc<Books>,
    posts: P,
    /// The moment at which the clock of the devices was zero, as far as the clock of the host has not been set since.
    zero: Cell<Moment>,
}

/// Keeps the circuits of the books at the devices of this host.
#[derive(Debug)]
pub struct Circuits {
    tender: Tender<Agents>,
}

/// The agent of this host, and its clock.
#[derive(Debug)]
struct Agents {
    agent: Agent,
    clock: Clock,
}

impl Circuits {
    /// Takes over the devices: what the books want goes on or is made, and what else carries our mark goes. `now` is what
    /// the clock of the books says.
    pub fn start(
        books: Arc<Books>,
        drivers: BTreeMap<String, Box<dyn Driver>>,
        clock: Clock,
        now: Moment,
    ) -> Result<Self> {
        let zero = Moment(now.0.saturating_sub(clock.now().as_nanos()));
        let wishes = Wishes::of(&books, zero)?;
        let lease_till = clock.now() + LEASE;
        let wanted = wishes.wanted.into_values().map(|circuit| LeasedCircuit {
            circuit,
            lease_till,
        });
        let (agent, refused) = Agent::start(clock, drivers, wanted.collect())
            .map_err(|why| Error::Misuse(why.to_string()))?;
        let tender = Tender::new(books, Agents { agent, clock }, zero);
        for (id, why) in refused {
            tender.fail(id, "the agent", &why.to_string())?;
        }
        Ok(Self { tender })
    }

    /// See [`Tender::tend`].
    pub fn tend(&self) -> Result<()> {
        self.tender.tend()
    }

    /// Waits for news of the devices till a moment of the agent's clock, and tells the books.
    pub fn wait(&self, till: Instant) -> Result<()> {
        if let Some((interface, event)) = self.tender.posts.agent.wait_event(till)? {
            self.tender.report(interface, event)?;
        }
        Ok(())
    }

    /// The clock by which [`Circuits::wait`] waits.
    pub const fn clock(&self) -> Clock {
        self.tender.posts.clock
    }
}

impl Posts for Agents {
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

impl<P: Posts> Tender<P> {
    /// Keeps what `books` want at `posts`, whose clock was zero at `zero`.
    pub const fn new(books: Arc<Books>, posts: P, zero: Moment) -> Self {
        Self {
            books,
            posts,
            zero: Cell::new(zero),
        }
    }

    /// The devices.
    pub const fn posts(&self) -> &P {
        &self.posts
    }

    /// Has the devices keep what the books want, for as long as a lease from now on, and tells the books what has become of
    /// it. It is to be called whenever the books or the devices have news, and several times in a lease.
    pub fn tend(&self) -> Result<()> {
        while let Some((interface, event)) = self.posts.poll_event() {
            self.report(&interface, event)?;
        }
        let mut wishes = Wishes::of(&self.books, self.zero())?;
        if !wishes.are_ours {
            // the instance that writes keeps the circuits, and these fall with their leases
            return Ok(());
        }
        for (id, why) in wishes.broken {
            self.fail(id, "the books", &why)?;
        }
        let lease_till = self.posts.now() + LEASE;
        // what goes makes room for what comes
        for circuit in self.posts.circuits() {
            match wishes.wanted.get(&circuit.id) {
                Some(wanted) if is_same(wanted, &circuit, self.posts.now()) => {
                    wishes.wanted.remove(&circuit.id);
                    // one that ended meanwhile is told of by an event
                    let _ = self.posts.renew(&circuit, lease_till);
                }
                Some(_) => {}
                None => {
                    let _ = self.posts.release(&circuit);
                }
            }
        }
        let mut is_busy = false;
        for circuit in wishes.wanted.values() {
            is_busy |= self.take(circuit.clone(), lease_till)?;
        }
        if is_busy {
            self.untie(&wishes.wanted);
        }
        Ok(())
    }

    /// The moment at which the clock of the devices was zero. When the clock of the host was set, circuits have other times by
    /// that of the devices; the two clocks may differ by a little.
    fn zero(&self) -> Moment {
        let now = self.posts.now().as_nanos();
        let zero = Moment(self.books.now().0.saturating_sub(now));
        if zero.0.abs_diff(self.zero.get().0) > DRIFT_MAX {
            self.zero.set(zero);
        }
        self.zero.get()
    }

    /// Releases circuits that have not begun and are to be changed: two that each want the other's time would wait for each
    /// other. They are taken again when they are gone.
    fn untie(&self, wanted: &BTreeMap<CircuitId, Circuit>) {
        let now = self.posts.now();
        for circuit in self.posts.circuits() {
            let wanted = wanted.get(&circuit.id);
            if circuit.trc.start() > now && wanted.is_some_and(|one| !is_same(one, &circuit, now)) {
                let _ = self.posts.release(&circuit);
            }
        }
    }

    /// Takes a circuit; says whether another one stands in its way.
    fn take(&self, circuit: Circuit, lease_till: Instant) -> Result<bool> {
        if circuit.trc.check_ahead(self.posts.now()).is_err() {
            // its last step has just ended, and the books will see to it
            return Ok(false);
        }
        let (id, interface) = (circuit.id, circuit.interface.clone());
        match self.posts.take(circuit, lease_till) {
            Ok(()) => Ok(false),
            // what stands in its way is about to go: it is taken the next time
            Err(circuit::Error::Busy { .. }) => Ok(true),
            Err(why) => self.fail(id, &interface, &why.to_string()).map(|()| false),
        }
    }

    /// Tells the books what a device says.
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
                "its circuit was not renewed in time: see whether the scheduler was halted",
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

/// What the books want of the devices.
struct Wishes {
    wanted: BTreeMap<CircuitId, Circuit>,
    /// What cannot be a circuit, and why.
    broken: Vec<(CircuitId, String)>,
    /// Whether this instance is the one that sees to it.
    are_ours: bool,
}

impl Wishes {
    fn of(books: &Books, zero: Moment) -> Result<Self> {
        let mut wishes = Self {
            wanted: BTreeMap::new(),
            broken: Vec::new(),
            are_ours: false,
        };
        let Some(reservations) = books.circuits()? else {
            return Ok(wishes);
        };
        wishes.are_ours = true;
        for reservation in reservations {
            let id = CircuitId(reservation.id);
            match circuit(&reservation, zero) {
                Ok(Some(circuit)) => {
                    wishes.wanted.insert(id, circuit);
                }
                Ok(None) => {}
                Err(why) => wishes.broken.push((id, why)),
            }
        }
        Ok(wishes)
    }
}

/// A reservation's circuit, with moments of a clock that began at `zero`.
fn circuit(
    reservation: &Reservation,
    zero: Moment,
) -> std::result::Result<Option<Circuit>, String> {
    let Some(flow) = &reservation.request.flow else {
        return Ok(None);
    };
    let steps = reservation.steps.iter().filter_map(|step| {
        Some(lighthaul_base::trc::Step {
            from: step.from.since(zero),
            till: step.till.since(zero),
            rate: lighthaul_base::Rate::from_bps(step.rate_bps)?,
        })
    });
    // what was over before the clock began is nothing to it
    let steps = steps.filter(|step| step.from < step.till).collect();
    let trc = Trc::new(steps).map_err(|why| why.to_string())?;
    Ok(Some(Circuit {
        id: CircuitId(reservation.id),
        interface: flow.interface.clone(),
        flow: flow.packets,
        trc,
    }))
}

impl Moment {
    /// The same by a clock that began at `zero`; its beginning, for what was before.
    const fn since(self, zero: Self) -> Instant {
        Instant::from_nanos(self.0.saturating_sub(zero.0))
    }
}

/// Whether what is kept does all that is wanted from now on.
fn is_same(wanted: &Circuit, kept: &Circuit, now: Instant) -> bool {
    let ahead = |circuit: &Circuit| {
        let steps = circuit.trc.steps().iter().filter(|step| step.till > now);
        steps.copied().collect::<Vec<_>>()
    };
    wanted.flow == kept.flow && wanted.interface == kept.interface && ahead(wanted) == ahead(kept)
}

fn device(name: &str) -> Who {
    Who::new(name, Role::Device)
}

/// By how much the clocks of books and devices may drift apart, in nanoseconds.
const DRIFT_MAX: u64 = 1_000_000_000;
/// How long circuits stand when nobody renews them.
const LEASE: Duration = Duration::from_mins(1);
