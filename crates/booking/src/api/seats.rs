//! Seats for those who hear of changes: so many in all, and so many for each name, so that nobody takes them all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seats that are left, and who has the others.
#[derive(Clone, Debug)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    left: usize,
    each: usize,
    by: BTreeMap<String, usize>,
}

/// A seat; it is free again when this goes.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    name: String,
}

impl Seats {
    /// So many seats, of which each name may have so many.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken {
            left: all,
            each,
            by: BTreeMap::new(),
        })))
    }

    /// How many are left.
    pub(crate) fn left(&self) -> usize {
        self.lock().left
    }

    /// A seat for `name`, or why there is none.
    pub(crate) fn take(&self, name: &str) -> Result<Seat, &'static str> {
        let mut taken = self.lock();
        if taken.left == 0 {
            return Err("as many listen as may: try again when somebody has left");
        }
        let each = taken.each;
        let own = taken.by.entry(name.to_owned()).or_default();
        if *own == each {
            return Err("as many listen under this name as may: close one of them first");
        }
        *own += 1;
        taken.left -= 1;
        drop(taken);
        Ok(Seat {
            seats: self.clone(),
            name: name.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.left += 1;
        if let Some(own) = taken.by.get_mut(&self.name) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_seats_and_who_leaves_makes_room() {
        let seats = Seats::new(3, 2);
        let first = seats.take("a").unwrap();
        let _second = seats.take("a").unwrap();
        assert!(seats.take("a").unwrap_err().contains("this name"));
        let other = seats.take("b").unwrap();
        assert_eq!(seats.left(), 0);
        assert!(seats.take("c").unwrap_err().contains("as many listen as"));
        drop(first);
        let _third = seats.take("a").unwrap();
        drop(other);
        assert_eq!(seats.left(), 1);
        let names: Vec<String> = seats.lock().by.keys().cloned().collect();
        assert_eq!(names, ["a"], "who has left is forgotten");
    }
}
