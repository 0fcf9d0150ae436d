//! Ends of a service: on request, and by a fault of one of its threads.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domain_links::{Deliver, Panicked, Transport};
use lighthaul_domains::{DeviceFault, Devices, DomainConfig, Service};
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::wait::pause;
use lighthaul_stargate::{DomainId, PortId, RateChange};

use super::peer::{Peer, hold, identification};
use super::recording::RecordingDevices;
use super::site::{Folder, PATIENCE, any_port, request, text};

/// Devices whose driver has a fault.
#[derive(Debug)]
struct Panicking;

impl Devices for Panicking {
    fn reset(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
        panic!("a test asked for this panic")
    }

    fn apply(&mut self, _: Instant, _: &[RateChange]) -> Vec<DeviceFault> {
        Vec::new()
    }
}

/// Starts a domain without neighbors.
fn start(folder: &Folder, devices: Box<dyn Devices>) -> Service {
    let access = "[[port]]\nnumber = 201\nnode = \"core\"\ncapacity = \"10Gb/s\"\n";
    let text = text(1, 1, any_port(), &[]) + access;
    let config = DomainConfig::parse(&text, &folder.0).unwrap();
    Service::start(config, devices).unwrap()
}

#[test]
fn panic_of_the_devices_ends_the_service_with_an_error() {
    let folder = Folder::new("panic");
    let service = start(&folder, Box::new(Panicking));
    let clock = Clock::start();
    while !service.has_ended() && clock.now() < Instant::ZERO + PATIENCE {
        pause(Duration::from_millis(10));
    }
    let why = service.stop().unwrap_err().to_string();
    assert!(why.contains("devices: a test asked"), "{why}");
}

#[test]
fn panic_of_a_link_is_reported() {
    let folder = Folder::new("link");
    let (sender, panics) = channel();
    let deliver: Deliver = Arc::new(|_, _| panic!("a test asked for this panic"));
    let panicked: Panicked = Arc::new(move |why| drop(sender.send(why)));
    let known = identification(2, folder.identity(2), (1, None, folder.key(1)));
    let two = Transport::start(any_port(), known, &(deliver, panicked)).unwrap();
    let two_at = (2, Some(two.local()), folder.key(2));
    let one = Peer::start(identification(1, folder.identity(1), two_at));
    let (_, body) = hold(1, Duration::from_secs(5));
    let tries = (0..PATIENCE.as_secs()).find_map(|_| {
        one.send(2, body.clone());
        panics.recv_timeout(Duration::from_secs(1)).ok()
    });
    let why = tries.expect("the panic is reported");
    assert!(why.contains("link: a test asked"), "{why}");
}

#[test]
fn request_just_before_the_stop_has_its_outcome() {
    let folder = Folder::new("stop");
    for id in 0..5 {
        let service = start(&folder, Box::new(RecordingDevices::default()));
        let mut request = request(id, 1);
        request.to = DomainId(1);
        request.egress = PortId(201);
        let ticket = service.handle().request(request).unwrap();
        service.stop().unwrap();
        let outcome = ticket.wait(PATIENCE);
        assert!(matches!(outcome, Ok(Some(_))), "{outcome:?}");
    }
}
