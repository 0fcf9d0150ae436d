//! Attributes of the objects that a copy has listed last, so that their readers need no further request for them.
//!
//! Each request of a reader names the `ETag` of these attributes. So an object that has changed since fails.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use lighthaul_buckets::attributes::Attributes;

/// Attributes of objects, the newest ones.
#[derive(Debug, Default)]
pub(crate) struct KnownObjects(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_key: BTreeMap<String, Attributes>,
    /// Keys, the oldest first.
    keys: VecDeque<String>,
}

impl KnownObjects {
    /// Adds an object, unless its version has no name.
    pub(crate) fn add(&self, key: &str, attributes: &Attributes) {
        if attributes.etag.is_none() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.by_key.insert(key.to_owned(), attributes.clone());
        if before.is_none() {
            known.keys.push_back(key.to_owned());
        }
        if known.keys.len() > OBJECTS_MAX
            && let Some(oldest) = known.keys.pop_front()
        {
            known.by_key.remove(&oldest);
        }
    }

    /// Returns the attributes of an object, if they are known.
    pub(crate) fn get(&self, key: &str) -> Option<Attributes> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.by_key.get(key).cloned()
    }
}

/// Maximum number of objects, about 10 MiB of memory. Their readers follow the list closely.
const OBJECTS_MAX: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_objects_with_a_version_are_known() {
        let of_size = |size, etag: Option<&str>| Attributes {
            size,
            etag: etag.map(str::to_owned),
            ..Attributes::default()
        };
        let known = KnownObjects::default();
        known.add("none", &of_size(1, None));
        assert_eq!(known.get("none"), None);
        for number in 0..=OBJECTS_MAX as u64 {
            known.add(&number.to_string(), &of_size(number, Some("x")));
            known.add(&number.to_string(), &of_size(number + 1, Some("y")));
        }
        assert_eq!(known.get("0"), None);
        assert_eq!(known.get("1"), Some(of_size(2, Some("y"))));
        let known = known.0.into_inner().unwrap();
        assert_eq!(
            (known.keys.len(), known.by_key.len()),
            (OBJECTS_MAX, OBJECTS_MAX)
        );
    }
}
