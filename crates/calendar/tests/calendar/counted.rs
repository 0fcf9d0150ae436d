//! Tests of sizes at devices that count more bytes than those of the packets of IP.

use lighthaul_calendar::{
    Calendar, Config, Id, Limits, Link, Need, RepackLimits, Request, Route, Scope, Shape, Topology,
};

use super::{at, file, gbps, nanos, steps};

/// Returns a link of two channels, whose device counts a tenth more than the packets of IP.
fn device() -> Calendar {
    let link = Link {
        name: "link".into(),
        from: "a".into(),
        to: "b".into(),
        capacity: gbps(2),
        channel: gbps(1),
        guard: nanos(0),
        cost: 1,
    };
    let mut topology = Topology::new(vec!["a".into(), "b".into()], vec![link]).unwrap();
    let link = topology.link("link").unwrap();
    topology.attach("eth1", &[link]).unwrap();
    let limits = Limits {
        capacity: gbps(2),
        channel: gbps(1),
        least: gbps(1),
        guard: nanos(0),
        packet_bytes: 150,
        circuits_max: 9,
    };
    topology.set_limits("eth1", limits).unwrap();
    Calendar::new(topology, Config::default()).unwrap()
}

/// Returns a request for a circuit at the device.
fn through(calendar: &Calendar, bytes: u64, channels: u64) -> Request {
    let node = |name| calendar.topology().node(name).unwrap();
    let (interface, _) = calendar.topology().interface("eth1").unwrap();
    Request {
        route: Route::Through(interface, node("a"), node("b")),
        ..file(calendar, bytes, channels)
    }
}

#[test]
fn sizes_are_longer_by_the_bytes_that_the_device_counts() {
    let calendar = device();
    let request = through(&calendar, 15, 1);
    for shape in [Shape::Varying, Shape::Fixed] {
        let request = Request {
            shape,
            ..request.clone()
        };
        let grant = calendar.quote(at(0), &request).unwrap();
        assert_eq!(steps(&grant), [(0, 132, 1)], "{shape:?}");
        // the size itself is carried when all that counts has passed
        let end = grant.end_of(request.need.work());
        assert_eq!(end, at(132), "{shape:?}");
    }
    let without_device = file(&calendar, 15, 1);
    let grant = calendar.quote(at(0), &without_device).unwrap();
    assert_eq!(steps(&grant), [(0, 120, 1)]);
    let held = Request {
        need: Need::Hold(nanos(120)),
        ..request
    };
    let grant = calendar.quote(at(0), &held).unwrap();
    assert_eq!(steps(&grant), [(0, 120, 1)]);
}

#[test]
fn changes_of_a_size_count_the_same_bytes() {
    let mut calendar = device();
    let request = through(&calendar, 15, 1);
    calendar.book(at(0), Id(1), &request).unwrap();
    let grant = calendar.extend(at(40), Id(1), Need::bytes(30)).unwrap();
    assert_eq!(steps(grant), [(0, 264, 1)]);
    let grant = calendar.shrink(at(50), Id(1), Need::bytes(20)).unwrap();
    assert_eq!(steps(grant), [(0, 176, 1)]);
}

#[test]
fn moved_rest_of_a_size_counts_its_bytes_once() {
    let mut calendar = device();
    let first = through(&calendar, 300, 1);
    calendar.book(at(0), Id(1), &first).unwrap();
    let second = through(&calendar, 15, 2);
    let grant = calendar.book(at(0), Id(2), &second).unwrap();
    assert_eq!(steps(grant), [(0, 132, 1)]);
    calendar.release(at(20), Id(1)).unwrap();
    calendar.repack(at(20), Scope::All, RepackLimits::NONE);
    let grant = calendar.booking(Id(2)).unwrap().grant();
    assert_eq!(steps(grant), [(0, 20, 1), (20, 76, 2)]);
}
