//! Slots for event streams: limited in all, and for each name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of free slots, and of slots that each name holds.
#[derive(Clone, Debug)]
pub(crate) struct ListenerSlots(Arc<Mutex<Slots>>);

#[derive(Debug)]
struct Slots {
    left: usize,
    each: usize,
    by: BTreeMap<String, usize>,
}

/// Slot that is freed on drop.
#[derive(Debug)]
pub(crate) struct ListenerSlot {
    slots: ListenerSlots,
    name: String,
}

/// Limit that leaves no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSlot {
    /// Limit of all identities together.
    #[error("all event streams are in use: try again later")]
    Total,
    /// The identity has reached its limit.
    #[error("all event streams of this identity are in use: close one first")]
    Identity,
}

impl ListenerSlots {
    /// Returns `all` slots; each name may hold `each` of them.
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Mutex::new(Slots {
            left: all,
            each,
            by: BTreeMap::new(),
        })))
    }

    /// Returns the number of free slots.
    pub(crate) fn left(&self) -> usize {
        self.lock().left
    }

    /// Takes a slot for `name`.
    pub(crate) fn take(&self, name: &str) -> Result<ListenerSlot, NoSlot> {
        let mut taken = self.lock();
        if taken.left == 0 {
            return Err(NoSlot::Total);
        }
        let each = taken.each;
        let own = taken.by.entry(name.to_owned()).or_default();
        if *own == each {
            return Err(NoSlot::Identity);
        }
        *own += 1;
        taken.left -= 1;
        drop(taken);
        Ok(ListenerSlot {
            slots: self.clone(),
            name: name.to_owned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ListenerSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
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
    fn slots_are_limited_for_each_name_and_free_after_use() {
        let slots = ListenerSlots::new(3, 2);
        let first = slots.take("a").unwrap();
        let _second = slots.take("a").unwrap();
        assert_eq!(slots.take("a").unwrap_err(), NoSlot::Identity);
        let other = slots.take("b").unwrap();
        assert_eq!(slots.left(), 0);
        assert_eq!(slots.take("c").unwrap_err(), NoSlot::Total);
        drop(first);
        let _third = slots.take("a").unwrap();
        drop(other);
        assert_eq!(slots.left(), 1);
        let names: Vec<String> = slots.lock().by.keys().cloned().collect();
        assert_eq!(names, ["a"], "names without slots are not kept");
    }
}
