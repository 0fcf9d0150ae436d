//! Compares the calendar with an array of the free rate at each nanosecond.
//!
//! Rates are whole Gb/s, that is bits a nanosecond, so that the array needs no fractions.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_base::{Instant, Rate};
use lighthaul_calendar::{
    Booking, Calendar, Config, CounterOffer, Detail, Grant, Id, Link, LinkId, Need, Outage, Owner,
    Refusal, RepackLimits, Request, Route, Scope, Shape, Topology,
};
use proptest::prelude::*;

/// One call of the calendar.
#[derive(Clone, Debug)]
enum CalendarCall {
    Book(WantedBooking),
    Release(usize),
    Extend(usize, u64),
    Shrink(usize, u64),
    Repack(bool),
    Outage(usize, u64, u64),
    Lift(usize),
    Wait(u64),
}

/// A request in small numbers.
#[derive(Clone, Debug)]
struct WantedBooking {
    route: usize,
    amount: u64,
    kind: u8,
    least: u64,
    more: u64,
    after: u64,
    by: Option<u64>,
    priority: u8,
}

fn wishes() -> impl Strategy<Value = WantedBooking> {
    let numbers = (0..ROUTES.len(), 1_u64..120, 0_u8..4, 1_u64..3, 0_u64..4);
    let times = (0_u64..300, prop::option::weighted(0.3, 1_u64..300), 0_u8..3);
    (numbers, times).prop_map(
        |((route, amount, kind, least, more), (after, by, priority))| WantedBooking {
            route,
            amount,
            kind,
            least,
            more,
            after,
            by,
            priority,
        },
    )
}

fn acts() -> impl Strategy<Value = Vec<CalendarCall>> {
    let act = prop_oneof![
        12 => wishes().prop_map(CalendarCall::Book),
        3 => any::<usize>().prop_map(CalendarCall::Release),
        2 => (any::<usize>(), 1_u64..60).prop_map(|(nth, by)| CalendarCall::Extend(nth, by)),
        2 => (any::<usize>(), 1_u64..60).prop_map(|(nth, by)| CalendarCall::Shrink(nth, by)),
        2 => any::<bool>().prop_map(CalendarCall::Repack),
        1 => (0..LINKS.len(), 0_u64..400, 1_u64..60).prop_map(|(link, from, len)| CalendarCall::Outage(link, from, len)),
        1 => any::<usize>().prop_map(CalendarCall::Lift),
        3 => (1_u64..40).prop_map(CalendarCall::Wait),
    ];
    prop::collection::vec(act, 1..60)
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn gbps(gbps: u64) -> Rate {
    Rate::from_mbps(gbps * 1000)
}

fn topology() -> Topology {
    let links = LINKS.map(|(name, from, to, capacity, cost)| Link {
        name: name.into(),
        from: from.into(),
        to: to.into(),
        capacity: gbps(capacity),
        channel: gbps(1),
        guard: Duration::ZERO,
        cost,
    });
    Topology::new(["a", "b", "c"].map(String::from).into(), links.into()).unwrap()
}

fn calendar(slot: u64) -> Calendar {
    let config = Config {
        horizon: Duration::from_nanos(HORIZON),
        slot: Duration::from_nanos(slot),
        ..Config::default()
    };
    Calendar::new(topology(), config).unwrap()
}

fn request(wish: &WantedBooking, now: u64) -> Request {
    let topology = topology();
    let (from, to) = ROUTES[wish.route];
    let is_hold = wish.kind == 3;
    Request {
        owner: Owner(0),
        priority: wish.priority,
        route: Route::Between(topology.node(from).unwrap(), topology.node(to).unwrap()),
        need: if is_hold {
            Need::Hold(Duration::from_nanos(wish.amount))
        } else {
            Need::bytes(wish.amount)
        },
        rate_min: Some(gbps(wish.least)),
        rate_max: gbps(wish.least + wish.more),
        from: at(now + wish.after),
        deadline: wish.by.map(|by| at(now + wish.after + by)),
        shape: if wish.kind == 2 {
            Shape::Fixed
        } else {
            Shape::Varying
        },
        detail: if wish.kind == 1 {
            Detail::Rounds
        } else {
            Detail::Joined
        },
    }
}

/// Adds up the rates of all bookings on a link at each nanosecond.
fn used(calendar: &Calendar, link: &str) -> Vec<u64> {
    let link = calendar.topology().link(link).unwrap();
    let mut used = vec![0; END];
    let bookings = calendar
        .bookings()
        .filter(|(_, booking)| booking.grant().path().links().contains(&link));
    for step in bookings.flat_map(|(_, booking)| booking.grant().steps()) {
        for moment in step.from.as_nanos()..step.till.as_nanos() {
            used[moment as usize] += step.rate.as_bps() / GBPS;
        }
    }
    used
}

/// Returns the free rate of each link at each nanosecond.
fn free(calendar: &Calendar) -> BTreeMap<&'static str, Vec<u64>> {
    let free = LINKS.map(|(name, _, _, capacity, _)| {
        let link = calendar.topology().link(name).unwrap();
        let mut free: Vec<u64> = used(calendar, name)
            .iter()
            .map(|used| capacity - used)
            .collect();
        for (_, outage) in calendar.outages().filter(|(_, outage)| outage.link == link) {
            let times = outage.from.as_nanos() as usize..outage.till.as_nanos() as usize;
            free[times].fill(0);
        }
        (name, free)
    });
    free.into()
}

/// Asserts that no link is overbooked, and that the calendar and the sums agree from now on.
/// (Released capacity stays used in the past.)
fn assert_sound(calendar: &Calendar, now: u64) {
    for (name, free) in free(calendar) {
        let link = calendar.topology().link(name).unwrap();
        let mut said = vec![0; END];
        for step in calendar.free(link, Owner(0), at(0), at(END as u64)) {
            said[step.from.as_nanos() as usize..step.till.as_nanos() as usize]
                .fill(step.bps / GBPS);
        }
        assert_eq!(said[now as usize..], free[now as usize..], "{name}");
        for (from, till) in [
            (0, END as u64),
            (now, now + 7),
            (now / 2, now + 1),
            (now, now),
        ] {
            assert_allocations(calendar, link, at(from), at(till));
        }
    }
}

/// Asserts that the index finds the same bookings as a scan of all of them.
fn assert_allocations(calendar: &Calendar, link: LinkId, from: Instant, till: Instant) {
    let has = |booking: &Booking| {
        let mut steps = booking.grant().steps().iter();
        booking.grant().path().links().contains(&link)
            && steps.any(|step| step.from < till && step.till > from)
    };
    let all = calendar.bookings().filter(|(_, booking)| has(booking));
    let all: Vec<Id> = all.map(|(id, _)| id).collect();
    let found = calendar.allocations(link, from, till);
    let mut found: Vec<Id> = found.map(|(id, _)| id).collect();
    found.sort_unstable();
    assert_eq!(found, all, "from {from:?} till {till:?}");
}

/// Returns the rate at each nanosecond from the start on that a request would get on a path, by a
/// simple reference algorithm.
fn plan(free: &[&Vec<u64>], wish: &WantedBooking, now: u64, slot: u64) -> Option<Vec<u64>> {
    let free: Vec<u64> = (0..END)
        .map(|moment| free.iter().map(|free| free[moment]).min().unwrap())
        .collect();
    // a path that is narrower than the highest rate gives its capacity
    let most = (wish.least + wish.more).min(*free.last()?);
    let start = (now + wish.after).next_multiple_of(slot) as usize;
    let end = (now + HORIZON) as usize / slot as usize * slot as usize;
    let lasts = |from: usize, least: u64, len: u64| {
        let till = from + len.next_multiple_of(slot) as usize;
        till <= end && free[from..till].iter().all(|free| *free >= least)
    };
    let (least, begin, mut left) = match wish.kind {
        2 => {
            let most = wish.least + wish.more;
            let len = (wish.amount * 8).div_ceil(most);
            let begin = (start..end)
                .step_by(slot as usize)
                .find(|from| lasts(*from, most, len))?;
            (most, begin, wish.amount * 8)
        }
        3 => {
            let begin = (start..end)
                .step_by(slot as usize)
                .find(|from| lasts(*from, wish.least, wish.amount))?;
            let till = begin + wish.amount.next_multiple_of(slot) as usize;
            let rates = (start..till).map(|moment| {
                if moment < begin {
                    0
                } else {
                    free[moment].min(most)
                }
            });
            return Some(rates.collect());
        }
        _ => (wish.least, start, wish.amount * 8),
    };
    let mut rates = vec![0; begin - start];
    for moment in (begin..end).step_by(slot as usize) {
        let mut rate = free[moment].min(most);
        if rate < least {
            rate = 0;
        }
        if slot > 1 && left <= rate * slot {
            rate = left.div_ceil(slot).max(least);
        }
        rates.extend(vec![rate; slot as usize]);
        left = left.saturating_sub(rate * slot);
        if left == 0 {
            return Some(rates);
        }
    }
    None
}

/// Returns the paths of a route, each as its links.
fn paths(route: usize) -> impl Iterator<Item = &'static [&'static str]> {
    let paths: &[&[&str]] = match ROUTES[route] {
        ("a", "b") => &[&["ab"]],
        ("b", "c") => &[&["bc"]],
        _ => &[&["ab", "bc"], &["ac"]],
    };
    paths.iter().copied()
}

/// Returns the capacity of a path.
fn capacity(path: &[&str]) -> Rate {
    let links = LINKS.iter().filter(|link| path.contains(&link.0));
    gbps(links.map(|link| link.3).min().unwrap())
}

/// Returns the highest capacity among the paths of a route.
fn widest(route: usize) -> Rate {
    paths(route).map(capacity).max().unwrap()
}

/// Returns the start and the rates of the best path, by the array.
fn expected(
    calendar: &Calendar,
    wish: &WantedBooking,
    now: u64,
    slot: u64,
) -> Option<(u64, Vec<u64>)> {
    let free = free(calendar);
    let mut best: Option<Vec<u64>> = None;
    for path in paths(wish.route) {
        let links: Vec<&Vec<u64>> = path.iter().map(|link| &free[link]).collect();
        if let Some(rates) = plan(&links, wish, now, slot)
            && best.as_ref().is_none_or(|best| rates.len() < best.len())
        {
            best = Some(rates);
        }
    }
    let start = (now + wish.after).next_multiple_of(slot);
    best.map(|rates| (start, rates))
}

fn rates(grant: &Grant, start: u64) -> Vec<u64> {
    let mut rates = vec![0; (grant.end().as_nanos() - start) as usize];
    for step in grant.steps() {
        let times = step.from.as_nanos() - start..step.till.as_nanos() - start;
        rates[times.start as usize..times.end as usize].fill(step.rate.as_bps() / GBPS);
    }
    rates
}

fn work(steps: &[Step]) -> u64 {
    let work =
        |step: &Step| step.rate.as_bps() / GBPS * step.till.since(step.from).as_nanos() as u64;
    steps.iter().map(work).sum()
}

/// Asserts that a booking carries its amount, and at most one rounded last step more.
fn assert_carries(booking: &Booking, slot: u64) {
    let grant = booking.grant();
    let last = grant.steps().last().unwrap();
    match booking.request().need {
        Need::Size { bytes, .. } => {
            let (carried, asked) = (work(grant.steps()), bytes * 8);
            let round = last.rate.as_bps() / GBPS * slot;
            assert!(
                (asked..asked + round).contains(&carried),
                "{carried} for {asked}: {grant:?}"
            );
        }
        Need::Hold(time) => {
            let asked = (time.as_nanos() as u64).next_multiple_of(slot);
            assert_eq!(grant.end().since(grant.start()).as_nanos() as u64, asked);
            assert!(
                grant
                    .steps()
                    .windows(2)
                    .all(|pair| pair[0].till == pair[1].from)
            );
        }
    }
    let (least, most) = (
        booking.request().rate_min.unwrap(),
        booking.request().rate_max,
    );
    assert!(
        grant
            .steps()
            .iter()
            .all(|step| (least..=most).contains(&step.rate))
    );
    assert!(grant.start() >= booking.request().from);
}

/// A calendar, and the facts that the test knows about it.
struct Trial {
    calendar: Calendar,
    slot: u64,
    now: u64,
    next: u64,
    /// Bookings that an outage has shortened.
    lost: Vec<Id>,
}

impl Trial {
    fn assert_carries(&self, id: Id) {
        if !self.lost.contains(&id) {
            assert_carries(self.calendar.booking(id).unwrap(), self.slot);
        }
    }

    fn act(&mut self, act: &CalendarCall) {
        let now = at(self.now);
        let before = self.calendar.clone();
        let nth = |nth: usize| {
            before
                .bookings()
                .nth(nth % before.bookings().count().max(1))
        };
        let refused = match *act {
            CalendarCall::Book(ref wish) => {
                self.book(wish);
                false
            }
            CalendarCall::Release(which) => {
                nth(which).is_some_and(|(id, _)| self.calendar.release(now, id).is_err())
            }
            CalendarCall::Extend(which, by) => nth(which).is_some_and(|(id, booking)| {
                let need = changed(booking.request().need, |amount| amount + by);
                self.calendar.extend(now, id, need).is_err() || {
                    self.assert_carries(id);
                    false
                }
            }),
            CalendarCall::Shrink(which, by) => nth(which).is_some_and(|(id, booking)| {
                let need = changed(booking.request().need, |amount| amount.saturating_sub(by));
                self.calendar.shrink(now, id, need).is_err() || {
                    let end = self.calendar.booking(id).unwrap().grant().end();
                    assert!(end <= booking.grant().end());
                    self.assert_carries(id);
                    false
                }
            }),
            CalendarCall::Repack(all) => {
                let scope = if all { Scope::All } else { Scope::Waiting };
                self.calendar.repack(now, scope, RepackLimits::NONE);
                for (id, booking) in before.bookings() {
                    let end = self.calendar.booking(id).unwrap().grant().end();
                    assert!(end <= booking.grant().end(), "no booking is delayed");
                }
                false
            }
            CalendarCall::Outage(link, from, len) => self.outage(link, from, len).is_err(),
            CalendarCall::Lift(which) => {
                let ids: Vec<Id> = before.outages().map(|(id, _)| id).collect();
                !ids.is_empty() && self.calendar.lift(ids[which % ids.len()]).is_err()
            }
            CalendarCall::Wait(time) => {
                self.now += time;
                false
            }
        };
        if refused {
            assert_eq!(self.calendar, before, "a refused call changes nothing");
        }
        assert_sound(&self.calendar, self.now.next_multiple_of(self.slot));
    }

    fn book(&mut self, wish: &WantedBooking) {
        let request = request(wish, self.now);
        let (now, id) = (at(self.now), Id(self.next));
        self.next += 1;
        let expected = expected(&self.calendar, wish, self.now, self.slot);
        let quote = self.calendar.quote(now, &request);
        let before = self.calendar.clone();
        let booked = self.calendar.book(now, id, &request).cloned();
        assert_eq!(quote, booked, "a quote is what is booked");
        match booked {
            Ok(grant) => {
                assert!(request.rate_max <= widest(wish.route));
                let (start, expected) = expected.unwrap();
                assert_eq!(rates(&grant, start), expected, "{request:?}");
                assert!(
                    request
                        .deadline
                        .is_none_or(|deadline| grant.end() <= deadline)
                );
                self.assert_carries(id);
                assert_eq!(
                    self.calendar.book(now, id, &request),
                    Err(Refusal::IdInUse(id))
                );
            }
            Err(why) => {
                assert_eq!(self.calendar, before, "a refused call changes nothing");
                let end = expected.map(|(start, rates)| at(start + rates.len() as u64));
                if request.rate_max > widest(wish.route) {
                    assert_eq!(why, Refusal::RateTooHigh(widest(wish.route)));
                } else if let Refusal::MissesDeadline(counter) = why {
                    assert_eq!(counter.end, end);
                    assert_counter(&self.calendar, now, &request, counter);
                } else {
                    assert_eq!((why, end), (Refusal::BeyondHorizon(self.horizon()), None));
                }
            }
        }
    }

    fn outage(&mut self, link: usize, from: u64, len: u64) -> Result<(), Refusal> {
        let outage = Outage {
            link: self.calendar.topology().link(LINKS[link].0).unwrap(),
            from: at(from),
            till: at(from + len),
        };
        let before = self.calendar.clone();
        let displaced = self.calendar.outage(at(self.now), Id(self.next), outage)?;
        self.next += 1;
        self.lost.extend(&displaced.lost);
        let touched: Vec<Id> = displaced
            .moved
            .iter()
            .map(|moved| moved.id)
            .chain(displaced.lost)
            .collect();
        for (id, booking) in before.bookings().filter(|(id, _)| !touched.contains(id)) {
            assert_eq!(
                self.calendar.booking(id),
                Some(booking),
                "other bookings do not change"
            );
        }
        Ok(())
    }

    fn horizon(&self) -> Instant {
        at((self.now + HORIZON) / self.slot * self.slot)
    }
}

/// Asserts that each counter-offer would be granted, and that nothing better would be.
fn assert_counter(calendar: &Calendar, now: Instant, request: &Request, counter: CounterOffer) {
    let with = |change: &dyn Fn(&mut Request)| {
        let mut request = request.clone();
        change(&mut request);
        calendar.quote(now, &request).is_ok()
    };
    if let Some(end) = counter.end {
        assert!(with(&|request| request.deadline = Some(end)));
        assert!(!with(
            &|request| request.deadline = Some(at(end.as_nanos() - 1))
        ));
    }
    if let Some(most) = counter.most {
        assert!(with(&|request| request.need = most));
        assert!(!with(
            &|request| request.need = changed(most, |amount| amount + 1)
        ));
    }
    if let Some(rate) = counter.rate_max {
        assert!(rate > request.rate_max && with(&|request| request.rate_max = rate));
    }
}

fn changed(need: Need, change: impl Fn(u64) -> u64) -> Need {
    match need {
        Need::Size { bytes, margin_ppm } => Need::Size {
            bytes: change(bytes),
            margin_ppm,
        },
        Need::Hold(time) => Need::Hold(Duration::from_nanos(change(time.as_nanos() as u64))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn calendar_matches_an_array_of_nanoseconds(acts in acts(), slot in prop_oneof![3 => Just(1_u64), 1 => 2_u64..9]) {
        let mut trial = Trial { calendar: calendar(slot), slot, now: 0, next: 0, lost: vec![] };
        for act in &acts {
            trial.act(act);
        }
        prop_assert!(trial.next as usize <= acts.len());
    }

    #[test]
    fn calendar_is_empty_after_releases_in_any_order(wishes in prop::collection::vec(wishes(), 1..40), seed: u64) {
        let mut calendar = calendar(1);
        let mut ids: Vec<Id> = (0..).map(Id).take(wishes.len()).collect();
        for (id, wish) in ids.iter().zip(&wishes) {
            // refusals do not matter here
            let _ = calendar.book(at(0), *id, &request(wish, 0));
        }
        ids.retain(|id| calendar.booking(*id).is_some());
        let mut rng = lighthaul_base::Rng::new(seed);
        while !ids.is_empty() {
            let id = ids.swap_remove(rng.below(ids.len() as u64) as usize);
            calendar.release(at(0), id).unwrap();
        }
        for (link, about) in calendar.topology().links() {
            let steps: Vec<_> = calendar.free(link, Owner(0), at(0), at(END as u64)).collect();
            prop_assert_eq!(steps.len(), 1);
            prop_assert_eq!(steps[0].bps, about.capacity.as_bps());
        }
    }
}

const GBPS: u64 = 1_000_000_000;
const HORIZON: u64 = 900;
/// Later than the latest `now` plus the horizon.
const END: usize = 4000;
/// Name, from, to, Gb/s, cost.
const LINKS: [(&str, &str, &str, u64, u32); 3] = [
    ("ab", "a", "b", 4, 1),
    ("bc", "b", "c", 6, 1),
    ("ac", "a", "c", 2, 5),
];
const ROUTES: [(&str, &str); 3] = [("a", "b"), ("b", "c"), ("a", "c")];
