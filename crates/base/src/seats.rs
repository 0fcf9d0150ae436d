//! Max-min fair shares of a limited number of seats: sessions, connections or links, counted per identity and
//! address.
//!
//! Limits apply to one identity, one host, one site and all of them together. When no seat is free, a request may
//! still take one over: the newest seat of the identity that holds the most. It does so only if the requesting
//! identity then still holds fewer seats. Shares converge to equal shares (max-min fairness), and no set of greedy
//! identities can lock another identity out.

use alloc::collections::BTreeMap;
use core::fmt;
use core::net::IpAddr;

use crate::prefix::Prefix;

/// Maximum numbers of seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum for all identities together.
    pub all: u32,
    /// Maximum for one identity.
    pub identity: u32,
    /// Maximum for one host: an IPv4 address, or an IPv6 /64.
    pub host: u32,
    /// Maximum for one site: an IPv4 /24, or an IPv6 /56 or /48.
    pub site: u32,
}

/// Reason for the refusal of a seat. Each variant carries the limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The identity holds as many seats as one identity may.
    Identity(u32),
    /// The host holds as many seats as one host may, and no other identity there holds enough to give one up.
    Host(u32),
    /// The site holds as many seats as one site may, and no other identity there holds enough to give one up.
    Site(u32),
    /// All seats are taken, and no other identity holds enough to give one up.
    All(u32),
}

/// A seat that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seated {
    /// Number of the seat, to be passed to [`Seats::leave`].
    pub number: u64,
    /// Number of the seat that was revoked to make room. The caller must end the session of its holder.
    pub revoked: Option<u64>,
}

/// Seats and their holders. `I` is the type of an identity.
#[derive(Debug)]
pub struct Seats<I> {
    limits: Limits,
    /// Holders by seat number: the highest number is the newest seat.
    held: BTreeMap<u64, Holder<I>>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Holder<I> {
    identity: I,
    places: [Prefix; 3],
}

impl<I: Copy + Ord> Seats<I> {
    /// Returns an empty set of seats with these `limits`.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            held: BTreeMap::new(),
            next: 0,
        }
    }

    /// Returns the number of taken seats.
    pub fn taken(&self) -> usize {
        self.held.len()
    }

    /// Takes a seat for `identity`, which connects from `address`.
    pub fn take(&mut self, identity: I, address: IpAddr) -> Result<Seated, Full> {
        let newcomer = Holder {
            identity,
            places: Prefix::all(address),
        };
        let most = self.limits.identity;
        if self.count(|holder| holder.identity == identity) >= most {
            return Err(Full::Identity(most));
        }
        let revoked = match self.bottleneck(&newcomer) {
            None => None,
            Some((within, full)) => Some(
                self.newest_seat_of_largest_holder(&newcomer, within)
                    .ok_or(full)?,
            ),
        };
        if let Some(number) = revoked {
            self.held.remove(&number);
        }
        let number = self.next;
        self.next += 1;
        self.held.insert(number, newcomer);
        Ok(Seated { number, revoked })
    }

    /// Releases a seat. A number that was released or revoked before is ignored.
    pub fn leave(&mut self, number: u64) {
        self.held.remove(&number);
    }

    /// Returns the group without a free seat for `newcomer`, and the error for it: its host, its site, or (`None`)
    /// all.
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

    /// Returns the newest seat of the identity with the most seats in `within`. Returns `None` unless that identity
    /// holds at least two seats more than the newcomer does.
    fn newest_seat_of_largest_holder(
        &self,
        newcomer: &Holder<I>,
        within: Option<Prefix>,
    ) -> Option<u64> {
        let is_in = |holder: &Holder<I>| within.is_none_or(|place| holder.places.contains(&place));
        let mut seats: BTreeMap<I, (u32, u64)> = BTreeMap::new();
        for (number, holder) in self.held.iter().filter(|(_, holder)| is_in(holder)) {
            let (count, newest) = seats.entry(holder.identity).or_default();
            *count += 1;
            *newest = *number;
        }
        let own = seats.get(&newcomer.identity).map_or(0, |(count, _)| *count);
        let newest_seat_of_largest_holder = seats.into_values().max();
        newest_seat_of_largest_holder
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
                write!(
                    f,
                    "your key already holds {most}, the most that one key may have"
                )
            }
            Self::Host(most) => write!(
                f,
                "your address already holds {most}, the most that one address may have"
            ),
            Self::Site(most) => write!(
                f,
                "your network already holds {most}, the most that one network may have"
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
        assert_eq!(take(2).unwrap().revoked, None);
    }

    #[test]
    fn full_table_revokes_newest_seat_of_largest_holder_until_shares_are_equal() {
        let mut seats = Seats::new(LIMITS);
        for who in [1, 1, 1, 1, 1, 1, 2, 2] {
            seats.take(who, address(who, 1)).unwrap();
        }
        // identity 1 loses its newest seat, then two more, until identity 3 holds as many
        assert_eq!(seats.take(3, address(3, 1)).unwrap().revoked, Some(5));
        assert_eq!(seats.take(3, address(3, 1)).unwrap().revoked, Some(4));
        assert_eq!(seats.take(3, address(3, 1)).unwrap().revoked, Some(3));
        assert_eq!(seats.take(3, address(3, 1)), Err(Full::All(8)));
        seats.leave(0);
        assert_eq!(seats.take(3, address(3, 1)).unwrap().revoked, None);
    }

    #[test]
    fn host_and_site_limits_apply_separately() {
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
        fn limits_hold_and_greedy_identity_cannot_lock_out_others(
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
