//! Circuits for what the books have promised: introduces [`Agent`] to [`Books`].
//!
//! What should stand at the devices follows from the books at any moment, so it is compared with what stands rather than
//! told step by step: nothing is missed after a crash, a failure or a change of the writer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lighthaul_base::{Instant, Trc};
use lighthaul_circuit::agent::{Agent, Wanted};
use lighthaul_circuit::circuit::{Circuit, CircuitId};
use lighthaul_circuit::driver::Driver;
use lighthaul_circuit::keeper::{Ending, Event};
use lighthaul_io::clock::Clock;

use crate::books::{Books, Role, Who};
use crate::error::{Error, Result};
use crate::word::{Moment, Reservation};

/// Keeps the circuits of the books at the devices of this host.
#[derive(Debug)]
pub struct Circuits {
    books: Arc<Books>,
    agent: Agent,
    clock: Clock,
    /// The moment at which `clock` was zero.
    zero: Moment,
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
        let wanted = wishes.wanted.into_values().map(|circuit| Wanted {
            circuit,
            lease_till,
        });
        let (agent, refused) = Agent::start(clock, drivers, wanted.collect())
            .map_err(|why| Error::Misuse(why.to_string()))?;
        let circuits = Self {
            books,
            agent,
            clock,
            zero,
        };
        for (id, why) in refused {
            circuits.fail(id, "the agent", &why.to_string())?;
        }
        Ok(circuits)
    }

    /// Has the devices keep what the books want, for as long as a lease from now on, and tells the books what has become of
    /// it. It is to be called whenever the books or the devices have news, and several times in a lease.
    pub fn tend(&self) -> Result<()> {
        while let Some((interface, event)) = self.agent.poll_event() {
            self.report(interface, event)?;
        }
        let mut wishes = Wishes::of(&self.books, self.zero)?;
        if !wishes.are_ours {
            // the instance that writes keeps the circuits, and these fall with their leases
            return Ok(());
        }
        for (id, why) in wishes.broken {
            self.fail(id, "the books", &why)?;
        }
        let lease_till = self.clock.now() + LEASE;
        for Wanted { circuit, .. } in self.agent.circuits() {
            match wishes.wanted.remove(&circuit.id) {
                Some(wanted) if is_same(&wanted, &circuit, self.clock.now()) => {
                    // one that ended meanwhile is told of by an event
                    let _ = self.agent.renew(&circuit.interface, circuit.id, lease_till);
                }
                Some(wanted) => self.take(wanted, lease_till)?,
                None => {
                    let _ = self.agent.release(&circuit.interface, circuit.id);
                }
            }
        }
        for circuit in wishes.wanted.into_values() {
            self.take(circuit, lease_till)?;
        }
        Ok(())
    }

    /// Waits for news of the devices till a moment of the agent's clock, and tells the books.
    pub fn wait(&self, till: Instant) -> Result<()> {
        if let Some((interface, event)) = self.agent.wait_event(till)? {
            self.report(interface, event)?;
        }
        Ok(())
    }

    /// The clock by which [`Circuits::wait`] waits.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    fn take(&self, circuit: Circuit, lease_till: Instant) -> Result<()> {
        if circuit.trc.check_ahead(self.clock.now()).is_err() {
            // its last step has just ended, and the books will see to it
            return Ok(());
        }
        let (id, interface) = (circuit.id, circuit.interface.clone());
        match self.agent.take(circuit, lease_till) {
            Ok(()) => Ok(()),
            Err(why) => self.fail(id, &interface, &why.to_string()),
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
            Event::Made(_)
            | Event::Changed { rate: None, .. }
            | Event::Ended(..)
            | Event::Mended(_)
            | Event::Cleared(_)
            | Event::Blind(_)
            | Event::Lost(_) => Ok(()),
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

/// How long circuits stand when nobody renews them.
const LEASE: Duration = Duration::from_mins(1);
