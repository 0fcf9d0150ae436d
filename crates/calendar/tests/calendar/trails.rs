//! Tests of guard times after decreases, which belong to the device of each circuit.

use std::sync::Arc;

use lighthaul_base::trc::Step;
use lighthaul_calendar::guard::trail;
use lighthaul_calendar::{
    Booking, Calendar, Config, Id, Limits, Link, Need, Outage, Owner, Refusal, RepackLimits,
    Request, Route, SavedBooking, Scope, Shape, Topology,
};
use proptest::prelude::*;

use super::{at, file, gbps, nanos, steps};

/// Returns a link of six channels at two interfaces with these guard times.
fn two_devices(guards: [u64; 2]) -> Calendar {
    let link = Link {
        name: "link".into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(CAPACITY),
        channel: gbps(1),
        guard: nanos(0),
        cost: 1,
    };
    let mut topology = Topology::new(vec!["a".into(), "b".into()], vec![link]).unwrap();
    let link = topology.link("link").unwrap();
    for (name, guard) in ["eth1", "eth2"].into_iter().zip(guards) {
        topology.attach(name, &[link]).unwrap();
        let limits = Limits {
            capacity: gbps(CAPACITY),
            channel: gbps(1),
            least: gbps(1),
            guard: nanos(guard),
            packet_bytes: 0,
            circuits_max: 99,
        };
        topology.set_limits(name, limits).unwrap();
    }
    let config = Config {
        horizon: nanos(2000),
        ..Config::default()
    };
    Calendar::new(topology, config).unwrap()
}

/// Returns a request for a circuit at an interface.
fn through(calendar: &Calendar, interface: &str, bytes: u64, channels: u64) -> Request {
    let node = |name| calendar.topology().node(name).unwrap();
    let (interface, _) = calendar.topology().interface(interface).unwrap();
    Request {
        route: Route::Through(interface, node("a"), node("b")),
        ..file(calendar, bytes, channels)
    }
}

/// Books channels at an interface for a time, from a moment on.
fn hold(
    calendar: &mut Calendar,
    (id, interface): (u64, &str),
    from: u64,
    (long, channels): (u64, u64),
) -> Vec<(u64, u64, u64)> {
    let request = Request {
        need: Need::Hold(nanos(long)),
        from: at(from),
        shape: Shape::Fixed,
        ..through(calendar, interface, 1, channels)
    };
    steps(calendar.book(at(0), Id(id), &request).unwrap())
}

#[test]
fn capacity_is_used_again_after_the_guard_time_of_the_device_that_frees_it() {
    let mut calendar = two_devices([9, 2]);
    // the time of the path includes the guard time of its own increase
    assert_eq!(hold(&mut calendar, (1, "eth1"), 0, (11, 6)), [(0, 20, 6)]);
    // the slow device may use the link until 29
    assert_eq!(hold(&mut calendar, (2, "eth2"), 5, (8, 6)), [(29, 39, 6)]);
    // and the fast one until 41
    assert_eq!(hold(&mut calendar, (3, "eth1"), 5, (1, 6)), [(41, 51, 6)]);
    // what was free before needs no guard time of others
    let mut half = two_devices([9, 9]);
    assert_eq!(hold(&mut half, (1, "eth1"), 0, (11, 3)), [(0, 20, 3)]);
    assert_eq!(hold(&mut half, (2, "eth2"), 20, (11, 3)), [(20, 40, 3)]);
}

#[test]
fn released_circuit_uses_its_rate_for_a_guard_time() {
    let mut calendar = two_devices([9, 0]);
    hold(&mut calendar, (1, "eth1"), 0, (91, 6));
    calendar.release(at(50), Id(1)).unwrap();
    let next = hold(&mut calendar, (2, "eth2"), 50, (10, 1));
    assert_eq!(next, [(59, 69, 1)]);
    // one that did not begin has used nothing
    hold(&mut calendar, (3, "eth1"), 200, (91, 6));
    calendar.release(at(50), Id(3)).unwrap();
    let next = hold(&mut calendar, (4, "eth2"), 200, (10, 6));
    assert_eq!(next, [(200, 210, 6)]);
}

#[test]
fn booking_of_an_earlier_version_is_restored_without_capacity_for_the_guard_time() {
    let mut calendar = two_devices([9, 9]);
    let old = |calendar: &Calendar, id: u64, text: &str| {
        let request = through(calendar, "eth1", 1, 6);
        let path = Arc::clone(calendar.quote(at(0), &request).unwrap().path());
        SavedBooking {
            sequence: id,
            request,
            path,
            steps: text
                .parse::<lighthaul_base::Trc>()
                .unwrap()
                .steps()
                .to_vec(),
        }
    };
    for (id, text) in [(1, "0ns-20ns 6Gb/s"), (2, "20ns-40ns 6Gb/s")] {
        let saved = old(&calendar, id, text);
        calendar.restore(at(0), Id(id), saved).unwrap();
    }
    let third = old(&calendar, 3, "30ns-50ns 1Gb/s");
    let refused = calendar.restore(at(0), Id(3), third);
    assert_eq!(refused, Err(Refusal::FollowingBooked(at(30))));
    // the last one has its guard time
    assert_eq!(hold(&mut calendar, (4, "eth2"), 0, (11, 6)), [(49, 69, 6)]);
    for id in [1, 2, 4] {
        calendar.release(at(0), Id(id)).unwrap();
    }
    assert_eq!(calendar.remove(at(0), Id(1)), Err(Refusal::NotFound(Id(1))));
    assert_eq!(hold(&mut calendar, (5, "eth2"), 0, (11, 6)), [(0, 20, 6)]);
}

#[derive(Clone, Debug)]
enum Act {
    /// Interface, bytes, channels, delay, and true for a fixed rate.
    Book(usize, u64, u64, u64, bool),
    Release(usize),
    Extend(usize, u64),
    Shrink(usize, u64),
    Repack(bool),
    Outage(u64, u64),
    Wait(u64),
    /// Restores all bookings into a new calendar.
    Restart,
    /// Replaces a booking by the same one.
    Restore(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let book = (0_usize..2, 1_u64..40, 1_u64..7, 0_u64..90, any::<bool>());
    let act = prop_oneof![
        12 => book.prop_map(|(nth, bytes, most, after, fixed)| Act::Book(nth, bytes, most, after, fixed)),
        3 => any::<usize>().prop_map(Act::Release),
        2 => (any::<usize>(), 1_u64..30).prop_map(|(nth, by)| Act::Extend(nth, by)),
        2 => (any::<usize>(), 1_u64..30).prop_map(|(nth, by)| Act::Shrink(nth, by)),
        2 => any::<bool>().prop_map(Act::Repack),
        1 => (0_u64..200, 1_u64..30).prop_map(|(from, len)| Act::Outage(from, len)),
        3 => (1_u64..30).prop_map(Act::Wait),
        1 => Just(Act::Restart),
        2 => any::<usize>().prop_map(Act::Restore),
    ];
    prop::collection::vec(act, 1..50)
}

fn saved(booking: &Booking) -> SavedBooking {
    SavedBooking {
        sequence: booking.sequence(),
        request: booking.request().clone(),
        path: Arc::clone(booking.grant().path()),
        steps: booking.grant().steps().to_vec(),
    }
}

/// Calendar, and what circuits that were released use for a guard time.
struct Trial {
    calendar: Calendar,
    guards: [u64; 2],
    now: u64,
    next: u64,
    left: Vec<Step>,
}

impl Trial {
    fn nth(&self, nth: usize) -> Option<Id> {
        let count = self.calendar.bookings().count().max(1);
        self.calendar.bookings().nth(nth % count).map(|(id, _)| id)
    }

    /// Returns the steps of a booking until a moment, each with the guard time of its device.
    fn used(&self, id: Id, till: u64) -> Vec<Step> {
        let grant = self.calendar.booking(id).unwrap().grant();
        let begun = grant.steps().iter().filter(|step| step.from < at(till));
        let begun = begun.map(|step| Step {
            till: step.till.min(at(till)),
            ..*step
        });
        trail(&begun.collect::<Vec<_>>(), grant.path().guard())
    }

    fn act(&mut self, act: &Act) {
        let now = at(self.now);
        match *act {
            Act::Book(nth, bytes, most, after, is_fixed) => {
                let shape = if is_fixed {
                    Shape::Fixed
                } else {
                    Shape::Varying
                };
                let request = Request {
                    from: at(self.now + after),
                    shape,
                    priority: (bytes % 3) as u8,
                    ..through(&self.calendar, ["eth1", "eth2"][nth], bytes, most)
                };
                self.next += 1;
                let _ = self.calendar.book(now, Id(self.next), &request);
            }
            Act::Release(nth) => {
                if let Some(id) = self.nth(nth) {
                    self.left.extend(self.used(id, self.now));
                    self.calendar.release(now, id).unwrap();
                }
            }
            Act::Extend(nth, by) | Act::Shrink(nth, by) => {
                let Some(id) = self.nth(nth) else { return };
                let Need::Size { bytes, .. } = self.calendar.booking(id).unwrap().request().need
                else {
                    unreachable!("all requests have sizes");
                };
                let _ = if matches!(act, Act::Extend(..)) {
                    let need = Need::bytes(bytes + by);
                    self.calendar.extend(now, id, need).map(drop)
                } else {
                    let need = Need::bytes(bytes.saturating_sub(by));
                    self.calendar.shrink(now, id, need).map(drop)
                };
            }
            Act::Repack(all) => {
                let scope = if all { Scope::All } else { Scope::Waiting };
                self.calendar.repack(now, scope, RepackLimits::NONE);
            }
            Act::Outage(from, len) => {
                self.next += 1;
                let (from, till) = (at(self.now + from), at(self.now + from + len));
                let link = self.calendar.topology().link("link").unwrap();
                let outage = Outage { link, from, till };
                self.calendar.outage(now, Id(self.next), outage).unwrap();
            }
            Act::Wait(time) => self.now += time,
            Act::Restart => self.restart(),
            Act::Restore(nth) => {
                let Some(id) = self.nth(nth) else { return };
                let saved = saved(self.calendar.booking(id).unwrap());
                self.calendar.remove(now, id).unwrap();
                self.calendar.restore(now, id, saved).unwrap();
            }
        }
    }

    fn restart(&mut self) {
        let mut again = two_devices(self.guards);
        for (id, booking) in self.calendar.bookings() {
            again.restore(at(self.now), id, saved(booking)).unwrap();
        }
        for (id, outage) in self.calendar.outages() {
            again.outage(at(self.now), id, *outage).ok();
        }
        self.calendar = again;
        // a new calendar knows nothing of circuits that were released before
        self.left.clear();
    }

    /// Asserts that no capacity is used twice within a guard time, and that the calendar knows what is free.
    fn check(&self) {
        let mut used = vec![0; END];
        let ids = self.calendar.bookings().map(|(id, _)| id);
        let all = ids.flat_map(|id| self.used(id, END as u64));
        for step in all.chain(self.left.iter().copied()) {
            let times = step.from.as_nanos() as usize..step.till.as_nanos() as usize;
            let rate = step.rate.as_bps() / 1_000_000_000;
            used[times].iter_mut().for_each(|sum| *sum += rate);
        }
        let now = self.now as usize;
        assert!(used[now..].iter().all(|sum| *sum <= CAPACITY), "{used:?}");
        let link = self.calendar.topology().link("link").unwrap();
        let mut free = vec![0; END];
        for step in self.calendar.free(link, Owner(0), at(0), at(END as u64)) {
            let times = step.from.as_nanos() as usize..step.till.as_nanos() as usize;
            free[times].fill(step.bps / 1_000_000_000);
        }
        let mut expected: Vec<u64> = used
            .iter()
            .map(|sum| CAPACITY.saturating_sub(*sum))
            .collect();
        for (_, outage) in self.calendar.outages() {
            let times = outage.from.as_nanos() as usize..outage.till.as_nanos() as usize;
            expected[times].fill(0);
        }
        assert_eq!(free[now..], expected[now..]);
    }
}

proptest! {
    #[test]
    fn no_capacity_is_used_twice_within_a_guard_time(
        acts in acts(), one in 0_u64..12, two in 0_u64..12,
    ) {
        let guards = [one, two];
        let calendar = two_devices(guards);
        let mut trial = Trial { calendar, guards, now: 0, next: 0, left: Vec::new() };
        for act in acts {
            trial.act(&act);
            trial.check();
        }
    }
}

/// Channels of the link.
const CAPACITY: u64 = 6;
/// Last moment that the model knows.
const END: usize = 8000;
