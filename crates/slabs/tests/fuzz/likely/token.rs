//! Generators of calls for an element of a cluster.

use lighthaul_slabs::token::{ElementMessage, Generation, Mark, MessageBody};
use proptest::prelude::*;

pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let mark = (0_u64..4, 0_u64..6).prop_map(|(generation, sequence)| Mark {
        generation: Generation(generation << 8),
        sequence,
    });
    let few = || (0_u64..40).prop_map(|count| Generation(count << 6));
    let beat = (
        0_u64..60,
        few(),
        any::<bool>(),
        prop::option::of(mark.clone()),
    );
    let body = prop_oneof![
        4 => beat.prop_map(|(count, generation_min, wants, holds)| {
            let serves = count % 2 == 0;
            MessageBody::Beat { count, generation_min, wants, serves, holds }
        }),
        2 => (mark, 0_u64..60).prop_map(|(mark, beat)| MessageBody::Token { mark, beat }),
        1 => few().prop_map(|generation| MessageBody::Propose { generation }),
        1 => (few(), any::<bool>()).prop_map(|(generation, agreed)| MessageBody::Answer { generation, agreed }),
    ];
    let said = (1_u8..4, body, 0_u8..4).prop_map(|(from, body, wait)| {
        let octets = ElementMessage { from, to: 0, body }.encode();
        [&[1, wait, 0, octets.len() as u8], octets.as_slice()].concat()
    });
    let call = prop_oneof![
        4 => said,
        2 => (0_u8..255).prop_map(|wait| vec![3, wait, 0]),
        1 => any::<bool>().prop_map(|wants| vec![u8::from(wants) << 2, 0, 9]),
    ];
    (1_u8..4, prop::collection::vec(call, 0..60))
        .prop_map(|(first, calls)| [vec![first], calls.concat()].concat())
}
