//! Fair shares of a bounded number of seats: sessions, connections or links that identities hold from addresses.
//!
//! Nobody takes more than its limit. Where all seats are taken, a newcomer whose identity holds less than another's
//! takes the newest seat of the identity that holds most, so that shares tend to be equal (max-min fairness) and no
//! set of greedy identities keeps another out.

use alloc::collections::BTreeMap;
use core::fmt;
use core::net::IpAddr;

use crate::prefix::Prefix;

/// Most seats of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of all identities together.
    pub all: u32,
    /// Of one identity.
    pub identity: u32,
    /// Of one host: an IPv4 address, or an IPv6 /64.
    pub host: u32,
    /// Of one site: an IPv4 /24, or an IPv6 /56 or /48.
    pub site: u32,
}

/// Why a newcomer gets no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Its identity holds as many as one may, or its share of all.
    Identity(u32),
    /// Its host does.
    Host(u32),
    /// Its site does.
    Site(u32),
    /// All are taken, and no identity holds more than the newcomer's would.
    All(u32),
}

/// A seat that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seated {
    /// Its number, with which it is given back.
    pub number: u64,
    /// The seat that was taken from another for it, whose holder has to leave.
    pub instead_of: Option<u64>,
}

/// Seats, and the callers that hold them. `I` names an identity.
#[derive(Debug)]
pub struct Seats<I> {
    limits: Limits,
    /// By number, so that the last is the newest.
    held: BTreeMap<u64, Holder<I>>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder<I> {
    identity: I,
    places: [Prefix; 3],
}

impl<I: Copy + Ord> Seats<I> {
    /// Returns free seats within `limits`.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            held: BTreeMap::new(),
            next: 0,
        }
    }

    /// Seats that are taken.
    pub fn taken(&self) -> usize {
        self.held.len()
    }

    /// Takes a seat for `identity`, which calls from `address`.
    pub fn take(&mut self, identity: I, address: IpAddr) -> Result<Seated, Full> {
        let newcomer = Holder {
            identity,
            places: Prefix::all(address),
        };
        let most = self.limits.identity;
        if self.count(|holder| holder.identity == identity) >= most {
            return Err(Full::Identity(most));
        }
        let instead_of = match self.bottleneck(&newcomer) {
            None => None,
            Some((within, full)) => Some(self.richest(&newcomer, within).ok_or(full)?),
        };
        if let Some(number) = instead_of {
            self.held.remove(&number);
        }
        let number = self.next;
        self.next += 1;
        self.held.insert(number, newcomer);
        Ok(Seated { number, instead_of })
    }

    /// Gives a seat back; one that somebody else got is gone already.
    pub fn leave(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// The group that has no seat left for `newcomer`: those of its host, of its site, or all.
    fn bottleneck(&self, newcomer: &Holder<I>) -> Option<(Option<Prefix>, Full)> {
        let [host, sites @ ..] = newcomer.places;
        let count = |place| self.count(|holder| holder.places.contains(&place));
        if count(host) >= self.limits.host {
            return Some((Some(host), Full::Host(self.limits.host)));
        }
        let full = sites
            .into_iter()
            .find(|site| count(*site) >= self.limits.site);
        if full.is_some() {
            return Some((full, Full::Site(self.limits.site)));
        }
        let all = self.limits.all;
        (self.held.len() >= all as usize).then_some((None, Full::All(all)))
    }

    /// The newest seat of the identity that holds most `within` a group, if that is more than the newcomer's will.
    fn richest(&self, newcomer: &Holder<I>, within: Option<Prefix>) -> Option<u64> {
        let is_in = |holder: &Holder<I>| within.is_none_or(|place| holder.places.contains(&place));
        let mut seats: BTreeMap<I, (u32, u64)> = BTreeMap::new();
        for (number, holder) in self.held.iter().filter(|(_, holder)| is_in(holder)) {
            let (count, newest) = seats.entry(holder.identity).or_default();
            *count += 1;
            *newest = *number;
        }
        let own = seats.get(&newcomer.identity).map_or(0, |(count, _)| *count);
        let richest = seats.into_values().max();
        richest
            .filter(|(count, _)| *count > own + 1)
            .map(|(_, newest)| newest)
    }

    fn count(&self, counts: impl Fn(&Holder<I>) -> bool) -> u32 {
        self.held.values().filter(|holder| counts(holder)).count() as u32
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(most) => {
                write!(f, "your key holds all of the {most} that one key may have")
            }
            Self::Host(most) => write!(
                f,
                "your address holds all of the {most} that one address may have"
            ),
            Self::Site(most) => write!(
                f,
                "your network holds all of the {most} that one network may have"
            ),
            Self::All(most) => write!(f, "all {most} are in use"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        all: 8,
        identity: 6,
        host: 8,
        site: 8,
    };

    fn address(site: u8, host: u8) -> IpAddr {
        IpAddr::from([10, 0, site, host])
    }

    #[test]
    fn one_identity_cannot_take_all_seats() {
        let mut seats = Seats::new(LIMITS);
        let mut take = |who: u8| seats.take(who, address(who, 1));
        for _ in 0..6 {
            take(1).unwrap();
        }
        assert_eq!(take(1), Err(Full::Identity(6)));
        assert_eq!(take(2).unwrap().instead_of, None);
    }

    #[test]
    fn where_all_are_taken_the_greediest_makes_room_until_shares_are_equal() {
        let mut seats = Seats::new(LIMITS);
        for who in [1, 1, 1, 1, 1, 1, 2, 2] {
            seats.take(who, address(who, 1)).unwrap();
        }
        // the newest of the six goes, then others, until nobody has more than another would
        assert_eq!(seats.take(3, address(3, 1)).unwrap().instead_of, Some(5));
        assert_eq!(seats.take(3, address(3, 1)).unwrap().instead_of, Some(4));
        assert_eq!(seats.take(3, address(3, 1)).unwrap().instead_of, Some(3));
        assert_eq!(seats.take(3, address(3, 1)), Err(Full::All(8)));
        seats.leave(0);
        assert_eq!(seats.take(3, address(3, 1)).unwrap().instead_of, None);
    }

    #[test]
    fn a_host_and_a_site_have_limits_of_their_own() {
        let mut seats = Seats::new(Limits {
            host: 2,
            site: 3,
            ..LIMITS
        });
        let mut take = |who: u8, site, host| seats.take(who, address(site, host));
        take(1, 0, 1).unwrap();
        take(2, 0, 1).unwrap();
        assert_eq!(take(3, 0, 1), Err(Full::Host(2)));
        take(3, 0, 2).unwrap();
        assert_eq!(take(4, 0, 3), Err(Full::Site(3)));
        take(4, 1, 1).unwrap();
    }

    proptest! {
        #[test]
        fn no_limit_is_ever_exceeded_and_a_newcomer_is_never_kept_out_by_a_greedy_one(
            calls in proptest::collection::vec((0_u8..5, 0_u8..3, 0_u8..3, any::<bool>()), 0..200),
        ) {
            let limits = Limits { all: 7, identity: 4, host: 5, site: 6 };
            let mut seats = Seats::new(limits);
            let mut numbers = Vec::new();
            for (who, site, host, leaves) in calls {
                let of = |seats: &Seats<u8>, who: u8| seats.count(|holder| holder.identity == who);
                let most = (0..5).map(|who| of(&seats, who)).max().unwrap_or(0);
                let own = of(&seats, who);
                match seats.take(who, address(site, host)) {
                    Ok(seated) => numbers.push(seated.number),
                    Err(Full::All(_)) => prop_assert!(most <= own + 1),
                    Err(_) => {}
                }
                if leaves && let Some(number) = numbers.pop() {
                    seats.leave(number);
                }
                prop_assert!(seats.taken() <= 7);
                for who in 0..5 {
                    prop_assert!(of(&seats, who) <= 4);
                }
                for site in 0..3 {
                    let places = Prefix::all(address(site, 0));
                    prop_assert!(seats.count(|holder| holder.places[1] == places[1]) <= 6);
                }
            }
        }
    }
}
