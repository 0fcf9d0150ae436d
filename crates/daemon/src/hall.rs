//! Who holds which sessions and connections of a daemon: the shares of [`lighthaul_base::seats`], across threads.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lighthaul_base::seats::{Full, Limits, Seats};
use lighthaul_io::identity::Fingerprint;
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::session::Halt;

/// Seats of one kind.
#[derive(Debug)]
pub(crate) struct Hall {
    what: &'static str,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    seats: Seats<Fingerprint>,
    /// How holders are asked to leave.
    halts: BTreeMap<u64, Arc<Halt>>,
}

/// A seat, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    hall: Arc<Hall>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.hall.lock();
        held.seats.leave(self.number);
        held.halts.remove(&self.number);
    }
}

impl Hall {
    /// Returns free seats within `limits`, of what the plural `what` names.
    pub(crate) fn new(what: &'static str, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            what,
            held: Mutex::new(Held {
                seats: Seats::new(limits),
                halts: BTreeMap::new(),
            }),
        })
    }

    /// Takes a seat for `identity`, which calls from `address`; who holds most may have to leave for it, by its halt.
    pub(crate) fn sit(
        self: &Arc<Self>,
        identity: Fingerprint,
        address: IpAddr,
        halt: &Arc<Halt>,
    ) -> Result<Seat, Error> {
        let mut held = self.lock();
        let taken = held.seats.take(identity, address);
        let taken = taken.map_err(|full| self.refuse(full))?;
        let leaves = taken.revoked.and_then(|number| held.halts.remove(&number));
        held.halts.insert(taken.number, Arc::clone(halt));
        drop(held);
        if let Some(leaves) = leaves {
            leaves.stop(self.make_room());
        }
        Ok(Seat {
            hall: Arc::clone(self),
            number: taken.number,
        })
    }

    /// Seats that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.lock().seats.taken()
    }

    fn refuse(&self, full: Full) -> Error {
        let text = format!("no {} are free there: {full}; try again later", self.what);
        Error::new(Code::Network, text)
    }

    fn make_room(&self) -> Error {
        let text = format!(
            "the {} there are all in use and others wait, so that the newest of the key that holds most ended; try again later",
            self.what
        );
        Error::new(Code::Network, text)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_most_leaves_for_who_holds_nothing_and_is_told() {
        let limits = Limits {
            all: 4,
            identity: 4,
            host: 4,
            site: 4,
        };
        let hall = Hall::new("sessions", limits);
        let key = |digit| Fingerprint::from_octets([digit; 32]);
        let halts: Vec<_> = (0..4).map(|_| Arc::<Halt>::default()).collect();
        let sit = |digit, halt: &Arc<Halt>| hall.sit(key(digit), [10, 0, 0, digit].into(), halt);
        let seats: Vec<_> = halts.iter().map(|halt| sit(1, halt).unwrap()).collect();
        let error = sit(1, &Arc::default()).unwrap_err();
        assert!(error.text.contains("your key already holds 4"), "{error}");
        let newcomer = sit(2, &Arc::default()).unwrap();
        assert_eq!(halts[3].check().unwrap_err().code, Code::Network);
        assert!(halts[..3].iter().all(|halt| halt.check().is_ok()));
        // the seat that was taken from it is not given back twice
        drop(seats);
        assert_eq!(hall.taken(), 1);
        drop(newcomer);
        assert_eq!((hall.taken(), hall.lock().halts.len()), (0, 0));
    }
}
