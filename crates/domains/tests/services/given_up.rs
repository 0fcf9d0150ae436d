//! Devices that were removed from the configuration while they had circuits.

use std::time::Duration;

use lighthaul_base::Instant;
use lighthaul_domains::{DomainConfig, Error, Service};
use lighthaul_io::host::clock::Clock;
use lighthaul_stargate::{CorrelationId, Outcome};

use super::site::{Chain, PATIENCE};

/// Device of domain 2, with the circuit of the paths from domain 1.
const DEVICE: &str = "[[device]]\ninterface = \"eth1\"\ncapacity = \"10Gb/s\"\n\
                      [[circuit]]\ningress = 1\negress = 102\ninterface = \"eth1\"\nflow = \"udp 10.0.0.2\"\n";

/// Starts a chain of two domains, of which the second one has the device.
fn with_device(name: &str) -> (Chain, String) {
    let mut chain = Chain::start(name, 2, |text| text);
    chain.stop(2);
    let text = chain.configs[&2].clone() + DEVICE;
    start(&mut chain, &text).unwrap();
    (chain, text)
}

/// Starts domain 2 with a configuration.
fn start(chain: &mut Chain, text: &str) -> Result<(), Error> {
    let config = parse(chain, text);
    let service = Service::start(config, Box::new(chain.devices[&2].clone()))?;
    chain.services.insert(2, service);
    chain.wait_until("the link is up", |statuses| {
        let mut links = statuses.values().flat_map(|status| status.links.values());
        links.all(|link| link.is_connected)
    });
    Ok(())
}

fn parse(chain: &Chain, text: &str) -> DomainConfig {
    DomainConfig::parse(text, &chain.folder.0).unwrap()
}

/// Requests a path that begins long after the test.
fn request(chain: &Chain) {
    let outcome = chain.request(3, |request| {
        request.from += Duration::from_mins(20);
    });
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
}

#[test]
fn domain_without_a_device_of_its_paths_is_refused_until_the_device_is_given_up() {
    let (mut chain, with) = with_device("given-up");
    request(&chain);
    chain.stop(2);
    let without = with.replace(DEVICE, "");
    let why = start(&mut chain, &without).unwrap_err().to_string();
    assert!(
        why.contains("no [[device]] for eth1") && why.contains("given_up = [\"eth1\"]"),
        "{why}"
    );
    // nothing was lost
    start(&mut chain, &with).unwrap();
    assert_eq!(chain.statuses()[&2].reservations.len(), 1);
    chain.stop(2);
    let given_up = format!("given_up = [\"eth1\"]\n{without}");
    start(&mut chain, &given_up).unwrap();
    chain.wait_until("the path is released everywhere", |statuses| {
        statuses.values().all(|one| one.reservations.is_empty())
    });
    chain.stop(2);
    start(&mut chain, &without).unwrap();
    chain.assert_released();
}

#[test]
fn device_may_be_removed_once_it_has_no_circuit_and_no_path() {
    let (mut chain, with) = with_device("removed");
    request(&chain);
    chain.services[&1]
        .handle()
        .release(CorrelationId(3))
        .unwrap();
    chain.wait_until("the path is released everywhere", |statuses| {
        statuses.values().all(|one| one.reservations.is_empty())
    });
    let without = with.replace(DEVICE, "");
    // the device has not been read yet
    chain.stop(2);
    start(&mut chain, &without).unwrap_err();
    chain.devices[&2].report_empty("eth1");
    let clock = Clock::start();
    start(&mut chain, &with).unwrap();
    loop {
        chain.stop(2);
        if start(&mut chain, &without).is_ok() {
            break;
        }
        start(&mut chain, &with).unwrap();
        assert!(clock.now().since(Instant::ZERO) < PATIENCE);
    }
    chain.assert_released();
}
