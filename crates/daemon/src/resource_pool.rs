//! Shares of a daemon between its callers: [`lighthaul_base::seats`], across threads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::seats::{Full, Limits, Seats};
use lighthaul_io::crypto::identity::Fingerprint;
use lighthaul_session::error::{Code, Error};
use lighthaul_session::session::Halt;

use crate::cost::{Cost, NAMES, RESOURCES};

/// Seats of a daemon, and what their holders use.
#[derive(Debug)]
pub(crate) struct ResourcePool(Mutex<Held>);

#[derive(Debug)]
struct Held {
    seats: Seats<Fingerprint, RESOURCES>,
    /// How holders are asked to leave.
    halts: BTreeMap<u64, Arc<Halt>>,
}

/// A allocation, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Allocation {
    pool: Arc<ResourcePool>,
    number: u64,
    cost: Cost,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut held = self.pool.lock();
        held.seats.leave(self.number);
        held.halts.remove(&self.number);
    }
}

impl Allocation {
    /// Replaces what the holder uses by `cost`. An error leaves it as it was.
    pub(crate) fn replace(&mut self, cost: Cost) -> Result<(), Error> {
        self.pool.lock().reuse(self.number, cost)?;
        self.cost = cost;
        Ok(())
    }

    /// Has the holder use `least` besides, and a part of what is spare up to `most`; answers what it got.
    pub(crate) fn grow(&mut self, (least, most): (Cost, Cost)) -> Result<Cost, Error> {
        let mut held = self.pool.lock();
        // other sessions may have to leave for the least, and none for more
        held.reuse(self.number, self.cost.plus(least))?;
        let gets = least.shared(most, |resource| held.seats.spare(self.number, resource));
        held.reuse(self.number, self.cost.plus(gets))?;
        self.cost = self.cost.plus(gets);
        Ok(gets)
    }
}

impl Held {
    fn reuse(&mut self, number: u64, cost: Cost) -> Result<(), Error> {
        let left = self
            .seats
            .reuse(number, cost.uses())
            .map_err(|full| refuse(NAMES[full.resource], full))?;
        self.send_away(&left);
        Ok(())
    }

    /// Has holders leave whose seats others got.
    fn send_away(&mut self, left: &[u64]) {
        for halt in left.iter().filter_map(|number| self.halts.remove(number)) {
            halt.stop(Error::new(Code::Network, MAKE_ROOM));
        }
    }
}

impl ResourcePool {
    /// Returns free seats, with limits for each resource.
    pub(crate) fn new(limits: [Limits; RESOURCES]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Held {
            seats: Seats::new(limits),
            halts: BTreeMap::new(),
        })))
    }

    /// Takes a seat for `identity`, which calls from `address` and uses what `cost` says; who holds most may have to
    /// leave for it, by its halt.
    pub(crate) fn allocate(
        self: &Arc<Self>,
        (identity, address): (Fingerprint, IpAddr),
        cost: Cost,
        halt: &Arc<Halt>,
    ) -> Result<Allocation, Error> {
        let mut held = self.lock();
        let seated = held.seats.take(Some(identity), address, cost.uses());
        let seated = seated.map_err(|full| refuse(NAMES[full.resource], full))?;
        held.send_away(&seated.revoked);
        held.halts.insert(seated.number, Arc::clone(halt));
        drop(held);
        Ok(Allocation {
            pool: Arc::clone(self),
            number: seated.number,
            cost,
        })
    }

    /// Seats that are taken.
    pub(crate) fn allocated(&self) -> usize {
        self.lock().seats.taken()
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error of a caller that gets nothing of `what`.
pub(crate) fn refuse(what: &str, full: Full) -> Error {
    let text = format!("no {what} are free there: {full}; try again later");
    Error::new(Code::Network, text)
}

const MAKE_ROOM: &str = "all shares are in use there and others wait, so that the newest session of the key that holds most ended; try again later";

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(files: u64) -> Arc<ResourcePool> {
        let few = Limits {
            all: 4,
            identity: 4,
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
        pool.allocate((key, [10, 0, 0, digit].into()), Cost::SESSION, halt)
    }

    #[test]
    fn who_holds_most_leaves_for_who_holds_nothing_and_is_told() {
        let pool = pool(1 << 20);
        let halts: Vec<_> = (0..4).map(|_| Arc::<Halt>::default()).collect();
        let seats: Vec<_> = halts
            .iter()
            .map(|halt| allocate(&pool, 1, halt).unwrap())
            .collect();
        let error = allocate(&pool, 1, &Arc::default()).unwrap_err();
        assert!(error.text.contains("your key already holds 4"), "{error}");
        let newcomer = allocate(&pool, 2, &Arc::default()).unwrap();
        assert_eq!(halts[3].check().unwrap_err().code, Code::Network);
        assert!(halts[..3].iter().all(|halt| halt.check().is_ok()));
        // the seat that was taken from it is not given back twice
        drop(seats);
        assert_eq!(pool.allocated(), 1);
        drop(newcomer);
        assert_eq!((pool.allocated(), pool.lock().halts.len()), (0, 0));
    }

    #[test]
    fn a_session_gets_what_it_needs_or_is_refused_in_words_and_more_where_it_is_spare() {
        let pool = pool(80_000);
        let files = |least, most| {
            let cost = |files| Cost {
                files,
                ..Cost::default()
            };
            (cost(least), cost(most))
        };
        let mut seats = [1, 1, 2].map(|digit| allocate(&pool, digit, &Arc::default()).unwrap());
        assert_eq!(seats[0].grow(files(100, 500)).unwrap().files, 500);
        assert_eq!(seats[1].grow(files(30_000, 80_000)).unwrap().files, 31_347);
        let error = seats[0].grow(files(20_000, 20_000)).unwrap_err();
        assert!(
            error
                .text
                .starts_with("no open files are free there: your key already holds 40000"),
            "{error}"
        );
        // another key is not touched by that
        assert_eq!(seats[2].grow(files(20_000, 20_000)).unwrap().files, 20_000);
    }
}
