//! Distribution of connections over the elements of a cluster.

use lighthaul_base::Rng;

/// Number of buckets, into which a hash divides connections.
pub const BUCKETS: u16 = 256;

/// Set of elements of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementSet(u32);

impl ElementSet {
    /// Returns the set with element `nth`.
    #[must_use]
    pub const fn and(self, nth: u8) -> Self {
        Self(self.0 | 1 << nth)
    }

    /// Returns true if element `nth` is in the set.
    pub const fn contains(self, nth: u8) -> bool {
        self.0 & 1 << nth != 0
    }

    /// Returns the number of elements.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Returns the element with the lowest number.
    pub fn first(self) -> Option<u8> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as u8)
    }
}

/// Distribution of buckets over the live elements of a cluster of `members`.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    members: u8,
    alive: ElementSet,
}

impl Distribution {
    /// Creates the distribution over the elements `alive`.
    pub const fn new(members: u8, alive: ElementSet) -> Self {
        Self { members, alive }
    }

    /// Returns the element for new connections of the bucket `bucket`.
    pub fn owner(self, bucket: u16) -> Option<u8> {
        self.order(bucket)
            .into_iter()
            .find(|nth| self.alive.contains(*nth))
    }

    /// Returns the element to which `me` passes packets without a socket.
    pub fn next(self, bucket: u16, me: u8) -> Option<u8> {
        let order = self.order(bucket).into_iter();
        let mut behind = order.skip_while(|nth| *nth != me).skip(1);
        behind.find(|nth| self.alive.contains(*nth))
    }

    /// Returns all elements in order. Each is first for an equal number of buckets. The rest is shuffled, so that the
    /// buckets of a dead element are divided among all others.
    fn order(self, bucket: u16) -> Vec<u8> {
        let first = (bucket % u16::from(self.members)) as u8;
        let mut order: Vec<u8> = (0..self.members).collect();
        order.sort_by_key(|nth| (*nth != first, shuffled(bucket, *nth)));
        order
    }
}

/// Returns a pseudorandom number for a bucket and an element.
const fn shuffled(bucket: u16, nth: u8) -> u64 {
    Rng::new((bucket as u64) << 8 | nth as u64).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(members: u8) -> ElementSet {
        (0..members).fold(ElementSet::default(), ElementSet::and)
    }

    fn without(members: u8, gone: &[u8]) -> ElementSet {
        let alive = (0..members).filter(|nth| !gone.contains(nth));
        alive.fold(ElementSet::default(), ElementSet::and)
    }

    fn shares(distribution: Distribution) -> Vec<usize> {
        let mut shares = vec![0; distribution.members.into()];
        for bucket in 0..BUCKETS {
            shares[usize::from(distribution.owner(bucket).unwrap())] += 1;
        }
        shares
    }

    #[test]
    fn elements_have_equal_shares_before_and_after_a_failure() {
        for members in 1..=32 {
            let whole = shares(Distribution::new(members, all(members)));
            let fair = usize::from(BUCKETS) / usize::from(members);
            assert!(whole.iter().all(|share| (fair..=fair + 1).contains(share)));
        }
        let (whole, less) = (
            Distribution::new(4, all(4)),
            Distribution::new(4, without(4, &[1])),
        );
        for bucket in 0..BUCKETS {
            let (before, after) = (whole.owner(bucket), less.owner(bucket));
            assert!(before == after || before == Some(1), "bucket {bucket}");
        }
        let left = shares(less);
        assert!(
            left[1] == 0 && left.iter().all(|share| *share == 0 || *share > 75),
            "{left:?}"
        );
        assert_eq!(Distribution::new(4, ElementSet::default()).owner(7), None);
    }

    #[test]
    fn connection_finds_its_element_after_other_elements_failed_or_returned() {
        let members = 5_u8;
        let subsets = || {
            (1..1_u32 << members).map(|bits| {
                let these = (0..members).filter(|nth| bits & 1 << nth != 0);
                these.fold(ElementSet::default(), ElementSet::and)
            })
        };
        for bucket in 0..BUCKETS {
            for then in subsets() {
                let holder = Distribution::new(members, then).owner(bucket).unwrap();
                for now in subsets().filter(|now| now.contains(holder)) {
                    let distribution = Distribution::new(members, now);
                    let mut at = distribution.owner(bucket).unwrap();
                    // no element on the way has a socket for it
                    while at != holder {
                        at = distribution
                            .next(bucket, at)
                            .expect("the holder is on the way");
                    }
                }
            }
        }
    }
}
