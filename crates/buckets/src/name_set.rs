//! Set of names in little memory: it has a hash of each.
//!
//! The hash has 128 bits and a random key. Two of a billion names have the same one with a chance below 2^-68.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// Set of names.
#[derive(Debug, Default)]
pub struct NameSet {
    hashes: BTreeSet<u128>,
    keys: [RandomState; 2],
}

impl NameSet {
    /// Adds a name. Returns false if the set has it.
    pub fn add(&mut self, name: &(impl Hash + ?Sized)) -> bool {
        self.hashes.insert(self.hash(name))
    }

    /// Returns true if the set has a name.
    pub fn has(&self, name: &(impl Hash + ?Sized)) -> bool {
        self.hashes.contains(&self.hash(name))
    }

    /// Returns the number of names.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    fn hash(&self, name: &(impl Hash + ?Sized)) -> u128 {
        let [one, other] = &self.keys;
        (u128::from(one.hash_one(name)) << 64) | u128::from(other.hash_one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        let mut names = NameSet::default();
        for number in 0..1000 {
            assert!(names.add(format!("name-{number}").as_str()));
        }
        assert!(!names.add("name-7"));
        assert!(names.has("name-999") && !names.has("name-1000"));
        assert_eq!(names.count(), 1000);
    }
}
