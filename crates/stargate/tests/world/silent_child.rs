//! A domain that agrees to a commit and never answers again.

use std::time::Duration;

use lighthaul_base::trc::{Step, Trc};
use lighthaul_stargate::{Body, CorrelationId, Domain, Key, Refusal};

use crate::misbehavior::{A, B, C, Player, hold, key, plan, refusal};
use crate::plan::CHANNEL;

#[test]
fn silent_child_takes_neither_the_quota_of_others_nor_more_than_its_share_of_memory() {
    let plan = plan(3, false);
    let mut config = plan.config(B);
    config.neighbors.get_mut(&A).unwrap().reservations_max = 2;
    let mut player = Player::new(&plan, B);
    player.domain = Domain::new(config, plan.topology(), plan.resources(B), 3);
    let end = player.now + Duration::from_hours(1);
    let ask = |player: &mut Player, ends_in, id| {
        let mut body = hold(&plan, player.now, ends_in);
        if let Body::Hold { key, vector, .. } = &mut body {
            key.id = CorrelationId(id);
            let step = Step {
                from: vector.start(),
                till: end,
                rate: CHANNEL,
            };
            *vector = Trc::new(vec![step]).unwrap();
        }
        let answers = player.hear(A, body);
        let key = Key {
            id: CorrelationId(id),
            ..key()
        };
        (key, answers)
    };
    let mut refusals = Vec::new();
    for id in 0..300 {
        let (key, answers) = ask(&mut player, C, id);
        refusals.extend(refusal(&answers));
        player.hear(C, Body::Held { key });
        player.hear(A, Body::Commit { key });
        // C has committed, or not: its answer never comes
        player.hear(A, Body::Abort { key });
    }
    assert_eq!(refusals, vec![Refusal::NoAnswer; 300 - 256]);
    assert_eq!(player.domain.reservations().count(), 256);
    assert_eq!(player.held(), 0);
    // A did nothing wrong, and this path does not need C
    let (key, answers) = ask(&mut player, B, 1000);
    assert_eq!(answers, [(A, Body::Held { key })]);
    // C is back
    for id in 0..256 {
        let key = Key {
            id: CorrelationId(id),
            ..key
        };
        let refusal = Refusal::Aborted;
        player.hear(C, Body::Aborted { key, refusal });
    }
    player.hear(A, Body::Abort { key });
    // what has ended everywhere is remembered until the end of its hold
    player.wait(6);
    let (_, answers) = ask(&mut player, C, 1001);
    assert_eq!(refusal(&answers), None);
    player.wait(2 * 3600);
    player.wait(60);
    assert_eq!(player.domain.reservations().count(), 0);
}
