use proptest::prelude::*;

pub fn calls() -> impl Strategy<Value = Vec<u8>> {
    let begin = (any::<[u8; 2]>(), 1_u16..2000);
    let calls = prop::collection::vec(any::<u8>(), 0..400);
    (begin, calls).prop_map(|((object_len, packet_len), calls)| {
        let (packet_len, rate) = (packet_len.to_be_bytes(), u64::MAX.to_be_bytes());
        [&object_len[..], &packet_len, &rate, &calls].concat()
    })
}
