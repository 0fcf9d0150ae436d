use proptest::prelude::*;

/// Generates a valid link, followed by mostly valid calls.
pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let link = (
        1_u16..60,
        0_u16..3_000,
        1_u8..9,
        0_u16..2_000,
        16_u8..40,
        44_u8..,
    )
        .prop_map(|(packet_len, settle, slab_pages, age, pages_max, window)| {
            let mut octets = packet_len.to_be_bytes().to_vec();
            octets.push(44);
            octets.extend(settle.to_be_bytes());
            octets.extend([39, 15, slab_pages]);
            octets.extend(age.to_be_bytes());
            octets.extend([pages_max, window]);
            octets
        });
    (link, prop::collection::vec(call(), 0..200))
        .prop_map(|(link, calls)| [link, calls.concat()].concat())
}

fn call() -> impl Strategy<Value = Vec<u8>> {
    let (session, side) = (0_u8..4, prop_oneof![Just(0_u8), Just(0x80)]);
    let about =
        prop_oneof![3 => Just(2_u8), 1 => Just(3), 8 => Just(4), 2 => Just(5), 2 => Just(6)];
    let what = prop_oneof![
        2 => (0_u32..20_000_000).prop_map(|nanos| [&[0][..], &nanos.to_be_bytes()].concat()),
        1 => (1_u64..1_000_000_000).prop_map(|rate| [&[1][..], &rate.to_be_bytes()].concat()),
        16 => (about, session, any::<[u8; 2]>())
            .prop_map(|(what, id, number)| vec![what, id, number[0], number[1]]),
        4 => Just(vec![7]),
        8 => (0_u8..8).prop_map(|good| vec![8, good]),
        4 => any::<u8>().prop_map(|pages| vec![9, pages]),
        16 => Just(vec![10]),
        4 => any::<u8>().prop_map(|nth| vec![11, nth]),
        1 => Just(vec![12]),
        1 => Just(vec![13]),
        1 => message().prop_map(|head| {
            [&[15, 1, 0, 0, head.len() as u8][..], &head].concat()
        }),
    ];
    (side, what).prop_map(|(side, mut octets)| {
        octets[0] |= side;
        octets
    })
}

/// Generates a message with small numbers.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let small = (0_u8..50).prop_map(|number| [0, 0, 0, 0, 0, 0, 0, number]);
    let record = (0_u8..4, small.clone(), 0_u8..200).prop_map(|(id, offset, len)| {
        [&[id; 16][..], &offset, &[0, 0, 0, len, 0, 0, 0, 0, 0]].concat()
    });
    prop_oneof![
        (
            small.clone(),
            small.clone(),
            prop::collection::vec(record, 1..3)
        )
            .prop_map(|(slab, page, records)| [&[4][..], &slab, &page, &records.concat()].concat()),
        (5_u8..9, small.clone(), prop::collection::vec(0_u8..4, 0..3))
            .prop_map(|(kind, number, rest)| [&[kind][..], &number, &rest].concat()),
        (0_u8..4, small).prop_map(|(id, limit)| [&[9][..], &[id; 16], &limit].concat()),
    ]
}
