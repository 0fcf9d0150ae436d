//! Two clients that book the last capacity at the same time.

use std::thread;

use lighthaul_booking_client::json::NewReservation;

use crate::test_server::{TestServer, ahead, bytes, problem};

#[test]
fn last_capacity_is_booked_once_and_the_other_client_gets_an_offer() {
    let test_server = TestServer::new();
    for round in 0..10 {
        // the whole link for a second, which only one client can get
        let start = ahead(1000 + round * 10);
        let by = lighthaul_booking_client::json::Timestamp(start.0 + 1_000_000_000);
        let request = NewReservation {
            start: Some(start),
            by: Some(by),
            commit: true,
            ..bytes(125_000_000)
        };
        let clients = ["ada", "bob"].map(|name| test_server.client(name));
        let results = thread::scope(|scope| {
            let asked = clients
                .each_ref()
                .map(|client| scope.spawn(|| client.reserve(&request)));
            asked.map(|asked| asked.join().unwrap())
        });
        let won = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(won, 1, "{results:?}");
        let lost = results
            .into_iter()
            .find(Result::is_err)
            .map(problem)
            .unwrap();
        assert_eq!(
            (lost.status, lost.kind.as_str()),
            (409, "urn:lighthaul:problem:late")
        );
        let offer = lost.counter_offer.unwrap();
        assert_eq!(offer.earliest_end.unwrap().0, by.0 + 1_000_000_000);
        // the offer is granted
        let later = NewReservation {
            by: offer.earliest_end,
            ..request
        };
        assert_eq!(
            clients[0].reserve(&later).unwrap().promised_end,
            offer.earliest_end.unwrap()
        );
        let calendar = test_server
            .client("olga")
            .calendar("a-b", start, by)
            .unwrap();
        let sum: u64 = calendar.allocations.iter().map(|part| part.bps).sum();
        assert_eq!(
            (sum, calendar.free.len(), calendar.free[0].bps),
            (1_000_000_000, 1, 0)
        );
    }
}
