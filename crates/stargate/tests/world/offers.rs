//! Offers to a caller and to a neighbor.

use std::time::Duration;

use lighthaul_base::trc::Step;
use lighthaul_stargate::{Body, CorrelationId, Offer, Outcome};

use crate::misbehavior::{A, B, C, Player, plan, request};
use crate::plan::CHANNEL;

#[test]
fn preview_has_the_best_offer_and_sends_no_hold() {
    let plan = plan(4, true);
    let mut player = Player::new(&plan, A);
    player.domain.preview(player.now, request(C, 60));
    player.drain();
    for (to, body) in player.sent.clone() {
        let Body::Query {
            query, from, till, ..
        } = body
        else {
            panic!("{body:?}");
        };
        // the path over B ends earlier
        let from = from + Duration::from_mins(u64::from(to != B));
        let rate = CHANNEL;
        let offer = Offer::new(rate, vec![Step { from, till, rate }]).unwrap();
        let sent = player.hear(to, Body::Offer { query, offer });
        assert_eq!(sent, []);
    }
    let [Outcome::Offered(planned)] = player.outcomes.as_slice() else {
        panic!("{:?}", player.outcomes);
    };
    assert_eq!(planned.children[0].neighbor, B);
    assert_eq!(planned.vector.steps()[0].rate, CHANNEL);
    assert!(!player.domain.is_searching(CorrelationId(5)));
    assert_eq!(player.domain.reservations().count(), 0);
    assert_eq!(player.domain.resources().calendar().bookings().count(), 0);
    player.wait(60);
    assert_eq!((player.sent.len(), player.outcomes.len()), (0, 1));
}
