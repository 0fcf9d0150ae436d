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
pub(crate) struct Hall(Mutex<Held>);

#[derive(Debug)]
struct Held {
    seats: Seats<Fingerprint, RESOURCES>,
    /// How holders are asked to leave.
    halts: BTreeMap<u64, Arc<Halt>>,
}

/// A seat, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    hall: Arc<Hall>,
    number: u64,
    cost: Cost,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.hall.lock();
        held.seats.leave(self.number);
        held.halts.remove(&self.number);
    }
}

impl Seat {
    /// Replaces what the holder uses by `cost`. An error leaves it as it was.
    pub(crate) fn exchange(&mut self, cost: Cost) -> Result<(), Error> {
        self.hall.lock().reuse(self.number, cost)?;
        self.cost = cost;
        Ok(())
    }

    /// Has the holder use `least` besides, and a part of what is spare up to `most`; answers what it got.
    pub(crate) fn extend(&mut self, (least, most): (Cost, Cost)) -> Result<Cost, Error> {
        let mut held = self.hall.lock();
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

impl Hall {
    /// Returns free seats, with limits for each resource.
    pub(crate) fn new(limits: [Limits; RESOURCES]) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Held {
            seats: Seats::new(limits),
            halts: BTreeMap::new(),
        })))
    }

    /// Takes a seat for `identity`, which calls from `address` and uses what `cost` says; who holds most may have to
    /// leave for it, by its halt.
    pub(crate) fn sit(
        self: &Arc<Self>,
        (identity, address): (Fingerprint, IpAddr),
        cost: Cost,
        halt: &Arc<Halt>,
    ) -> Result<Seat, Error> {
        let mut held = self.lock();
        let seated = held.seats.take(Some(identity), address, cost.uses());
        let seated = seated.map_err(|full| refuse(NAMES[full.resource], full))?;
        held.send_away(&seated.revoked);
        held.halts.insert(seated.number, Arc::clone(halt));
        drop(held);
        Ok(Seat {
            hall: Arc::clone(self),
            number: seated.number,
            cost,
        })
    }

    /// Seats that are taken.
    pub(crate) fn taken(&self) -> usize {
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

const MAKE_ROOM: &str = "all shares are in use there and others wait, so that the newest session of the key or network that holds most ended; try again later";

#[cfg(test)]
mod tests {
    use super::*;

    fn hall(files: u64) -> Arc<Hall> {
        let few = Limits {
            all: 4,
            identity: 4,
            host: 4,
            site: 4,
        };
        let much = Limits::parts_of(1 << 20);
        Hall::new([few, much, much, much, Limits::parts_of(files)])
    }

    fn sit(hall: &Arc<Hall>, digit: u8, halt: &Arc<Halt>) -> Result<Seat, Error> {
        let key = Fingerprint::from_octets([digit; 32]);
        hall.sit((key, [10, 0, 0, digit].into()), Cost::SESSION, halt)
    }

    #[test]
    fn who_holds_most_leaves_for_who_holds_nothing_and_is_told() {
        let hall = hall(1 << 20);
        let halts: Vec<_> = (0..4).map(|_| Arc::<Halt>::default()).collect();
        let seats: Vec<_> = halts
            .iter()
            .map(|halt| sit(&hall, 1, halt).unwrap())
            .collect();
        let error = sit(&hall, 1, &Arc::default()).unwrap_err();
        assert!(error.text.contains("your key already holds 4"), "{error}");
        let newcomer = sit(&hall, 2, &Arc::default()).unwrap();
        assert_eq!(halts[3].check().unwrap_err().code, Code::Network);
        assert!(halts[..3].iter().all(|halt| halt.check().is_ok()));
        // the seat that was taken from it is not given back twice
        drop(seats);
        assert_eq!(hall.taken(), 1);
        drop(newcomer);
        assert_eq!((hall.taken(), hall.lock().halts.len()), (0, 0));
    }

    #[test]
    fn a_session_gets_what_it_needs_or_is_refused_in_words_and_more_where_it_is_spare() {
        let hall = hall(80_000);
        let files = |least, most| {
            let cost = |files| Cost {
                files,
                ..Cost::default()
            };
            (cost(least), cost(most))
        };
        let mut seats = [1, 1, 2].map(|digit| sit(&hall, digit, &Arc::default()).unwrap());
        assert_eq!(seats[0].extend(files(100, 500)).unwrap().files, 500);
        assert_eq!(
            seats[1].extend(files(30_000, 80_000)).unwrap().files,
            31_347
        );
        let error = seats[0].extend(files(20_000, 20_000)).unwrap_err();
        assert!(
            error
                .text
                .starts_with("no open files are free there: your key already holds 40000"),
            "{error}"
        );
        // another key is not touched by that
        assert_eq!(
            seats[2].extend(files(20_000, 20_000)).unwrap().files,
            20_000
        );
    }
}
