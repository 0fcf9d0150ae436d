//! Which element takes which connections.

use lighthaul_base::Rng;

/// Parts into which connections fall by a hash.
pub const BUCKETS: u16 = 256;

/// Some elements of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ElementSet(u32);

impl ElementSet {
    /// These and element `nth`.
    #[must_use]
    pub const fn and(self, nth: u8) -> Self {
        Self(self.0 | 1 << nth)
    }

    /// Whether element `nth` is one of them.
    pub const fn contains(self, nth: u8) -> bool {
        self.0 & 1 << nth != 0
    }

    /// How many they are.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The one with the lowest number.
    pub fn first(self) -> Option<u8> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as u8)
    }
}

/// Where the connections of buckets go, in a cluster of `members` of which some live.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    members: u8,
    living: ElementSet,
}

impl Distribution {
    /// The distribution over `living` of `members`.
    pub const fn new(members: u8, living: ElementSet) -> Self {
        Self { members, living }
    }

    /// Who takes new connections of this bucket.
    pub fn owner(self, bucket: u16) -> Option<u8> {
        self.order(bucket)
            .into_iter()
            .find(|nth| self.living.contains(*nth))
    }

    /// To whom `me` hands what belongs to no socket here.
    pub fn next(self, bucket: u16, me: u8) -> Option<u8> {
        let order = self.order(bucket).into_iter();
        let mut behind = order.skip_while(|nth| *nth != me).skip(1);
        behind.find(|nth| self.living.contains(*nth))
    }

    /// All elements; each is the first for as many buckets as any other, and those behind it are shuffled, so that what
    /// one leaves goes to all others.
    fn order(self, bucket: u16) -> Vec<u8> {
        let first = (bucket % u16::from(self.members)) as u8;
        let mut order: Vec<u8> = (0..self.members).collect();
        order.sort_by_key(|nth| (*nth != first, shuffled(bucket, *nth)));
        order
    }
}

/// A number that says nothing of these two.
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
        let living = (0..members).filter(|nth| !gone.contains(nth));
        living.fold(ElementSet::default(), ElementSet::and)
    }

    fn shares(distribution: Distribution) -> Vec<usize> {
        let mut shares = vec![0; distribution.members.into()];
        for bucket in 0..BUCKETS {
            shares[usize::from(distribution.owner(bucket).unwrap())] += 1;
        }
        shares
    }

    #[test]
    fn everybody_has_as_much_as_others_and_what_one_leaves_goes_to_all_others() {
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
    fn a_connection_finds_its_element_whoever_died_or_returned_since() {
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
                    // everybody on the way has no socket for it
                    while at != holder {
                        at = distribution.next(bucket, at).expect("it is on the way");
                    }
                }
            }
        }
    }
}
