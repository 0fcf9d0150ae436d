//! Order of the keys in a list. It makes all keys below a directory follow each other.
//!
//! S3 sorts keys by their octets. Some servers sort names of files, directory by directory.

/// Check of the order, key by key.
#[derive(Debug)]
pub(crate) struct KeyOrder {
    /// All keys so far are in the order of their octets.
    by_octets: bool,
    /// All keys so far are in the order of their parts.
    by_parts: bool,
    /// Objects whose keys begin the last key, the shortest first, and the last key.
    above: Vec<String>,
}

impl KeyOrder {
    pub(crate) const fn new() -> Self {
        Self {
            by_octets: true,
            by_parts: true,
            above: Vec::new(),
        }
    }

    /// Takes the next key. Returns false if it has no place in either order.
    pub(crate) fn take(&mut self, key: &str) -> bool {
        if let Some(last) = self.above.last() {
            self.by_octets &= last.as_str() < key;
            self.by_parts &= last.split('/').lt(key.split('/'));
        }
        self.above.retain(|above| key.starts_with(above));
        self.above.push(key.to_owned());
        self.by_octets || self.by_parts
    }

    /// Returns the object that has the name of a directory of the last key, if there is one. `prefix` is the directory that
    /// is listed.
    pub(crate) fn object_above(&self, prefix: &str) -> Option<&str> {
        let last = self.above.last()?;
        let is_above = |above: &&String| {
            above.len() > prefix.len() && last.as_bytes().get(above.len()) == Some(&b'/')
        };
        self.above.iter().find(is_above).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_of_keys_are_known() {
        for (keys, is_order) in [
            (&["a", "a-b", "a/x", "a/y", "b"][..], true),
            (&["a/x", "a/y", "a-b", "b"], true),
            (&["a-b", "a/x", "a-c"], false),
            (&["b", "a"], false),
            (&["a", "a"], false),
            (&["a/x", "b", "a/y"], false),
            (&["a-b", "a/x", "b/x", "b-a"], false),
        ] {
            let mut order = KeyOrder::new();
            let all = keys.iter().all(|key| order.take(key));
            assert_eq!(all, is_order, "{keys:?}");
        }
    }

    #[test]
    fn object_with_the_name_of_a_directory_is_found() {
        for (keys, above) in [
            (&["p/a", "p/a-b", "p/a/x"][..], Some("p/a")),
            (&["p/a", "p/a-b", "p/a/"], Some("p/a")),
            (&["p/a", "p/a-b", "p/aa"], None),
            (&["p/a", "p/b", "p/c/x/y"], None),
            (&["p/a", "p/a/x/y"], Some("p/a")),
        ] {
            let mut order = KeyOrder::new();
            assert!(keys.iter().all(|key| order.take(key)));
            assert_eq!(order.object_above("p/"), above, "{keys:?}");
        }
    }
}
