//! Seats against their rules, case by case, and against a simple reference.

use core::net::IpAddr;

use lighthaul_base::prefix::Prefix;
use lighthaul_base::seats::{Full, Limits, Seats, Within};
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    all: 8,
    identity: 6,
    authority: 7,
    host: 8,
    site: 8,
};

fn address(site: u8, host: u8) -> IpAddr {
    IpAddr::from([10, 0, site, host])
}

fn full(within: Within, most: u64) -> Full {
    Full {
        resource: 0,
        within,
        most,
    }
}

#[test]
fn default_limits_are_fractions_of_all_units() {
    let limits = Limits::parts_of(80);
    assert_eq!((limits.all, limits.identity), (80, 40));
    assert_eq!((limits.authority, limits.host, limits.site), (60, 60, 70));
}

#[test]
fn seat_that_is_idle_longest_is_taken() {
    let mut seats = Seats::new([LIMITS]);
    assert_eq!(seats.take_idle(), None);
    let mut take = |who| seats.take(who, address(1, 1), [1]).unwrap().number;
    let [busy, first, second, stranger] = [Some(1), Some(2), Some(3), None].map(&mut take);
    for (number, since) in [(second, 7), (first, 5), (stranger, 9)] {
        seats.note_idle(number, Some(since));
    }
    assert_eq!(seats.identity(first), Some(&2));
    assert_eq!(seats.identity(stranger), None);
    // strangers first
    for idle in [stranger, first, second] {
        assert_eq!(seats.take_idle(), Some(idle));
        assert_eq!(seats.identity(idle), None);
    }
    assert_eq!(seats.take_idle(), None);
    assert_eq!(seats.identity(busy), Some(&1));
}

#[test]
fn one_identity_cannot_take_all_seats() {
    let mut seats = Seats::new([LIMITS]);
    let mut take = |who: u8| seats.take(Some(who), address(who, 1), [1]);
    for _ in 0..6 {
        take(1).unwrap();
    }
    assert_eq!(take(1), Err(full(Within::Identity, 6)));
    assert_eq!(take(2).unwrap().revoked, []);
}

#[test]
fn full_table_revokes_newest_seat_of_largest_holder_until_shares_are_equal() {
    let mut seats = Seats::new([LIMITS]);
    for who in [1, 1, 1, 1, 1, 1, 2, 2] {
        seats.take(Some(who), address(who, 1), [1]).unwrap();
    }
    // identity 1 loses its newest seat, then two more, until identity 3 holds as many
    let take = |seats: &mut Seats<u8, 1>| seats.take(Some(3), address(3, 1), [1]);
    assert_eq!(take(&mut seats).unwrap().revoked, [5]);
    assert_eq!(take(&mut seats).unwrap().revoked, [4]);
    assert_eq!(take(&mut seats).unwrap().revoked, [3]);
    assert_eq!(take(&mut seats), Err(full(Within::All, 8)));
    seats.leave(0);
    assert_eq!(take(&mut seats).unwrap().revoked, []);
}

#[test]
fn identities_of_one_authority_share_its_limit() {
    let mut seats = Seats::new([Limits {
        authority: 3,
        ..LIMITS
    }]);
    let mut take = |who: u8, authority| seats.take_vouched((who, authority), address(who, 1), [1]);
    for who in 1..4 {
        take(who, Some(9)).unwrap();
    }
    assert_eq!(take(4, Some(9)), Err(full(Within::Authority, 3)));
    assert_eq!(take(4, Some(8)).unwrap().revoked, []);
    assert_eq!(take(5, None).unwrap().revoked, []);
}

#[test]
fn full_authority_revokes_newest_seat_of_its_largest_identity() {
    let mut seats = Seats::new([Limits {
        authority: 3,
        ..LIMITS
    }]);
    let mut take = |who: u8| seats.take_vouched((who, Some(9)), address(who, 1), [1]);
    let taken = [1, 1, 1].map(|who| take(who).unwrap().number);
    assert_eq!(take(2).unwrap().revoked, [taken[2]]);
    assert_eq!(take(2), Err(full(Within::Authority, 3)));
}

#[test]
fn host_and_site_limits_apply_separately() {
    let mut seats = Seats::new([Limits {
        host: 2,
        site: 3,
        ..LIMITS
    }]);
    let mut take = |who: u8, site, host| seats.take(Some(who), address(site, host), [1]);
    take(1, 0, 1).unwrap();
    take(2, 0, 1).unwrap();
    assert_eq!(take(3, 0, 1), Err(full(Within::Host, 2)));
    take(3, 0, 2).unwrap();
    assert_eq!(take(4, 0, 3), Err(full(Within::Site, 3)));
    take(4, 1, 1).unwrap();
}

#[test]
fn full_table_revokes_newest_seat_of_largest_site_where_identities_are_equal() {
    let mut seats = Seats::new([Limits::parts_of(16)]);
    // as many as one site may have, each of an identity of its own
    for who in 0..14 {
        let host = who % 3;
        seats.take(Some(who), address(1, host), [1]).unwrap();
    }
    let refused = seats.take(Some(14), address(1, 7), [1]);
    assert_eq!(refused, Err(full(Within::Site, 14)));
    seats.take(Some(20), address(2, 1), [1]).unwrap();
    seats.take(Some(21), address(2, 2), [1]).unwrap();
    let mut take = |who, site, host| seats.take(Some(who), address(site, host), [1]);
    assert_eq!(take(30, 3, 1).unwrap().revoked, [13]);
    assert_eq!(take(31, 3, 2).unwrap().revoked, [12]);
    for who in 32..36 {
        take(who, 3, who).unwrap();
    }
    // sites 1 and 3 are equal but for one seat, which changes nothing
    assert_eq!(take(36, 3, 9).unwrap().revoked, [7]);
    assert_eq!(take(37, 3, 9), Err(full(Within::All, 16)));
    assert_eq!(take(22, 2, 3).unwrap().revoked, [22]);
}

#[test]
fn unknown_client_takes_no_seat_of_an_identity() {
    let mut seats = Seats::new([Limits { all: 4, ..LIMITS }]);
    for who in 0..3 {
        seats.take(Some(who), address(1, who), [1]).unwrap();
    }
    let stranger = seats.take(None, address(1, 9), [1]).unwrap().number;
    let mut take = |site| seats.take(None, address(site, 1), [1]);
    assert_eq!(take(2).unwrap().revoked, [stranger]);
    assert_eq!(take(3), Err(full(Within::All, 4)));
}

#[test]
fn weighted_resources_are_bounded_and_equalized_per_identity() {
    let files = Limits {
        all: 100,
        identity: 80,
        ..Limits::parts_of(u64::MAX)
    };
    let mut seats = Seats::new([LIMITS, files]);
    let greedy = seats.take(Some(1), address(1, 1), [1, 40]).unwrap().number;
    let more = seats.take(Some(1), address(1, 1), [1, 40]).unwrap().number;
    let refused = seats.reuse(greedy, [1, 41]).unwrap_err();
    assert_eq!((refused.resource, refused.within), (1, Within::Identity));
    assert_eq!(seats.spare(more, 1), 0);
    // there is room for 20, and for more its newest seat goes
    let honest = seats.take(Some(2), address(2, 1), [1, 20]).unwrap();
    assert_eq!(
        (seats.spare(honest.number, 1), honest.revoked),
        (0, [].into())
    );
    assert_eq!(seats.reuse(honest.number, [1, 50]).unwrap(), [more]);
    assert_eq!(seats.reuse(more, [1, 90]), Ok(Vec::new()), "it is gone");
    assert_eq!(seats.spare(honest.number, 1), 10);
}

#[test]
fn idle_seats_are_revoked_first_and_seats_of_unknown_clients_before_others() {
    let mut seats = Seats::new([Limits { all: 3, ..LIMITS }]);
    let numbers = [None, Some(1), None].map(|who| {
        let seated = seats.take(who, address(1, 1), [1]).unwrap();
        seats.note_idle(seated.number, Some(9 - seated.number));
        seated.number
    });
    seats.identify(numbers[2], 2).unwrap();
    let mut left = Vec::new();
    for _ in 0..3 {
        left.extend(seats.take(Some(3), address(2, 1), [1]).unwrap().revoked);
    }
    assert_eq!(left, [numbers[0], numbers[2], numbers[1]]);
    assert_eq!(seats.take_idle(), None);
}

/// Authority of the identities 3 and 4.
fn authority(who: Option<u8>) -> Option<u8> {
    who.filter(|who| *who > 2).map(|_| 9)
}

fn limit(limits: &Limits, within: Within) -> u64 {
    match within {
        Within::Identity => limits.identity,
        Within::Authority => limits.authority,
        Within::Host => limits.host,
        Within::Site => limits.site,
        Within::All => limits.all,
    }
}

/// Reference that follows the description of the module `seats`, with lists and loops.
#[derive(Clone, Debug, Default)]
struct Reference(Vec<Taken>);

/// Number, identity, address, uses and since when it is idle.
type Taken = (u64, Option<u8>, IpAddr, [u64; 2], Option<u64>);

impl Reference {
    fn groups(who: Option<u8>, address: IpAddr) -> Vec<(Within, u8)> {
        let identity = who.map(|_| (Within::Identity, 0));
        let authority = authority(who).map(|_| (Within::Authority, 0));
        let places = [(Within::Host, 32), (Within::Site, 24), (Within::All, 0)];
        let _ = address;
        identity
            .into_iter()
            .chain(authority)
            .chain(places)
            .collect()
    }

    /// Returns true where the newcomer `one` and `other` are in the same group.
    fn is_in(
        (within, bits): (Within, u8),
        one: (Option<u8>, IpAddr),
        other: (Option<u8>, IpAddr),
    ) -> bool {
        match within {
            Within::Identity => one.0 == other.0,
            Within::Authority => authority(one.0) == authority(other.0),
            Within::Host | Within::Site | Within::All => {
                Prefix::of(one.1, bits) == Prefix::of(other.1, bits)
            }
        }
    }

    fn seat(
        &mut self,
        limits: &[Limits; 2],
        number: u64,
        (who, address, uses): (Option<u8>, IpAddr, [u64; 2]),
    ) -> Result<Vec<u64>, Full> {
        let idle = self
            .0
            .iter()
            .find(|seat| seat.0 == number)
            .and_then(|seat| seat.4);
        let mut rest = self.clone();
        rest.0.retain(|seat| seat.0 != number);
        let mut left = Vec::new();
        for resource in 0..2 {
            for group in Self::groups(who, address) {
                let most = limit(&limits[resource], group.0);
                loop {
                    let there: Vec<_> = rest
                        .0
                        .iter()
                        .filter(|seat| Self::is_in(group, (who, address), (seat.1, seat.2)))
                        .collect();
                    let sum: u64 = there.iter().map(|seat| seat.3[resource]).sum();
                    if uses[resource] == 0 || sum + uses[resource] <= most {
                        break;
                    }
                    let using = || there.iter().filter(|seat| seat.3[resource] > 0);
                    let idle = using().filter(|seat| seat.4.is_some());
                    let idle = idle.min_by_key(|seat| (seat.1.is_some(), seat.4, seat.0));
                    let mut best: Option<(u64, u64)> = None;
                    for identity in 0..5 {
                        let own = || using().filter(|seat| seat.1 == Some(identity));
                        let sum = own().map(|seat| seat.3[resource]).sum();
                        let newest = own().map(|seat| seat.0).max().unwrap_or(0);
                        best = best.max(Some((sum, newest)));
                    }
                    let own = using().filter(|seat| who.is_some() && seat.1 == who);
                    let own: u64 = own.map(|seat| seat.3[resource]).sum();
                    let rich = best.filter(|(sum, _)| *sum > own + uses[resource]);
                    let site = |address| Prefix::of(address, 24);
                    let of = |at: IpAddr| {
                        let there = using().filter(move |seat| site(seat.2) == site(at));
                        let sum: u64 = there.clone().map(|seat| seat.3[resource]).sum();
                        let may_leave = there.filter(|seat| who.is_some() || seat.1.is_none());
                        (sum, may_leave.map(|seat| seat.0).max())
                    };
                    let crowded = using().map(|seat| of(seat.2)).max();
                    let crowded = crowded.filter(|(sum, _)| {
                        group.0 == Within::All && *sum > of(address).0 + uses[resource]
                    });
                    let victim = idle.map(|seat| seat.0);
                    let victim = victim.or_else(|| rich.map(|(_, newest)| newest));
                    let victim = victim.or_else(|| crowded.and_then(|(_, newest)| newest));
                    let victim = victim.ok_or(Full {
                        resource,
                        within: group.0,
                        most,
                    })?;
                    left.push(victim);
                    rest.0.retain(|seat| seat.0 != victim);
                }
            }
        }
        rest.0.push((number, who, address, uses, idle));
        *self = rest;
        Ok(left)
    }
}

proptest! {
    #[test]
    fn seats_match_a_reference_of_lists_and_keep_every_limit(
        calls in proptest::collection::vec(
            (0_u8..6, 0_u8..3, 0_u8..3, 0_u64..3, 0_u64..9, 0_u8..8, 0_usize..9),
            0..120,
        ),
    ) {
        let limits = [
            Limits { all: 7, identity: 4, authority: 5, host: 5, site: 6 },
            Limits { all: 30, identity: 15, authority: 18, host: 22, site: 26 },
        ];
        let mut seats = Seats::new(limits);
        let mut reference = Reference::default();
        let mut newest = None;
        for (who, site, host, seat, files, act, nth) in calls {
            let known = (who < 5).then_some(who);
            let (from, uses) = (address(site, host), [seat, files]);
            let there = reference.0.get(nth).copied();
            match (act, there) {
                (0, Some((number, ..))) => {
                    seats.leave(number);
                    reference.0.retain(|seat| seat.0 != number);
                }
                (1, Some((number, ..))) => {
                    seats.note_idle(number, Some(files));
                    reference.0[nth].4 = Some(files);
                }
                (2, Some((number, known, address, ..))) => {
                    let expected = reference.seat(&limits, number, (known, address, uses));
                    prop_assert_eq!(seats.reuse(number, uses), expected);
                }
                (3, Some((number, None, address, uses, _))) => {
                    let expected =
                        reference.seat(&limits, number, (Some(0), address, uses));
                    prop_assert_eq!(seats.identify(number, 0), expected);
                }
                _ => {
                    let seated = match known {
                        Some(who) => {
                            let vouched = (who, authority(known));
                            seats.take_vouched(vouched, from, uses)
                        }
                        None => seats.take(None, from, uses),
                    };
                    // a refused newcomer has no number
                    let number = seated.as_ref().map_or(u64::MAX, |seated| seated.number);
                    prop_assert!(newest < Some(number), "numbers ascend");
                    let expected = reference.seat(&limits, number, (known, from, uses));
                    if expected.is_ok() {
                        newest = Some(number);
                    }
                    prop_assert_eq!(seated.map(|seated| seated.revoked), expected);
                }
            }
            prop_assert_eq!(seats.taken(), reference.0.len());
            for (resource, limits) in limits.iter().enumerate() {
                let sum = |is: &dyn Fn(Option<u8>, IpAddr) -> bool| -> u64 {
                    let held = reference.0.iter().filter(|seat| is(seat.1, seat.2));
                    held.map(|seat| seat.3[resource]).sum()
                };
                prop_assert!(sum(&|_, _| true) <= limits.all);
                prop_assert!(sum(&|who, _| authority(who).is_some()) <= limits.authority);
                for one in 0..5 {
                    prop_assert!(sum(&|who, _| who == Some(one)) <= limits.identity);
                }
                for (site, host) in (0..3).flat_map(|site| [0, 1, 2].map(|host| (site, host))) {
                    let place = address(site, host);
                    let at = |bits| Prefix::of(place, bits);
                    let in_place = |bits| move |_: Option<u8>, a| Prefix::of(a, bits) == at(bits);
                    prop_assert!(sum(&in_place(32)) <= limits.host);
                    prop_assert!(sum(&in_place(24)) <= limits.site);
                }
            }
        }
    }
}
