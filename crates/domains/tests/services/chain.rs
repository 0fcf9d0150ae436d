//! Paths over three domains, from the request to the end.

use std::time::Duration;

use lighthaul_base::Rate;
use lighthaul_domains::Handle;
use lighthaul_stargate::{CorrelationId, Outcome, Refusal};

use super::site::{Chain, Folder, PATIENCE, book, request};

#[test]
fn path_over_three_domains_is_committed_and_released_everywhere() {
    let chain = Chain::start("path", 3, |text| text);
    let outcome = chain.request(1, |_| ());
    let Outcome::Committed { vector, legs, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(legs.len(), 1);
    assert_eq!(legs[0].len(), 2);
    let statuses = chain.statuses();
    let first = book(&statuses[&1]);
    assert_eq!(first, [(CorrelationId(1), 0, vector.to_string())].into());
    assert!(statuses.values().all(|status| book(status) == first));
    let handle = chain.services[&1].handle();
    let ticket = handle.watch(CorrelationId(1)).unwrap();
    handle.release(CorrelationId(1)).unwrap();
    assert_eq!(ticket.wait(PATIENCE).unwrap(), Some(Outcome::Released));
    chain.assert_released();
}

#[test]
fn ended_and_foreign_requests_have_no_further_outcome() {
    let chain = Chain::start("watched", 2, |text| text);
    let committed = chain.request(1, |_| ());
    assert!(
        matches!(committed, Outcome::Committed { .. }),
        "{committed:?}"
    );
    let watch = |me: u32| {
        let handle = chain.services[&me].handle();
        let ticket = handle.watch(CorrelationId(1)).unwrap();
        ticket.wait(Duration::from_secs(5))
    };
    assert!(watch(2).is_err(), "a path of another domain");
    let handle = chain.services[&1].handle();
    let ticket = handle.watch(CorrelationId(1)).unwrap();
    handle.release(CorrelationId(1)).unwrap();
    assert_eq!(ticket.wait(PATIENCE).unwrap(), Some(Outcome::Released));
    assert!(watch(1).is_err(), "a path that has ended");
    chain.assert_released();
}

#[test]
fn repeated_request_has_the_same_outcome() {
    let chain = Chain::start("repeated", 2, |text| text);
    let first = chain.request(7, |_| ());
    assert!(matches!(first, Outcome::Committed { .. }), "{first:?}");
    assert_eq!(chain.request(7, |_| ()), first);
    let statuses = chain.statuses();
    assert!(statuses.values().all(|status| book(status).len() == 1));
}

#[test]
fn path_beyond_the_limit_of_a_neighbor_is_refused_and_leaves_no_reservation() {
    // of all neighbors, domain 3 limits domain 2
    let limit = |text: String| text.replace("name = \"n2\"", "name = \"n2\"\nreservations_max = 1");
    let chain = Chain::start("limit", 3, limit);
    let first = chain.request(1, |_| ());
    assert!(matches!(first, Outcome::Committed { .. }), "{first:?}");
    let second = chain.request(2, |_| ());
    assert_eq!(second, Outcome::Refused(Refusal::Quota));
    chain.wait_until("only the first path is held", |statuses| {
        statuses.values().all(|status| {
            let held = status.reservations.iter();
            held.filter(|one| one.stored.key.id == CorrelationId(2))
                .count()
                == 0
        })
    });
    let statuses = chain.statuses();
    assert!(statuses.values().all(|status| book(status).len() == 1));
    chain.services[&1]
        .handle()
        .release(CorrelationId(1))
        .unwrap();
    chain.assert_released();
}

/// Sets up a path for little data over the first `count` domains, and waits for its end.
fn run_short_path(chain: &Chain, count: u32) {
    let mut request = request(1, count);
    request.demand.bytes = 50_000_000;
    let ticket = chain.services[&1].handle().request(request).unwrap();
    let committed = ticket.wait(PATIENCE).unwrap();
    assert!(
        matches!(committed, Some(Outcome::Committed { .. })),
        "{committed:?}"
    );
    assert_eq!(ticket.wait(PATIENCE).unwrap(), Some(Outcome::Ended));
}

#[test]
fn devices_carry_the_vector_in_all_domains_and_end_at_zero() {
    let chain = Chain::start("devices", 3, |text| text);
    run_short_path(&chain, 3);
    for devices in chain.devices.values() {
        let recorded = devices.recorded();
        let rates = recorded.changes.iter().map(|(_, change)| change.rate);
        let rates: Vec<_> = rates.collect();
        assert_eq!(rates, [Some(Rate::from_mbps(100)), None]);
        assert_eq!(recorded.resets, 1);
    }
    chain.assert_released();
}

#[test]
fn fault_of_a_device_releases_the_path_in_all_domains() {
    let chain = Chain::start("fault", 3, |text| text);
    let handle = chain.services[&1].handle();
    let ticket = handle.request(request(1, 3)).unwrap();
    let committed = ticket.wait(PATIENCE).unwrap();
    assert!(matches!(committed, Some(Outcome::Committed { .. })));
    let status = chain.services[&2].handle().status().unwrap();
    let key = status.reservations[0].stored.key;
    chain.devices[&2].fail_next((key, 0));
    let failed = Outcome::Failed(Refusal::DeviceFailed);
    assert_eq!(ticket.wait(PATIENCE).unwrap(), Some(failed));
    chain.assert_released();
}

#[test]
fn concurrent_requests_are_all_committed_and_all_books_agree() {
    let chain = Chain::start("many", 3, |text| text);
    let handle = chain.services[&1].handle();
    let tickets = (0..40).map(|id| handle.request(request(id, 3)).unwrap());
    let tickets: Vec<_> = tickets.collect();
    for ticket in &tickets {
        let outcome = ticket.wait(PATIENCE).unwrap();
        assert!(
            matches!(outcome, Some(Outcome::Committed { .. })),
            "{outcome:?}"
        );
    }
    let statuses = chain.statuses();
    let first = book(&statuses[&1]);
    assert_eq!(first.len(), 40);
    assert!(statuses.values().all(|status| book(status) == first));
    for ticket in &tickets {
        handle.release(ticket.id).unwrap();
    }
    chain.assert_released();
}

#[test]
fn unknown_requests_and_requests_beyond_the_limit_have_no_outcome() {
    let limit = |text: String| format!("requests_max = 1\n{text}");
    let mut chain = Chain::start("requests", 2, limit);
    chain.stop(2);
    let handle = chain.services[&1].handle();
    let mut soon = request(1, 2);
    soon.till = soon.from + Duration::from_secs(20);
    let first = handle.request(soon).unwrap();
    let second = handle.request(request(2, 2)).unwrap();
    let why = second.wait(PATIENCE).unwrap_err().to_string();
    assert!(why.contains("requests_max = 1 is reached"), "{why}");
    let outcome = first.wait(PATIENCE).unwrap();
    assert_eq!(outcome, Some(Outcome::Refused(Refusal::NoAnswer)));
    let unknown = handle.watch(Handle::new_id()).unwrap();
    assert!(unknown.wait(PATIENCE).is_err());
    // the first request has its outcome, so another one is taken
    let third = handle.request(request(3, 2)).unwrap();
    let waiting = third.wait(Duration::from_millis(100)).unwrap();
    assert_eq!(waiting, None);
    handle.release(third.id).unwrap();
    let released = Outcome::Refused(Refusal::Released);
    assert_eq!(third.wait(PATIENCE).unwrap(), Some(released));
    chain.stop(1);
    let why = handle.request(request(4, 2)).unwrap_err().to_string();
    assert!(why.contains("has stopped"), "{why}");
}

#[test]
fn path_over_an_absent_domain_is_refused_after_the_query_timeout() {
    let mut chain = Chain::start("away", 3, |text| text);
    chain.stop(3);
    let outcome = chain.request(1, |request| {
        request.till = request.from + Duration::from_secs(20);
    });
    assert!(
        matches!(outcome, Outcome::Refused(Refusal::NoAnswer)),
        "{outcome:?}"
    );
    chain.restart(3);
    let outcome = chain.request(2, |_| ());
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    chain.services[&1]
        .handle()
        .release(CorrelationId(2))
        .unwrap();
    chain.assert_released();
}

#[test]
fn program_of_a_device_gets_the_rates_of_a_path() {
    let log = Folder::path("program").join("requests");
    let path = log.display();
    let script = format!(
        "while read -r request; do echo \"$request\" >> {path}; seq=${{request#*:}}; seq=${{seq%%,*}}; \
         case \"$request\" in *hello*) content='{CAPABLE}';; *inspect*) content='\"circuits\":[]';; \
         *) content='\"results\":[null]';; esac; echo \"{{\\\"seq\\\":$seq,$content}}\"; done"
    );
    let tables = format!(
        "[[device]]\ninterface = \"1/1/3\"\nprogram = \"/bin/sh\"\narguments = [\"-c\", '''{script}''']\n\
         [[circuit]]\ningress = 1\negress = 102\ninterface = \"1/1/3\"\nflow = \"udp 10.0.0.2/32\"\n"
    );
    // only domain 2 has such a device
    let with_device = |text: String| {
        let is_second = text.starts_with("domain = 2\n");
        if is_second { text + &tables } else { text }
    };
    let chain = Chain::start("program", 2, with_device);
    run_short_path(&chain, 2);
    let requests = std::fs::read_to_string(&log).unwrap();
    let has = |line: &str, words: [&str; 2]| words.iter().all(|word| line.contains(word));
    let expected = [
        ["hello", "versions"],
        ["inspect", "seq"],
        ["apply", "\"rate_bps\":100000000"],
        ["remove", "\"id\":4294967398"],
    ];
    let lines: Vec<&str> = requests.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{requests}");
    for (line, words) in lines.iter().zip(expected) {
        assert!(has(line, words), "{requests}");
    }
    chain.assert_released();
}

const CAPABLE: &str = r#""version":1,"capabilities":{"rate_min_bps":1000000,"rate_max_bps":10000000000,"granularity_bps":1000000,"reconfiguration_ns":1000,"settling_ns":0,"circuits_max":96,"counted":{"layer":"ip","overhead_bytes":38}}"#;

#[test]
fn path_that_may_start_at_once_leads_around_a_domain_that_is_down() {
    let mut ring = Chain::ring("around", 4);
    ring.stop(2);
    let wanted = request(1, 3);
    let ticket = ring.services[&1].handle().request(wanted).unwrap();
    let outcome = ticket.wait(PATIENCE).unwrap();
    let Some(Outcome::Committed { legs, .. }) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(legs[0][0].domain.0, 4);
}
