//! Resources of a daemon, shared between clients by the rules of [`lighthaul_base::seats`].
//!
//! A `ResourcePool` counts sessions, connections, MiB of memory, threads and open files. An
//! `Allocation` has those of one client, and frees them when it is dropped. If a resource is used
//! up, the newest session of the largest share ends for a client with a smaller one. Its `Halt`
//! ends it, so it may still use files for a moment. The pool only counts: it neither opens nor
//! closes anything.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::seats::{Full, Limits, Seats};
use lighthaul_copy::budget::Budget;
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::Error;
use lighthaul_session::halt::Halt;

use crate::client_identity::ClientIdentity;
use crate::cost::{Cost, NAMES, RESOURCES};
use crate::error::Fault;

/// Resources of a daemon, with the clients that use them.
#[derive(Debug)]
pub(crate) struct ResourcePool(Mutex<Held>);

#[derive(Debug)]
struct Held {
    seats: Seats<Fingerprint, RESOURCES>,
    /// Halts of the clients, which end their sessions.
    halts: BTreeMap<u64, Arc<Halt>>,
}

/// Resources of one client, which are freed on drop.
#[derive(Debug)]
pub(crate) struct Allocation {
    pool: Arc<ResourcePool>,
    number: u64,
    cost: Mutex<Cost>,
}

/// Resources of a request.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// All resources of the client. Whatever outlives the request keeps a clone until it ends.
    pub(crate) allocation: Arc<Allocation>,
    /// The part that a copy may use.
    pub(crate) budget: Budget,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut held = self.pool.lock();
        held.seats.leave(self.number);
        held.halts.remove(&self.number);
    }
}

impl Allocation {
    /// Replaces the resources of the client by `cost`. After an error they are as before.
    pub(crate) fn replace(&self, cost: Cost) -> Result<(), Error> {
        let mut present = self.cost();
        self.pool.lock().reuse(self.number, cost)?;
        *present = cost;
        Ok(())
    }

    /// Adds at least `least` and at most `most` to the resources of the client. Returns the added part.
    pub(crate) fn grow(&self, (least, most): (Cost, Cost)) -> Result<Cost, Error> {
        let mut cost = self.cost();
        let mut held = self.pool.lock();
        // other sessions may be ended for the minimum, but not for more
        held.reuse(self.number, cost.plus(least))?;
        let gets = least.shared(most, |resource| held.seats.spare(self.number, resource));
        held.reuse(self.number, cost.plus(gets))?;
        *cost = cost.plus(gets);
        Ok(gets)
    }

    fn cost(&self) -> MutexGuard<'_, Cost> {
        self.cost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn reuse(&mut self, number: u64, cost: Cost) -> Result<(), Error> {
        let left = self.seats.reuse(number, cost.uses()).map_err(refuse)?;
        self.revoke(&left);
        Ok(())
    }

    /// Ends the sessions that lost their resources to other clients.
    fn revoke(&mut self, left: &[u64]) {
        for halt in left.iter().filter_map(|number| self.halts.remove(number)) {
            halt.stop(Fault::Revoked.into());
        }
    }
}

impl ResourcePool {
    /// Creates a pool with the given limits, one for each resource.
    pub(crate) fn new(limits: [Limits; RESOURCES]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Held {
            seats: Seats::new(limits),
            halts: BTreeMap::new(),
        })))
    }

    /// Allocates `cost` for a client of `identity` at `address`. If necessary, the newest session of the identity with
    /// the largest share is ended by its halt.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        (identity, address): (ClientIdentity, IpAddr),
        cost: Cost,
        halt: &Arc<Halt>,
    ) -> Result<Allocation, Error> {
        let mut held = self.lock();
        let granted = held
            .seats
            .take_vouched(identity.vouched(), address, cost.uses());
        let granted = granted.map_err(refuse)?;
        held.revoke(&granted.revoked);
        held.halts.insert(granted.number, Arc::clone(halt));
        drop(held);
        Ok(Allocation {
            pool: Arc::clone(self),
            number: granted.number,
            cost: Mutex::new(cost),
        })
    }

    /// Returns the number of allocations.
    pub(crate) fn allocated(&self) -> usize {
        self.lock().seats.taken()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error for a client when the resource that `full` names is used up.
fn refuse(full: Full) -> Error {
    let what = NAMES[full.resource];
    Fault::NoneFree { what, full }.into()
}

#[cfg(test)]
mod tests {
    use lighthaul_session::error::Code;

    use super::*;

    fn pool(files: u64) -> Arc<ResourcePool> {
        let few = Limits {
            all: 4,
            identity: 4,
            authority: 4,
            host: 4,
            site: 4,
        };
        let much = Limits::parts_of(1 << 20);
        ResourcePool::new([few, much, much, much, Limits::parts_of(files)])
    }

    fn allocate(
        pool: &Arc<ResourcePool>,
        digit: u8,
        halt: &Arc<Halt>,
    ) -> Result<Allocation, Error> {
        let key = Fingerprint::from_octets([digit; 32]);
        pool.allocate(
            (ClientIdentity::listed(key), [10, 0, 0, digit].into()),
            Cost::SESSION,
            halt,
        )
    }

    #[test]
    fn newest_session_of_the_largest_share_ends_for_a_new_identity() {
        let pool = pool(1 << 20);
        let halts: Vec<_> = (0..4).map(|_| Arc::<Halt>::default()).collect();
        let allocations: Vec<_> = halts
            .iter()
            .map(|halt| allocate(&pool, 1, halt).unwrap())
            .collect();
        let error = allocate(&pool, 1, &Arc::default()).unwrap_err();
        assert!(error.text().contains("your key already holds 4"), "{error}");
        let newcomer = allocate(&pool, 2, &Arc::default()).unwrap();
        assert_eq!(halts[3].check().unwrap_err().code(), Code::Network);
        assert!(halts[..3].iter().all(|halt| halt.check().is_ok()));
        // the revoked allocation is not returned twice
        drop(allocations);
        assert_eq!(pool.allocated(), 1);
        drop(newcomer);
        assert_eq!((pool.allocated(), pool.lock().halts.len()), (0, 0));
    }

    #[test]
    fn client_that_replaces_its_resources_frees_the_old_resources() {
        let pool = pool(400);
        let cost = |files| Cost {
            files,
            ..Cost::SESSION
        };
        let first = allocate(&pool, 1, &Arc::default()).unwrap();
        let second = allocate(&pool, 1, &Arc::default()).unwrap();
        first.replace(cost(150)).unwrap();
        // one key has half of them
        assert!(second.replace(cost(100)).is_err());
        first.replace(cost(20)).unwrap();
        assert!(second.replace(cost(100)).is_ok());
    }

    #[test]
    fn session_gets_its_minimum_or_an_error_and_more_where_resources_are_free() {
        let pool = pool(80_000);
        let files = |least, most| {
            let cost = |files| Cost {
                files,
                ..Cost::default()
            };
            (cost(least), cost(most))
        };
        let allocations = [1, 1, 2].map(|digit| allocate(&pool, digit, &Arc::default()).unwrap());
        assert_eq!(allocations[0].grow(files(100, 500)).unwrap().files, 500);
        assert_eq!(
            allocations[1].grow(files(30_000, 80_000)).unwrap().files,
            31_347
        );
        let error = allocations[0].grow(files(20_000, 20_000)).unwrap_err();
        assert!(
            error
                .text()
                .starts_with("no open files are free there: your key already holds 40000"),
            "{error}"
        );
        // another identity is not affected
        assert_eq!(
            allocations[2].grow(files(20_000, 20_000)).unwrap().files,
            20_000
        );
    }
}
